package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

func (b *buyer) cancellations() *cobra.Command {
	cmd := &cobra.Command{
		Use: "esims", Args: noArgs, Short: "Let the cancellation of an eSIM go on", RunE: help,
	}
	var reason, key string
	retry := &cobra.Command{
		Use: "retry-cancel ORDER", Args: oneArg,
		Short: "Let the cancellation of an order's eSIM that waits for an operator go on from its stage",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			ctx := roamcard.WithIdempotencyKey(cmd.Context(), first(key, roamcard.NewKey()))
			res, err := client.Admin().RetryEsimCancellation(ctx, &roamcardv1.RetryEsimCancellationRequest{
				OrderId: args[0], Reason: reason,
			})
			if err != nil {
				return err
			}
			return b.show(cmd, res.GetCancellation(), func(w io.Writer) { showCancellation(w, res.GetCancellation()) })
		}),
	}
	actionFlags(retry, &reason, &key)
	cmd.AddCommand(retry)
	return cmd
}
