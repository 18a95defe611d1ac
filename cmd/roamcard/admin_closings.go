package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

func (b *buyer) closings() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cards", Args: noArgs, Short: "Close a card for good, and see how far closings are", RunE: help,
	}
	cmd.AddCommand(
		b.closing("close CARD", "Close a card: what is left on it is taken back and refunded to its owner on chain",
			func(ctx context.Context, c *roamcard.Client, id, reason string) (*roamcardv1.CardClosing, error) {
				res, err := c.Admin().CloseCard(ctx, &roamcardv1.CloseCardRequest{Id: id, Reason: reason})
				return res.GetClosing(), err
			}),
		b.retryClosing(),
		b.concludeClosing(),
		b.closingsList(),
	)
	return cmd
}

func (b *buyer) retryClosing() *cobra.Command {
	var revision uint32
	cmd := b.closing("retry CLOSING", "Let a closing that waits for an operator go on from its stage",
		func(ctx context.Context, c *roamcard.Client, id, reason string) (*roamcardv1.CardClosing, error) {
			res, err := c.Admin().RetryCardClosing(ctx, &roamcardv1.RetryCardClosingRequest{
				Id: id, Reason: reason, Revision: seen(revision),
			})
			return res.GetClosing(), err
		})
	revisionFlag(cmd, &revision)
	return cmd
}

func (b *buyer) concludeClosing() *cobra.Command {
	var transaction string
	var revision uint32
	cmd := b.closing("conclude CLOSING", "Let a closing go on whose remainder was refunded by hand, by the transaction",
		func(ctx context.Context, c *roamcard.Client, id, reason string) (*roamcardv1.CardClosing, error) {
			res, err := c.Admin().ConcludeCardClosing(ctx, &roamcardv1.ConcludeCardClosingRequest{
				Id: id, Transaction: transaction, Reason: reason, Revision: seen(revision),
			})
			return res.GetClosing(), err
		})
	cmd.Flags().StringVar(&transaction, "transaction", "", "the hash of the transaction that refunded the remainder")
	_ = cmd.MarkFlagRequired("transaction")
	revisionFlag(cmd, &revision)
	return cmd
}

func (b *buyer) closing(
	use, short string,
	do func(ctx context.Context, c *roamcard.Client, id, reason string) (*roamcardv1.CardClosing, error),
) *cobra.Command {
	var reason, key string
	cmd := &cobra.Command{
		Use: use, Args: oneArg, Short: short,
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			ctx := roamcard.WithIdempotencyKey(cmd.Context(), first(key, roamcard.NewKey()))
			closing, err := do(ctx, client, args[0], reason)
			if err != nil {
				return err
			}
			return b.show(cmd, closing, func(w io.Writer) {
				closingText(w, closing)
				pendingText(w, closing.GetPendingApproval())
			})
		}),
	}
	actionFlags(cmd, &reason, &key)
	return cmd
}

func (b *buyer) closingsList() *cobra.Command {
	var status string
	cmd := &cobra.Command{
		Use: "closings", Args: noArgs, Short: "List the closings of cards, newest first",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			all, err := roamcard.Collect(client.Admin().CardClosings(cmd.Context(), status))
			if err != nil {
				return err
			}
			return b.show(cmd, &roamcardv1.ListCardClosingsResponse{Closings: all}, func(w io.Writer) {
				fmt.Fprintln(w, "CLOSING\tCARD\tSTATUS\tSTAGE\tUSD\tREASON")
				for _, c := range all {
					closingText(w, c)
				}
			})
		}),
	}
	cmd.Flags().StringVar(&status, "status", "", "only queued, processing, succeeded or operator_review")
	complete(cmd, "status", fixed("queued", "processing", "succeeded", "operator_review"))
	return cmd
}

func closingText(w io.Writer, c *roamcardv1.CardClosing) {
	left := "-"
	if c.RemainderUsdCents != nil {
		left = dollars(c.GetRemainderUsdCents())
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", c.GetId(), c.GetCardId(), c.GetStatus(), c.GetStage(), left, c.GetReason())
}
