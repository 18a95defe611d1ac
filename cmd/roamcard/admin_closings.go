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
	cmd.AddCommand(b.closeCard(), b.retryClosing(), b.concludeClosing(), b.closingsList())
	return cmd
}

func (b *buyer) closeCard() *cobra.Command {
	return action[*roamcardv1.CardClosing]{
		use:   "close CARD",
		short: "Close a card: what is left on it is taken back and refunded to its owner on chain",
		do: func(
			ctx context.Context, to roamcard.Admin, args []string, reason string,
		) (*roamcardv1.CardClosing, error) {
			res, err := to.CloseCard(ctx, &roamcardv1.CloseCardRequest{Id: args[0], Reason: reason})
			return res.GetClosing(), err
		},
		text: closingText,
	}.command(b)
}

func (b *buyer) retryClosing() *cobra.Command {
	var revision uint32
	cmd := action[*roamcardv1.CardClosing]{
		use: "retry CLOSING", short: "Let a closing that waits for an operator go on from its stage",
		do: func(
			ctx context.Context, to roamcard.Admin, args []string, reason string,
		) (*roamcardv1.CardClosing, error) {
			res, err := to.RetryCardClosing(ctx, &roamcardv1.RetryCardClosingRequest{
				Id: args[0], Reason: reason, Revision: seen(revision),
			})
			return res.GetClosing(), err
		},
		text: closingText,
	}.command(b)
	revisionFlag(cmd, &revision)
	return cmd
}

func (b *buyer) concludeClosing() *cobra.Command {
	var transaction string
	var revision uint32
	cmd := action[*roamcardv1.CardClosing]{
		use:   "conclude CLOSING",
		short: "Let a closing go on whose remainder was refunded by hand, by the transaction",
		do: func(
			ctx context.Context, to roamcard.Admin, args []string, reason string,
		) (*roamcardv1.CardClosing, error) {
			res, err := to.ConcludeCardClosing(ctx, &roamcardv1.ConcludeCardClosingRequest{
				Id: args[0], Transaction: transaction, Reason: reason, Revision: seen(revision),
			})
			return res.GetClosing(), err
		},
		text: closingText,
	}.command(b)
	cmd.Flags().StringVar(&transaction, "transaction", "", "the hash of the transaction that refunded the remainder")
	_ = cmd.MarkFlagRequired("transaction")
	revisionFlag(cmd, &revision)
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
	choose(cmd, "status", "queued", "processing", "succeeded", "operator_review")
	return cmd
}

func closingText(w io.Writer, c *roamcardv1.CardClosing) {
	left := "-"
	if c.RemainderUsdCents != nil {
		left = dollars(c.GetRemainderUsdCents())
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", c.GetId(), c.GetCardId(), c.GetStatus(), c.GetStage(), left, c.GetReason())
}
