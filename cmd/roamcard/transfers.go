package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

func (b *buyer) transfers() *cobra.Command {
	cmd := &cobra.Command{
		Use: "transfers", Args: noArgs, Short: "USDC that reached the payee and belongs to no order", RunE: help,
	}
	cmd.AddCommand(b.transfersList(), b.transfersResolve())
	return cmd
}

func (b *buyer) transfersList() *cobra.Command {
	var status string
	cmd := &cobra.Command{
		Use: "list", Args: noArgs, Short: "List the transfers that comparisons of the books found, newest first",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			transfers, err := roamcard.Collect(client.Admin().Transfers(cmd.Context(), status))
			if err != nil {
				return err
			}
			return b.show(cmd, &roamcardv1.ListTransfersResponse{Transfers: transfers}, func(w io.Writer) {
				fmt.Fprintln(w, "TRANSFER\tFROM\tUSDC UNITS\tSEEN\tRESOLUTION\tBY\tREASON")
				for _, t := range transfers {
					transferText(w, t)
				}
			})
		}),
	}
	cmd.Flags().StringVar(&status, "status", "open", "open or resolved")
	choose(cmd, "status", "open", "resolved")
	return cmd
}

func (b *buyer) transfersResolve() *cobra.Command {
	var as string
	var version uint32
	cmd := action[*roamcardv1.UnmatchedTransfer]{
		use: "resolve TRANSACTION/LOG", short: "Record what has become of a transfer, permanently; no money moves",
		do: func(
			ctx context.Context, to roamcard.Admin, args []string, reason string,
		) (*roamcardv1.UnmatchedTransfer, error) {
			transaction, index, err := parseTransfer(args[0])
			if err != nil {
				return nil, err
			}
			res, err := to.ResolveTransfer(ctx, &roamcardv1.ResolveTransferRequest{
				Transaction: transaction, LogIndex: index, Resolution: strings.ReplaceAll(as, "-", "_"), Reason: reason,
				Version: seen(version),
			})
			return res.GetTransfer(), err
		},
		text: transferText,
	}.command(b)
	cmd.Flags().StringVar(&as, "as", "", "refunded-by-hand, donation or known")
	choose(cmd, "as", "refunded-by-hand", "donation", "known")
	versionFlag(cmd, &version)
	return cmd
}

// parseTransfer reads a transfer as reports write it, or with a # before its log index.
func parseTransfer(s string) (transaction string, index uint32, err error) {
	transaction, log, _ := strings.Cut(strings.ReplaceAll(s, "#", "/"), "/")
	n, err := strconv.ParseUint(log, 10, 32)
	if err != nil || transaction == "" {
		return "", 0, fmt.Errorf("%w: name the transfer as its transaction and log index, as in 0x…/5", errUsage)
	}
	return transaction, uint32(n), nil
}

func transferText(w io.Writer, t *roamcardv1.UnmatchedTransfer) {
	resolution := first(t.GetResolution(), t.GetStatus())
	fmt.Fprintf(w, "%s/%d\t%s\t%s\t%s\t%s\t%s\t%s\n", t.GetTransaction(), t.GetLogIndex(), t.GetFrom(), t.GetAmount(),
		t.GetSeenAt().AsTime().Format("2006-01-02 15:04"), resolution, t.GetOperator(), t.GetReason())
}
