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
	cmd.AddCommand(
		b.cancellation("retry-cancel ORDER",
			"Let the cancellation of an order's eSIM that waits for an operator go on from its stage",
			func(ctx context.Context, c *roamcard.Client, id, reason string) (*roamcardv1.EsimCancellation, error) {
				res, err := c.Admin().RetryEsimCancellation(ctx, &roamcardv1.RetryEsimCancellationRequest{
					OrderId: id, Reason: reason,
				})
				return res.GetCancellation(), err
			}),
		b.concludeCancellation(),
		b.cancellationsList(),
	)
	return cmd
}

func (b *buyer) concludeCancellation() *cobra.Command {
	var transaction string
	cmd := b.cancellation("conclude-cancel ORDER",
		"End the cancellation of an order's eSIM whose refund was done by hand, by the transaction",
		func(ctx context.Context, c *roamcard.Client, id, reason string) (*roamcardv1.EsimCancellation, error) {
			res, err := c.Admin().ConcludeEsimCancellation(ctx, &roamcardv1.ConcludeEsimCancellationRequest{
				OrderId: id, Transaction: transaction, Reason: reason,
			})
			return res.GetCancellation(), err
		})
	cmd.Flags().StringVar(&transaction, "transaction", "", "the hash of the transaction that refunded it")
	_ = cmd.MarkFlagRequired("transaction")
	return cmd
}

func (b *buyer) cancellation(
	use, short string,
	do func(ctx context.Context, c *roamcard.Client, id, reason string) (*roamcardv1.EsimCancellation, error),
) *cobra.Command {
	var reason, key string
	cmd := &cobra.Command{
		Use: use, Args: oneArg, Short: short,
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			ctx := roamcard.WithIdempotencyKey(cmd.Context(), first(key, roamcard.NewKey()))
			cancellation, err := do(ctx, client, args[0], reason)
			if err != nil {
				return err
			}
			return b.show(cmd, cancellation, func(w io.Writer) { showCancellation(w, cancellation) })
		}),
	}
	actionFlags(cmd, &reason, &key)
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
	complete(cmd, "status", fixed("queued", "processing", "succeeded", "operator_review"))
	return cmd
}
