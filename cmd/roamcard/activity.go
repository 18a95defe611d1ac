package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// Wallets that the service's configuration names read activity; an operator's token does not.
func activity() *cobra.Command {
	b := &buyer{asOperator: true}
	cmd := &cobra.Command{
		Use: "activity", Args: noArgs,
		Short: "What visitors did, without anything that identifies them; for wallets in activity.wallets", RunE: help,
	}
	b.flags(cmd)
	var days uint32
	show := &cobra.Command{
		Use: "show", Args: noArgs, Short: "Show the events of the last days",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			res, err := client.Admin().GetActivity(cmd.Context(), &roamcardv1.GetActivityRequest{Days: &days})
			if err != nil {
				return err
			}
			return b.show(cmd, res, func(w io.Writer) {
				fmt.Fprintf(w, "%d days\t%d events\t%d visitors\n", res.GetDays(), res.GetEvents(), res.GetVisitors())
				for _, c := range res.GetByName() {
					fmt.Fprintf(w, "%s\t%d events\t%d visitors\n", c.GetValue(), c.GetEvents(), c.GetVisitors())
				}
			})
		}),
	}
	show.Flags().Uint32Var(&days, "days", 7, "from 1 to 90")
	cmd.AddCommand(show, &cobra.Command{
		Use: "prune", Args: noArgs, Short: "Delete events that are past their retention now",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			res, err := client.Admin().PruneActivity(cmd.Context(), &roamcardv1.PruneActivityRequest{})
			if err != nil {
				return err
			}
			return b.show(cmd, res, func(w io.Writer) { fmt.Fprintf(w, "%d deleted\n", res.GetDeleted()) })
		}),
	})
	return cmd
}
