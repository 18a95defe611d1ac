package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/internal/app"
)

func mcpTools() *cobra.Command {
	b := &buyer{}
	cmd := &cobra.Command{
		Use: "mcp", GroupID: "buy", Args: noArgs,
		Short: "Serve this wallet to an agent, and call the service's read-only tools", RunE: help,
	}
	b.flags(cmd)
	cmd.AddCommand(b.mcpServe(), &cobra.Command{
		Use: "tools", Args: noArgs, Short: "List the service's tools",
		RunE: b.talk(func(cmd *cobra.Command, s *mcp.ClientSession, _ []string) error {
			res, err := s.ListTools(cmd.Context(), nil)
			if err != nil {
				return err
			}
			if b.asJSON {
				return b.showJSON(cmd, res.Tools)
			}
			for _, t := range res.Tools {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n    %s\n", line(t.Name), line(t.Description)); err != nil {
					return err
				}
			}
			return nil
		}),
	}, &cobra.Command{
		Use:   "call TOOL [ARGUMENTS]",
		Short: "Call a tool of the service with a JSON object of arguments, and print its answer",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.RangeArgs(1, 2)(cmd, args); err != nil {
				return fmt.Errorf("%w: %w", errUsage, err)
			}
			return nil
		},
		RunE: b.talk(func(cmd *cobra.Command, s *mcp.ClientSession, args []string) error {
			arguments := map[string]any{}
			if len(args) == 2 {
				if err := json.Unmarshal([]byte(args[1]), &arguments); err != nil {
					return fmt.Errorf("%w: the arguments are no JSON object: %w", errUsage, err)
				}
			}
			res, err := s.CallTool(cmd.Context(), &mcp.CallToolParams{Name: args[0], Arguments: arguments})
			if err != nil {
				return err
			}
			if res.IsError {
				for _, c := range res.Content {
					if text, ok := c.(*mcp.TextContent); ok {
						return fmt.Errorf("the tool refused: %s", text.Text)
					}
				}
				return fmt.Errorf("the tool refused")
			}
			return b.showJSON(cmd, res.StructuredContent)
		}),
	}, b.mcpInstall())
	return cmd
}

// talk gives a command a session with the service's MCP endpoint.
func (b *buyer) talk(
	act func(cmd *cobra.Command, s *mcp.ClientSession, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		r, err := b.ready()
		if err != nil {
			return err
		}
		client := mcp.NewClient(&mcp.Implementation{Name: "roamcard", Version: app.Version}, nil)
		s, err := client.Connect(cmd.Context(), &mcp.StreamableClientTransport{
			Endpoint: first(b.url, os.Getenv("ROAMCARD_URL"), r.BaseURL, defaultURL) + "/mcp",
		}, nil)
		if err != nil {
			return fmt.Errorf("connect to the service's tools: %w", err)
		}
		defer func() { _ = s.Close() }() // stateless: there is nothing to end at the service
		return act(cmd, s, args)
	}
}
