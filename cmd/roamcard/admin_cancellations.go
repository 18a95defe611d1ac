package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

func (b *buyer) cancellations() *cobra.Command {
	cmd := &cobra.Command{
		Use: "esims", Args: noArgs, RunE: help,
		Short: "Resume the cancellation of an eSIM, and see how far cancellations are",
	}
	cmd.AddCommand(b.retryCancellation(), b.concludeCancellation(), b.cancellationsList())
	return cmd
}

func (b *buyer) retryCancellation() *cobra.Command {
	return action[*roamcardv1.EsimCancellation]{
		use:   "retry-cancel ORDER",
		short: "Let the cancellation of an order's eSIM that waits for an operator go on from its stage",
		do: func(
			ctx context.Context, to roamcard.Admin, args []string, reason string,
		) (*roamcardv1.EsimCancellation, error) {
			res, err := to.RetryEsimCancellation(ctx, &roamcardv1.RetryEsimCancellationRequest{
				OrderId: args[0], Reason: reason,
			})
			return res.GetCancellation(), err
		},
		text: showCancellation,
	}.command(b)
}

func (b *buyer) concludeCancellation() *cobra.Command {
	var transaction string
	cmd := action[*roamcardv1.EsimCancellation]{
		use:   "conclude-cancel ORDER",
		short: "End the cancellation of an order's eSIM whose refund was done by hand, by the transaction",
		do: func(
			ctx context.Context, to roamcard.Admin, args []string, reason string,
		) (*roamcardv1.EsimCancellation, error) {
			res, err := to.ConcludeEsimCancellation(ctx, &roamcardv1.ConcludeEsimCancellationRequest{
				OrderId: args[0], Transaction: transaction, Reason: reason,
			})
			return res.GetCancellation(), err
		},
		text: showCancellation,
	}.command(b)
	cmd.Flags().StringVar(&transaction, "transaction", "", "the hash of the transaction that refunded it")
	_ = cmd.MarkFlagRequired("transaction")
	return cmd
}

func (b *buyer) cancellationsList() *cobra.Command {
	var status string
	cmd := &cobra.Command{
		Use: "cancellations", Args: noArgs, Short: "List the cancellations of eSIMs, newest first",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			all, err := roamcard.Collect(client.Admin().EsimCancellations(cmd.Context(), status))
			if err != nil {
				return err
			}
			return b.show(cmd, &roamcardv1.ListEsimCancellationsResponse{Cancellations: all}, func(w io.Writer) {
				fmt.Fprintln(w, "ORDER\tSTATUS\tSTAGE\tREFUND\tREASON")
				for _, c := range all {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", c.GetOrderId(), c.GetStatus(), c.GetStage(), c.GetRefundAmount(),
						c.GetReason())
				}
			})
		}),
	}
	cmd.Flags().StringVar(&status, "status", "", "only queued, processing, succeeded or operator_review")
	choose(cmd, "status", "queued", "processing", "succeeded", "operator_review")
	return cmd
}
