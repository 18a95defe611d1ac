package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

func (b *buyer) adminOrders() *cobra.Command {
	cmd := &cobra.Command{
		Use: "orders", Args: noArgs, Short: "Orders that need an operator, and the full history of one", RunE: help,
	}
	cmd.AddCommand(b.ordersQueue(), b.ordersCount(), b.ordersInspect(), b.ordersReview(), b.ordersDecide(),
		b.ordersProve())
	return cmd
}

func (b *buyer) ordersQueue() *cobra.Command {
	var status, kind, owner, transaction, request, sort string
	cmd := &cobra.Command{
		Use: "queue", Aliases: []string{"stuck"}, Args: noArgs,
		Short: "List orders, oldest first: those that wait for an operator, or those that the flags select",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			queue, err := roamcard.Collect(client.Admin().FindOrders(cmd.Context(), &roamcardv1.ListOrderQueueRequest{
				Status: given(status), Kind: given(kind), Owner: given(owner), Transaction: given(transaction),
				RequestId: given(request), Sort: given(sort),
			}))
			if err != nil {
				return err
			}
			return b.show(cmd, &roamcardv1.ListOrderQueueResponse{Orders: queue}, func(w io.Writer) {
				fmt.Fprintln(w, "ORDER\tKIND\tSTATUS\tUSD\tSINCE\tREASON")
				for _, o := range queue {
					reviewItemText(w, o)
				}
			})
		}),
	}
	cmd.Flags().StringVar(&status, "status", "",
		"the status to list (default: operator_review, or any with --owner, --transaction or --request)")
	complete(cmd, "status",
		fixed("settling", "settled", "provisioning", "fulfilled", "refund_pending", "refunded", "operator_review"))
	cmd.Flags().StringVar(&kind, "kind", "", "only card_issue, card_topup, esim or esim_topup")
	choose(cmd, "kind", "card_issue", "card_topup", "esim", "esim_topup")
	cmd.Flags().StringVar(&owner, "owner", "", "only orders that this wallet pays")
	cmd.Flags().StringVar(&transaction, "transaction", "", "only the order that this transaction paid for or refunded")
	cmd.Flags().StringVar(&request, "request", "",
		"only orders that this request created, paid or decided: what answers call X-Request-Id or requestId")
	cmd.Flags().StringVar(&sort, "sort", "oldest", "oldest or newest first")
	choose(cmd, "sort", "oldest", "newest")
	return cmd
}

func (b *buyer) ordersCount() *cobra.Command {
	return &cobra.Command{
		Use: "count", Args: noArgs, Short: "Count the orders that are not final, by kind and status",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			res, err := client.Admin().CountOrders(cmd.Context(), &roamcardv1.CountOrdersRequest{})
			if err != nil {
				return err
			}
			return b.show(cmd, res, func(w io.Writer) {
				fmt.Fprintln(w, "KIND\tSTATUS\tORDERS\tSINCE")
				for _, c := range res.GetCounts() {
					fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", c.GetKind(), c.GetStatus(), c.GetCount(),
						c.GetSince().AsTime().Format("2006-01-02 15:04"))
				}
			})
		}),
	}
}

func (b *buyer) ordersInspect() *cobra.Command {
	return &cobra.Command{
		Use: "show ORDER", Args: oneArg, Short: "Show payments, refund, jobs, provider references and every move of an order",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			history, err := client.Admin().InspectOrder(cmd.Context(), &roamcardv1.InspectOrderRequest{OrderId: args[0]})
			if err != nil {
				return err
			}
			return b.show(cmd, history, func(w io.Writer) { historyText(w, history) })
		}),
	}
}

func (b *buyer) ordersReview() *cobra.Command {
	return &cobra.Command{
		Use: "review ORDER", Args: oneArg,
		Short: "Show what can be done with an order, its version, its postings and what operators did with it",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			review, err := client.Admin().ReviewOrder(cmd.Context(), &roamcardv1.ReviewOrderRequest{OrderId: args[0]})
			if err != nil {
				return err
			}
			return b.show(cmd, review, func(w io.Writer) { reviewText(w, review) })
		}),
	}
}

func (b *buyer) ordersDecide() *cobra.Command {
	var version uint32
	cmd := action[*roamcardv1.ReviewItem]{
		use: "decide ORDER refund|retry|fulfilled", short: "Decide about an order in operator_review",
		args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 || !slices.Contains([]string{"refund", "retry", "fulfilled"}, args[1]) {
				return fmt.Errorf("%w: name an order and refund, retry or fulfilled", errUsage)
			}
			return nil
		},
		do: func(
			ctx context.Context, to roamcard.Admin, args []string, reason string,
		) (*roamcardv1.ReviewItem, error) {
			res, err := to.DecideOrder(ctx, &roamcardv1.DecideOrderRequest{
				OrderId: args[0], Action: args[1], Reason: reason, Version: seen(version),
			})
			return res.GetOrder(), err
		},
		text: reviewItemText,
	}.command(b)
	versionFlag(cmd, &version)
	return cmd
}

func (b *buyer) ordersProve() *cobra.Command {
	var version uint32
	cmd := action[*roamcardv1.ReviewItem]{
		use:   "prove ORDER TRANSACTION",
		short: "Name the transaction that made an order's payment; the chain must show it there",
		args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("%w: name an order and a transaction", errUsage)
			}
			return nil
		},
		do: func(
			ctx context.Context, to roamcard.Admin, args []string, reason string,
		) (*roamcardv1.ReviewItem, error) {
			res, err := to.ProvePayment(ctx, &roamcardv1.ProvePaymentRequest{
				OrderId: args[0], Transaction: args[1], Reason: reason, Version: seen(version),
			})
			return res.GetOrder(), err
		},
		text: reviewItemText,
	}.command(b)
	versionFlag(cmd, &version)
	return cmd
}

func (b *buyer) switches() *cobra.Command {
	cmd := &cobra.Command{Use: "switches", Args: noArgs, Short: "Close and open the sale of a product", RunE: help}
	cmd.AddCommand(&cobra.Command{
		Use: "list", Args: noArgs, Short: "Show which products and providers are closed, since when and why",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			res, err := client.Admin().ListSwitches(cmd.Context(), &roamcardv1.ListSwitchesRequest{})
			if err != nil {
				return err
			}
			return b.show(cmd, res, func(w io.Writer) {
				fmt.Fprintln(w, "PRODUCT\tPAUSED\tBY CONFIG\tBY\tREASON")
				for _, s := range res.GetSwitches() {
					switchText(w, s)
				}
			})
		}),
	}, b.setSwitch("pause", "Close the sale of card_issue, card_topup, esim or esim_topup, or over provider.NAME; "+
		"orders that were paid go on", true),
		b.setSwitch("resume", "Open the sale of card_issue, card_topup, esim or esim_topup, or over provider.NAME, again",
			false))
	return cmd
}

func (b *buyer) setSwitch(name, short string, paused bool) *cobra.Command {
	cmd := action[*roamcardv1.Switch]{
		use: name + " PRODUCT", short: short,
		do: func(ctx context.Context, to roamcard.Admin, args []string, reason string) (*roamcardv1.Switch, error) {
			res, err := to.SetSwitch(ctx, &roamcardv1.SetSwitchRequest{Product: args[0], Paused: &paused, Reason: reason})
			return res.GetSwitch(), err
		},
		text: switchText,
	}.command(b)
	cmd.ValidArgsFunction = firstArg(fixed("card_issue", "card_topup", "esim", "esim_topup"))
	return cmd
}

// given is a text, or nothing when it is empty.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func reviewItemText(w io.Writer, o *roamcardv1.ReviewItem) {
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", o.GetOrderId(), o.GetKind(), o.GetStatus(), dollars(o.GetAmountUsdCents()),
		o.GetSince().AsTime().Format("2006-01-02 15:04"), o.GetReason())
}

func switchText(w io.Writer, s *roamcardv1.Switch) {
	fmt.Fprintf(w, "%s\t%v\t%v\t%s\t%s\n", s.GetProduct(), s.GetPaused(), s.GetPausedByConfig(), s.GetOperator(),
		s.GetReason())
}

func historyText(w io.Writer, history *roamcardv1.InspectOrderResponse) {
	orderText(w, history.GetOrder())
	fmt.Fprintf(w, "owner\t%s\n", history.GetOwner())
	if history.RequestId != nil {
		fmt.Fprintf(w, "created by\trequest %s\n", history.GetRequestId())
	}
	for _, p := range history.GetPayments() {
		fmt.Fprintf(w, "payment\t%s %s %s\n", p.GetStatus(), p.GetTransaction(), p.GetDeadReason())
	}
	if r := history.GetRefund(); r != nil {
		fmt.Fprintf(w, "refund\t%s %s to %s\n", r.GetStatus(), r.GetTransaction(), r.GetTo())
	}
	for _, j := range history.GetJobs() {
		fmt.Fprintf(w, "job\t%s %s, attempt %d, step %q %s\n", j.GetKind(), j.GetStatus(), j.GetAttempt(), j.GetStep(),
			j.GetLastError())
	}
	for _, r := range history.GetReferences() {
		fmt.Fprintf(w, "reference\t%s %d: %s\n", r.GetStep(), r.GetVersion(), r.GetReference())
	}
	for _, m := range history.GetTimeline() {
		fmt.Fprintf(w, "%s\t%s -> %s by %s: %s\n", m.GetAt().AsTime().Format("15:04:05"), m.GetFrom(), m.GetTo(),
			m.GetActor(), m.GetReason())
		if m.RequestId != nil {
			fmt.Fprintf(w, "\t  request %s\n", m.GetRequestId())
		}
		for _, e := range m.GetEvidence() {
			fmt.Fprintf(w, "\t  %s\n", e)
		}
	}
}

func reviewText(w io.Writer, review *roamcardv1.ReviewOrderResponse) {
	for _, p := range review.GetPostings() {
		for _, e := range p.GetEntries() {
			fmt.Fprintf(w, "posted\t%s %s %s\n", p.GetKind(), e.GetAccount(), e.GetUnits())
		}
	}
	for _, r := range review.GetAudit() {
		fmt.Fprintf(w, "audit\t%s %s by %s: %s\n", r.GetAt().AsTime().Format("2006-01-02 15:04:05"), r.GetAction(),
			r.GetActor(), r.GetReason())
	}
	fmt.Fprintf(w, "version\t%d\n", review.GetOrder().GetVersion())
	actionsText(w, review.GetAllowedActions())
}

func actionsText(w io.Writer, all []*roamcardv1.AllowedAction) {
	for _, a := range all {
		can := "yes"
		if !a.GetAllowed() {
			can = "no: " + a.GetReason()
		}
		fmt.Fprintf(w, "can %s\t%s\n", a.GetAction(), can)
	}
}
