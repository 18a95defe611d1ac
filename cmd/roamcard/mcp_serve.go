package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/agent"
	"github.com/roamcard/roamcard/clients/agent/keys"
	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/app"
)

func (b *buyer) mcpServe() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "serve", Args: noArgs, Short: "Serve this wallet to an agent as MCP tools, over standard input and output",
		Long: "Buys cards and eSIMs for an agent, within settings that only you can change.\n" +
			"An agent's program starts it. Standard output has the protocol, standard error the log.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := logger(cmd.ErrOrStderr())
			c, err := b.agentConfig(cmd, file)
			if err != nil {
				// An agent's program shows what a tool answers, and of a process that ends only that it has.
				log.Error("no tool works", slog.Any("error", err))
				c = agent.Config{Unusable: err}
			}
			c.Version, c.Log = app.Version, log
			return agent.New(c).Run(cmd.Context(), agent.Stdio(os.Stdin, os.Stdout))
		},
	}
	settingsFlag(cmd, &file)
	return cmd
}

func (b *buyer) agentConfig(cmd *cobra.Command, file string) (agent.Config, error) {
	path, err := agentFile(file)
	if err != nil {
		return agent.Config{}, err
	}
	settings, err := agent.ReadSettings(path)
	if err != nil {
		return agent.Config{}, err
	}
	journal, err := journalOf(settings)
	if err != nil {
		return agent.Config{}, err
	}
	store, err := roamcard.NewFileStore(journal)
	if err != nil {
		return agent.Config{}, err
	}
	elsewhere := first(file, os.Getenv("ROAMCARD_AGENT_CONFIG")) // a person's shell does not know of it
	if elsewhere != "" {
		if elsewhere, err = filepath.Abs(path); err != nil {
			return agent.Config{}, err
		}
	}
	return agent.Config{
		SettingsFile: elsewhere,
		Settings:     settings, Reread: func() (agent.Settings, error) { return agent.ReadSettings(path) },
		OpenSigner: b.agentSigner(cmd, settings), Store: store, Approvals: agent.ApprovalsOf(journal),
		Presenter: presenterOf(settings),
	}, nil
}

func settingsFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "config", "",
		"the agent's settings (ROAMCARD_AGENT_CONFIG; default: agent.json in your configuration folder)")
}

// agentFile is where the settings of agents are.
func agentFile(named string) (string, error) {
	if named != "" {
		return named, nil
	}
	return stateFile("ROAMCARD_AGENT_CONFIG", "agent.json")
}

func journalOf(s agent.Settings) (string, error) {
	if s.Journal != "" {
		return s.Journal, nil
	}
	return roamcard.DefaultJournal()
}

func presenterOf(s agent.Settings) agent.Presenter {
	if s.Presenter == agent.Terminal {
		return roamcard.TerminalPresenter{}
	}
	return roamcard.BrowserPresenter{Open: agent.OpenBrowser(s.Browser)}
}

// agentSigner opens the signer that the settings name, or the wallet that the other commands use. Nobody is asked for a
// passphrase: standard input has the protocol.
func (b *buyer) agentSigner(cmd *cobra.Command, s agent.Settings) func(context.Context) (roamcard.Signer, error) {
	return func(ctx context.Context) (roamcard.Signer, error) {
		if len(s.Signer) > 0 {
			named, err := keys.Parse(s.Signer)
			if err != nil {
				return nil, err
			}
			return keys.Open(ctx, named)
		}
		if os.Getenv("ROAMCARD_WALLET_KEY") != "" {
			return nil, errKeyInEnvironment
		}
		r, err := b.ready()
		if err != nil {
			return nil, err
		}
		return b.signer(cmd, r)
	}
}

// errKeyInEnvironment keeps keys out of the files that start agents' servers, which every tool of the agent may read.
var errKeyInEnvironment = errors.New("a key in ROAMCARD_WALLET_KEY is refused here; name a signer in the settings, " +
	"or ROAMCARD_WALLET_KEY_FILE")
