package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/agent"
)

// errNobody says that there is no person to ask: an agent must not approve its own payments.
var errNobody = errors.New("approving needs a terminal, with a person at it")

func approve() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "approve KEY", GroupID: "buy", Args: oneArg, Short: "Approve a payment that an agent waits for, by its purchase key",
		Long: "Shows what an agent's tool asked to pay, and asks. A yes is for exactly these terms, once, within ten minutes.",
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
			fmt.Fprintf(w, "%s\nPay? [y/N] ", asked.Terms.Question())
			answer, err := readLine(cmd.Context(), in)
			if err != nil {
				return err
			}
			if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
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
