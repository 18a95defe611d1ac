//go:build conformance

package mcp

import (
	"context"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// addFixtures adds the tools that the conformance suite calls by name.
func addFixtures(s *sdk.Server) {
	none := json.RawMessage(`{"type":"object"}`)
	s.AddTool(&sdk.Tool{Name: "test_simple_text", Description: "Returns a fixed text.", InputSchema: none},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			text := &sdk.TextContent{Text: "This is a simple text response for testing."}
			return &sdk.CallToolResult{Content: []sdk.Content{text}}, nil
		})
	s.AddTool(&sdk.Tool{Name: "test_error_handling", Description: "Returns an error.", InputSchema: none},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return failed("This tool intentionally returns an error for testing"), nil
		})
}
