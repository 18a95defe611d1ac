package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

func orders() *cobra.Command {
	b := &buyer{}
	cmd := &cobra.Command{
		Use: "orders", GroupID: "buy", Args: noArgs, Short: "List, show and watch what the wallet has bought", RunE: help,
	}
	b.flags(cmd)
	b.paying(cmd)
	cmd.AddCommand(b.ordersList(), b.ordersShow(), b.ordersWatch(), b.ordersCreate(), b.ordersPay(), b.ordersResume())
	return cmd
}

func (b *buyer) ordersList() *cobra.Command {
	var filter roamcard.OrderFilter
	cmd := &cobra.Command{
		Use: "list", Args: noArgs, Short: "List the wallet's orders, newest first",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			all, err := roamcard.Collect(client.Orders.Find(cmd.Context(), filter))
			if err != nil {
				return err
			}
			return b.show(cmd, &roamcardv1.ListOrdersResponse{Orders: all}, func(w io.Writer) {
				fmt.Fprintln(w, "ORDER\tKIND\tSTATUS\tUSD")
				for _, o := range all {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", o.GetOrderId(), o.GetKind(), o.GetStatus(), dollars(o.GetAmountUsdCents()))
				}
			})
		}),
	}
	cmd.Flags().BoolVar(&filter.Active, "active", false, "leave out orders that are final")
	cmd.Flags().StringVar(&filter.Kind, "kind", "", "only card_issue, card_topup, esim or esim_topup")
	choose(cmd, "kind", "card_issue", "card_topup", "esim", "esim_topup")
	return cmd
}

func (b *buyer) ordersShow() *cobra.Command {
	return b.waiting(&cobra.Command{
		Use: "show ORDER", Aliases: []string{"get"}, Args: oneArg, Short: "Show one order",
		ValidArgsFunction: firstArg(b.completeOrders),
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			o, err := client.Orders.Get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return b.showFinal(cmd, o)
		}),
	})
}

func (b *buyer) ordersWatch() *cobra.Command {
	return &cobra.Command{
		Use: "watch ORDER", Args: oneArg, Short: "Follow an order until it is final, a line for each change",
		ValidArgsFunction: firstArg(b.completeOrders),
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			var told error
			err := client.Orders.Watch(cmd.Context(), args[0], func(o *roamcardv1.Order) bool {
				told = b.show(cmd, o, func(w io.Writer) {
					fmt.Fprintf(w, "%s\t%s%s\n", o.GetStatus(), o.GetIssuance().GetStatus(), o.GetTopup().GetStatus())
				})
				return told == nil
			})
			if err != nil {
				return err
			}
			return told
		}),
	}
}

func (b *buyer) ordersCreate() *cobra.Command {
	var key, topup, esim string
	cmd := &cobra.Command{
		Use: "create", Args: noArgs,
		Short: "Create an order that the wallet pays later: a card, credit with --topup, an eSIM with --esim",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) (err error) {
			var o *roamcardv1.Order
			switch {
			case topup != "" && cmd.Flags().Changed("esim"):
				return fmt.Errorf("%w: --topup and --esim are two orders", errUsage)
			case topup != "":
				amount, wrong := parseUSD(topup)
				if wrong != nil {
					return fmt.Errorf("%w: --topup: %w", errUsage, wrong)
				}
				o, err = client.Orders.CreateTopUp(cmd.Context(), amount, first(key, roamcard.NoKey))
			case cmd.Flags().Changed("esim"):
				o, err = client.Orders.CreateESIM(cmd.Context(), esim, first(key, roamcard.NewKey()))
			default:
				o, err = client.Orders.CreateCard(cmd.Context(), first(key, roamcard.NoKey))
			}
			if err != nil {
				return err
			}
			return b.showOrder(cmd, o)
		}),
	}
	cmd.Flags().StringVar(&topup, "topup", "", "dollars to fund the wallet's card with, as in 25.00")
	cmd.Flags().StringVar(&esim, "esim", "", "plan of an eSIM; an empty one is the cheapest")
	cmd.Flags().StringVar(&key, "key", "", "idempotency key; the same key gives the same order")
	complete(cmd, "esim", b.completePlans)
	return cmd
}

func (b *buyer) ordersPay() *cobra.Command {
	return b.waiting(mayPay(&cobra.Command{
		Use: "pay ORDER", Args: oneArg, Short: "Pay an order that was created, named by its id or its payable_url",
		ValidArgsFunction: firstArg(b.completePayable),
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			o, err := client.Orders.Pay(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return b.showFinal(cmd, o)
		}),
	}))
}

func (b *buyer) ordersResume() *cobra.Command {
	return b.waiting(mayPay(&cobra.Command{
		Use: "resume [KEY]", Args: optionalArg, Short: "Resume payments whose outcome is not known, with the same bytes",
		ValidArgsFunction: firstArg(b.completePending),
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			if len(args) == 1 {
				r, err := client.Resume(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return b.resumed(cmd, r)
			}
			all, err := client.ResumeAll(cmd.Context())
			if err != nil {
				return err
			}
			for _, r := range all {
				if r.Err != nil {
					err = errors.Join(err, fmt.Errorf("%s under %q: %w", r.Operation, r.Key, r.Err))
				} else {
					err = errors.Join(err, b.resumed(cmd, r))
				}
			}
			return err
		}),
	}))
}

func (b *buyer) resumed(cmd *cobra.Command, r roamcard.Resumed) error {
	return b.bought(cmd, roamcard.Purchase{Order: r.Order, IdempotencyKey: r.Key})
}
