package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/agent"
	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// errNobody says that there is no terminal: an agent must not approve its own payments.
var errNobody = errors.New("approving needs a terminal, with a person at it")

func approve() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "approve KEY", GroupID: "buy", Args: oneArg,
		Short: "Approve a payment that an agent waits for, by its purchase key",
		Long: "Shows what an agent's tool asked to pay, and asks. A yes is for exactly these terms, once, within ten " +
			"minutes.",
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := agentFile(file)
			if err != nil {
				return err
			}
			settings, err := agent.ReadSettings(path)
			if err != nil {
				return err
			}
			journal, err := journalOf(settings)
			if err != nil {
				return err
			}
			approvals := agent.ApprovalsOf(journal)
			asked, err := approvals.Find(args[0])
			if err != nil {
				return err
			}
			in, ok := cmd.InOrStdin().(*os.File)
			if !ok || !terminal(in) {
				return errNobody
			}
			w := printable{cmd.ErrOrStderr()}
			fmt.Fprintf(w, "%s\n%sPay? [y/N] ", asked.Terms.Question(), spent(cmd.Context(), settings, journal))
			answer, err := readLine(cmd.Context(), in)
			if err != nil {
				return err
			}
			if !isYes(answer) {
				return fmt.Errorf("%w: nothing was approved", roamcard.ErrApprovalDenied)
			}
			if err := approvals.Approve(asked); err != nil {
				return err
			}
			fmt.Fprintln(w, "Approved for ten minutes. The agent makes its call again now.")
			return nil
		},
	}
	settingsFlag(cmd, &file)
	return cmd
}

// spent says what was signed for in the last 24 hours, and the cap, as far as the journal can be read.
func spent(ctx context.Context, s agent.Settings, journal string) string {
	store, err := roamcard.NewFileStore(journal)
	if err != nil {
		return ""
	}
	client, err := roamcard.New(roamcard.Config{BaseURL: s.Origin, Store: store})
	if err != nil {
		return ""
	}
	budget, err := client.Budget(ctx)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("Signed for in the last 24 hours: %s of %s USD\n", budget.Spent, s.MaxPerDayUSDCents)
}
