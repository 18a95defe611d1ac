package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

func (b *buyer) reconciliations() *cobra.Command {
	cmd := &cobra.Command{
		Use: "reconciliations", Args: noArgs, Short: "The comparisons of the books that have ended", RunE: help,
	}
	cmd.AddCommand(b.reconciliationsList())
	return cmd
}

func (b *buyer) reconciliationsList() *cobra.Command {
	var outcome string
	var most int
	cmd := &cobra.Command{
		Use: "list", Args: noArgs, Short: "List comparisons of the books, newest first: how they ended and what they found",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			var all []*roamcardv1.ReconciliationRun
			for r, err := range client.Admin().Reconciliations(cmd.Context(), outcome) {
				if err != nil {
					return err
				}
				if all = append(all, r); len(all) == most {
					break
				}
			}
			return b.show(cmd, &roamcardv1.ListReconciliationsResponse{Reconciliations: all}, func(w io.Writer) {
				fmt.Fprintln(w, "ENDED\tTOOK\tOUTCOME\tBLOCKS\tORDERS\tTRANSFERS\tPOSTINGS\tNEW\tGONE\tOPEN\tRESOLVED")
				for _, r := range all {
					reconciliationText(w, r)
				}
			})
		}),
	}
	cmd.Flags().StringVar(&outcome, "outcome", "", "only those that agreed, differed, were incomplete or failed")
	choose(cmd, "outcome", "agreed", "differed", "incomplete", "failed")
	cmd.Flags().IntVar(&most, "most", 50, "how many to list")
	return cmd
}

func reconciliationText(w io.Writer, r *roamcardv1.ReconciliationRun) {
	outcome, blocks := r.GetOutcome(), fmt.Sprintf("%d-%d", r.GetFirstBlock(), r.GetLastBlock())
	if r.GetUnread() != "" {
		outcome, blocks = outcome+": "+r.GetUnread()+" unread", "-"
	}
	c := r.GetChecked()
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n",
		r.GetEndedAt().AsTime().Format("2006-01-02 15:04:05"), time.Duration(r.GetDurationMs())*time.Millisecond,
		outcome, blocks, c.GetOrders(), c.GetTransfers(), c.GetPostings(), r.GetOpened(), r.GetClosed(), r.GetOpen(),
		r.GetResolved())
}
