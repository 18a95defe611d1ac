package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/app"
)

func (b *buyer) books() *cobra.Command {
	cmd := &cobra.Command{
		Use: "books", Args: noArgs, Short: "Compare the chain's, the service's and the issuer's books, at the service",
		RunE: help,
	}
	cmd.AddCommand(&cobra.Command{
		Use: "show", Args: noArgs, Short: "Show the last comparison",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			res, err := client.Admin().GetReconciliation(cmd.Context(), &roamcardv1.GetReconciliationRequest{})
			if err != nil {
				return err
			}
			return b.showBooks(cmd, res.GetReport())
		}),
	}, &cobra.Command{
		Use: "compare", Args: noArgs, Short: "Compare them now; the exit code is 6 when they differ",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			res, err := client.Admin().Reconcile(cmd.Context(), &roamcardv1.ReconcileRequest{})
			if err != nil {
				return err
			}
			return b.showBooks(cmd, res.GetReport())
		}),
	})
	return cmd
}

func (b *buyer) showBooks(cmd *cobra.Command, r *roamcardv1.Reconciliation) error {
	err := b.show(cmd, r, func(w io.Writer) {
		fmt.Fprintf(w, "as of\t%s, blocks %d to %d\n", r.GetAt().AsTime().Format("2006-01-02 15:04:05 MST"),
			r.GetFirstBlock(), r.GetLastBlock())
		fmt.Fprintf(w, "checked\t%d orders, %d transfers, %d cards\n", r.GetChecked().GetOrders(),
			r.GetChecked().GetTransfers(), r.GetChecked().GetCards())
		for _, s := range r.GetSums() {
			fmt.Fprintf(w, "open\t%d %s, %d of them block\n", s.GetOpen(), s.GetCode(), s.GetBlocking())
		}
		for _, f := range r.GetFindings() {
			fmt.Fprintf(w, "%s\t%s %s\n", f.GetCode(), f.GetOrderId(), f.GetDetail())
		}
	})
	if err == nil && len(r.GetSums()) > 0 {
		err = app.ErrDifference
	}
	return err
}
