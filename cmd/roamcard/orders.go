package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

func orders() *cobra.Command {
	b := &buyer{}
	cmd := &cobra.Command{Use: "orders", GroupID: "buy", Args: noArgs, Short: "List, show and watch what the wallet has bought", RunE: help}
	b.flags(cmd)
	b.paying(cmd)
	cmd.AddCommand(b.ordersList(), b.ordersShow(), b.ordersWatch())
	return cmd
}

func (b *buyer) ordersList() *cobra.Command {
	var active bool
	cmd := &cobra.Command{
		Use: "list", Args: noArgs, Short: "List the wallet's orders, newest first",
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := b.open(cmd)
			if err != nil {
				return err
			}
			all, err := client.Orders(cmd.Context(), active)
			if err != nil {
				return err
			}
			return b.show(cmd, &roamcardv1.ListOrdersResponse{Orders: all}, func(w io.Writer) {
				fmt.Fprintln(w, "ORDER\tKIND\tSTATUS\tUSD")
				for _, o := range all {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", o.GetOrderId(), o.GetKind(), o.GetStatus(), dollars(o.GetAmountUsdCents()))
				}
			})
		},
	}
	cmd.Flags().BoolVar(&active, "active", false, "leave out orders that are final")
	return cmd
}

func (b *buyer) ordersShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ORDER", Args: oneArg, Short: "Show one order",
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := b.open(cmd)
			if err != nil {
				return err
			}
			o, err := client.GetOrder(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return b.showOrder(cmd, o)
		},
	}
}

func (b *buyer) ordersWatch() *cobra.Command {
	return &cobra.Command{
		Use: "watch ORDER", Args: oneArg, Short: "Follow an order until it is final, a line for each change",
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := b.open(cmd)
			if err != nil {
				return err
			}
			var told error
			err = client.WatchOrder(cmd.Context(), args[0], func(o *roamcardv1.Order) bool {
				told = b.show(cmd, o, func(w io.Writer) {
					fmt.Fprintf(w, "%s\t%s%s\n", o.GetStatus(), o.GetIssuance().GetStatus(), o.GetTopup().GetStatus())
				})
				return told == nil
			})
			if err != nil {
				return err
			}
			return told
		},
	}
}
