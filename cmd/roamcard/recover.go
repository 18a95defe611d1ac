package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/internal/app"
)

func recovery() *cobra.Command {
	var c app.RecoverConfig
	cmd := &cobra.Command{
		Use: "recover", GroupID: "operate", Args: noArgs,
		Short: "After a restore: pair what was paid, what providers have delivered and what is recorded",
		Long: "Reads the transfers to the payee up to the chain's head, and the issuer's and the eSIM supplier's " +
			"statements. Shows for each\n" +
			"transfer that belongs to no order what becomes of it: goods that were delivered for it get an order again " +
			"(adopt), money that\n" +
			"was paid not long ago waits for its payer's repeat (leave), older money goes back (return), and what is not " +
			"clear is left to\n" +
			"you (review). With --apply it does so; a second run finds nothing left to do. It may run next to the service.\n" +
			"The exit code is 6 while something is left to do or to decide.",
	}
	file := configFlag(cmd)
	f := cmd.Flags()
	f.BoolVar(&c.Apply, "apply", false, "do it")
	f.StringVar(&c.Operator, "operator", "", "who does it, for the audit trail")
	f.StringVar(&c.Reason, "reason", "", "why, for the audit trail")
	f.DurationVar(&c.RefundAfter, "return-after", 24*time.Hour,
		"how old a transfer without goods is before its money goes back")
	f.BoolVar(&c.JSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if c.Apply && (c.Operator == "" || c.Reason == "") {
			return fmt.Errorf("%w: --apply needs --operator and --reason", errUsage)
		}
		c.File, c.Out, c.Err = *file, cmd.OutOrStdout(), cmd.ErrOrStderr()
		return app.Recover(cmd.Context(), c)
	}
	return cmd
}
