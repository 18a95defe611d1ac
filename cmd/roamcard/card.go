package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

func card() *cobra.Command {
	b := &buyer{}
	cmd := &cobra.Command{
		Use: "card", GroupID: "buy", Args: noArgs, Short: "Buy a virtual card, top it up, look at it, freeze it, limit it",
		RunE: help,
	}
	b.flags(cmd)
	b.paying(cmd)
	cmd.AddCommand(b.cardBuy(), b.cardTopup(), b.cardList(), b.cardBalance(), b.cardFreeze(), b.cardUnfreeze(),
		b.cardTransactions(), b.cardLimits(), b.cardDetails(), b.cardReveal())
	return cmd
}

func (b *buyer) cardBuy() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use: "buy", Args: noArgs, Short: "Buy a card for 25.00 USDC",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			bought, err := client.Cards.Purchase(cmd.Context(), first(key, roamcard.NewKey()))
			if err != nil {
				return err
			}
			return b.bought(cmd, *bought)
		}),
	}
	b.keyed(cmd, &key)
	return b.waiting(cmd)
}

func (b *buyer) cardTopup() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use: "topup DOLLARS", Args: oneArg, Short: "Add credit to the wallet's card, from 25.00 to 250.00 USDC",
		RunE: func(cmd *cobra.Command, args []string) error {
			amount, err := parseUSD(args[0])
			if err != nil {
				return fmt.Errorf("%w: %w", errUsage, err)
			}
			client, err := b.open(cmd)
			if err != nil {
				return err
			}
			bought, err := client.Cards.TopUp(cmd.Context(), amount, first(key, roamcard.NewKey()))
			if err != nil {
				return err
			}
			return b.bought(cmd, *bought)
		},
	}
	b.keyed(cmd, &key)
	return b.waiting(cmd)
}

func (b *buyer) cardList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Args: noArgs, Short: "List the wallet's cards",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			cards, err := client.Cards.List(cmd.Context())
			if err != nil {
				return err
			}
			return b.show(cmd, &roamcardv1.ListCardsResponse{Cards: cards}, func(w io.Writer) { cardText(w, cards...) })
		}),
	}
}

func (b *buyer) cardBalance() *cobra.Command {
	return &cobra.Command{
		Use: "balance [CARD]", Args: optionalArg, Short: "Read what is on a card, from the issuer",
		ValidArgsFunction: firstArg(b.completeCards),
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			id, err := oneCard(cmd.Context(), client, args, roamcard.CardActive)
			if err != nil {
				return err
			}
			balance, err := client.Cards.Balance(cmd.Context(), id)
			if err != nil {
				return err
			}
			return b.show(cmd, balance, func(w io.Writer) {
				fmt.Fprintf(w, "%s %s\tas of %s\n", dollars(uint32(balance.GetAvailableUsdCents())), balance.GetCurrency(),
					balance.GetAsOf().AsTime().Format("2006-01-02 15:04:05 MST"))
			})
		}),
	}
}

func (b *buyer) cardFreeze() *cobra.Command {
	return b.controlling(&cobra.Command{
		Use: "freeze [CARD]", Short: "Stop a card from being used until it is unfrozen",
		Long: "Stops a card at its issuer until it is unfrozen: purchases are declined, and it cannot be topped up.",
	}, roamcard.Cards.Freeze)
}

func (b *buyer) cardUnfreeze() *cobra.Command {
	return b.controlling(&cobra.Command{
		Use: "unfreeze [CARD]", Short: "Let a card that was frozen be used again",
		Long: "Lets a card that its owner has frozen be used again. What the issuer has locked stays locked.",
	}, roamcard.Cards.Unfreeze)
}

// controlling makes a command of what changes a card, and shows the card as it is then.
func (b *buyer) controlling(
	cmd *cobra.Command,
	change func(of roamcard.Cards, ctx context.Context, cardID string) (*roamcardv1.Card, error),
) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = optionalArg, firstArg(b.completeCards)
	cmd.RunE = b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
		id, err := oneCard(cmd.Context(), client, args, roamcard.CardActive, roamcard.CardFrozen)
		if err != nil {
			return err
		}
		c, err := change(client.Cards, cmd.Context(), id)
		if err != nil {
			return err
		}
		return b.show(cmd, c, func(w io.Writer) { cardText(w, c) })
	})
	return cmd
}

func (b *buyer) cardTransactions() *cobra.Command {
	return &cobra.Command{
		Use: "transactions [CARD]", Args: optionalArg, Short: "List what a card was used for, newest first",
		ValidArgsFunction: firstArg(b.completeCards),
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			id, err := oneCard(cmd.Context(), client, args, roamcard.CardActive, roamcard.CardFrozen)
			if err != nil {
				return err
			}
			all, err := roamcard.Collect(client.Cards.Transactions(cmd.Context(), id))
			if err != nil {
				return err
			}
			listed := &roamcardv1.ListCardTransactionsResponse{CardId: id, Currency: "USD", Transactions: all}
			return b.show(cmd, listed, func(w io.Writer) {
				fmt.Fprintln(w, "WHEN\tKIND\tSTATUS\tUSD\tMERCHANT\tDECLINED FOR")
				for _, t := range all {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", t.GetAt().AsTime().Format("2006-01-02 15:04:05 MST"),
						t.GetKind(), t.GetStatus(), dollars(uint32(t.GetAmountUsdCents())), t.GetMerchant().GetName(),
						t.GetDeclineReason())
				}
			})
		}),
	}
}

func (b *buyer) cardLimits() *cobra.Command {
	var perTransaction, perMonth string
	var allow, block []string
	cmd := &cobra.Command{
		Use: "limits [CARD]", Args: optionalArg, Short: "Show what a card may be used for, or limit it",
		ValidArgsFunction: firstArg(b.completeCards),
		Long: "Without flags, shows the limits of a card. With flags, changes those that are named and leaves the others:\n" +
			"amounts are dollars, categories are merchant category codes of four digits, and none takes a limit away.\n" +
			"Allowed categories take the place of blocked ones, and the other way round.",
		Example: "  roamcard card limits --per-transaction 20 --per-month 100\n" +
			"  roamcard card limits --block 7995,5813\n  roamcard card limits --block none --per-month none",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			id, err := oneCard(cmd.Context(), client, args, roamcard.CardActive, roamcard.CardFrozen)
			if err != nil {
				return err
			}
			l, err := client.Cards.Limits(cmd.Context(), id)
			if err != nil {
				return err
			}
			set := cmd.Flags().Changed
			if set("per-transaction") || set("per-month") || set("allow") || set("block") {
				err := errors.Join(limitAmount(perTransaction, &l.PerTransaction), limitAmount(perMonth, &l.PerMonth))
				if err != nil {
					return fmt.Errorf("%w: %w", errUsage, err)
				}
				switch {
				case set("allow") && set("block"):
					return fmt.Errorf("%w: --allow and --block exclude each other", errUsage)
				case set("allow"):
					l.AllowedCategories, l.BlockedCategories = limitCategories(allow), nil
				case set("block"):
					l.AllowedCategories, l.BlockedCategories = nil, limitCategories(block)
				}
				if l, err = client.Cards.SetLimits(cmd.Context(), id, l); err != nil {
					return err
				}
			}
			return b.show(cmd, limitsMessage(id, l), func(w io.Writer) { limitsText(w, l) })
		}),
	}
	cmd.Flags().StringVar(&perTransaction, "per-transaction", "", "the most that one purchase may be, in dollars, or none")
	cmd.Flags().StringVar(&perMonth, "per-month", "", "the most that all purchases of a month may be, in dollars, or none")
	cmd.Flags().StringSliceVar(&allow, "allow", nil, "the merchant categories that alone may be used, or none")
	cmd.Flags().StringSliceVar(&block, "block", nil, "the merchant categories that may not be used, or none")
	return cmd
}

func (b *buyer) cardDetails() *cobra.Command {
	return &cobra.Command{
		Use: "details [CARD]", Args: optionalArg,
		Short:             "Show the billing address of a card, and how 3-D Secure is answered",
		ValidArgsFunction: firstArg(b.completeCards),
		Long: "Shows what merchants ask for with a card, next to its number: the billing address that belongs to it, and " +
			"how\n" +
			"its 3-D Secure challenges are answered, as far as its issuer tells. Both are the operator's.",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			id, err := oneCard(cmd.Context(), client, args, roamcard.CardActive, roamcard.CardFrozen)
			if err != nil {
				return err
			}
			d, err := client.Cards.Details(cmd.Context(), id)
			if err != nil {
				return err
			}
			return b.show(cmd, d, func(w io.Writer) { detailsText(w, d) })
		}),
	}
}

func detailsText(w io.Writer, d *roamcardv1.CardDetails) {
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, text)
		}
	}
	if b := d.GetBillingAddress(); b != nil {
		line("name", b.GetName())
		line("address", b.GetLine1())
		line("", b.GetLine2())
		line("city", b.GetCity())
		line("region", b.GetRegion())
		line("postal code", b.GetPostalCode())
		line("country", b.GetCountry())
	}
	if t := d.GetThreeDSecure(); t != nil {
		line("3-D Secure", strings.TrimSpace(t.GetMethod()+" "+t.GetDestination()))
		line("", t.GetInstructions())
	}
}

// noLimit takes a limit away.
const noLimit = "none"

// limitAmount changes a limit to what a flag says; empty leaves it as it is.
func limitAmount(text string, into *roamcard.Cents) (err error) {
	switch text {
	case "":
		return nil
	case noLimit:
		*into = 0
		return nil
	}
	*into, err = parseUSD(text)
	return err
}

func limitCategories(codes []string) []string {
	if len(codes) == 1 && codes[0] == noLimit {
		return nil
	}
	return codes
}

func limitsMessage(id string, l roamcard.CardLimits) *roamcardv1.CardLimits {
	m := &roamcardv1.CardLimits{
		CardId: id, Currency: "USD", AllowedCategories: l.AllowedCategories, BlockedCategories: l.BlockedCategories,
	}
	if l.PerTransaction > 0 {
		m.PerTransactionUsdCents = proto.Uint32(uint32(l.PerTransaction))
	}
	if l.PerMonth > 0 {
		m.PerMonthUsdCents = proto.Uint32(uint32(l.PerMonth))
	}
	return m
}

func limitsText(w io.Writer, l roamcard.CardLimits) {
	amount := func(of roamcard.Cents) string {
		if of == 0 {
			return noLimit
		}
		return dollars(uint32(of)) + " USD"
	}
	codes := func(of []string) string { return cmp.Or(strings.Join(of, " "), noLimit) }
	fmt.Fprintf(w, "per transaction\t%s\nper month\t%s\n", amount(l.PerTransaction), amount(l.PerMonth))
	if len(l.AllowedCategories) > 0 {
		fmt.Fprintf(w, "allowed categories\t%s\n", codes(l.AllowedCategories))
		return
	}
	fmt.Fprintf(w, "blocked categories\t%s\n", codes(l.BlockedCategories))
}

func (b *buyer) cardReveal() *cobra.Command {
	var present string
	cmd := &cobra.Command{
		Use: "reveal [CARD]", Args: optionalArg, Short: "Show the card to the person at this machine",
		ValidArgsFunction: firstArg(b.completeCards),
		Long: "Shows number and code once: on the terminal's other screen, or on a page that this machine serves once.\n" +
			"They never reach standard output, a file or a pipe. Some issuers show cards in a browser only, on a page\n" +
			"of the service. The browser opens a file that only you can read, which leads it to the page.",
		RunE: func(cmd *cobra.Command, args []string) error {
			var to roamcard.Presenter
			switch present {
			case "tty":
				to = roamcard.TerminalPresenter{}
			case "browser":
				to = roamcard.BrowserPresenter{Open: func(ctx context.Context, url string) error {
					openBrowser(ctx, cmd.ErrOrStderr(), url)
					return nil
				}}
			default:
				return fmt.Errorf("%w: --present is tty or browser", errUsage)
			}
			client, err := b.open(cmd)
			if err != nil {
				return err
			}
			id, err := oneCard(cmd.Context(), client, args, roamcard.CardActive)
			if err != nil {
				return err
			}
			seen, err := client.Cards.Reveal(cmd.Context(), id, to)
			if errors.Is(err, roamcard.ErrBrowserOnly) {
				return fmt.Errorf("%w: use --present browser", err)
			}
			if err != nil {
				return err
			}
			if b.asJSON {
				return b.showJSON(cmd, seen)
			}
			if seen.Reason == roamcard.OpenedInBrowser {
				fmt.Fprintln(cmd.ErrOrStderr(), "The browser shows the card, once.")
				return nil
			}
			return notSeen(seen)
		},
	}
	cmd.Flags().StringVar(&present, "present", "tty", "where to show it: tty or browser")
	choose(cmd, "present", "tty", "browser")
	return cmd
}

// notSeen says that a card was not looked at by who asked for it; nil when it was.
func notSeen(p roamcard.Presented) error {
	switch {
	case p.Seen:
		return nil
	case p.Reason == roamcard.OpenedElsewhere:
		return errors.New("the page was opened by another program than your browser, too; " +
			"if it has shown you nothing, stop the card: roamcard card freeze")
	case p.Reason == roamcard.NotPressed:
		return errors.New("the card was not looked at: nobody pressed the button of the page")
	}
	return fmt.Errorf("the card was not looked at: %s", p.Reason)
}

func cardText(w io.Writer, cards ...*roamcardv1.Card) {
	fmt.Fprintln(w, "CARD\tSTATUS\tLAST 4")
	for _, c := range cards {
		fmt.Fprintf(w, "%s\t%s\t%s\n", c.GetId(), c.GetStatus(), c.GetLast4())
	}
}

// errNoCard says that the wallet has no card to act on.
var errNoCard = errors.New("the wallet has no card")

// oneCard is the card that was named, or the wallet's only one with a status that fits.
func oneCard(
	ctx context.Context, client *roamcard.Client, args []string, fits ...roamcard.CardStatus,
) (string, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	cards, err := client.Cards.List(ctx)
	if err != nil {
		return "", err
	}
	return onlyCard(cards, fits...)
}

// onlyCard is the only one of some cards with a status that fits.
func onlyCard(cards []*roamcardv1.Card, fits ...roamcard.CardStatus) (string, error) {
	cards = slices.DeleteFunc(slices.Clone(cards), func(c *roamcardv1.Card) bool {
		return !slices.Contains(fits, roamcard.CardStatusOf(c))
	})
	names := strings.ReplaceAll(strings.Trim(fmt.Sprint(fits), "[]"), " ", " or ")
	if len(cards) == 0 {
		return "", fmt.Errorf("%w that is %s; `roamcard card list` shows its cards, and `roamcard card buy` buys one",
			errNoCard, names)
	}
	if len(cards) > 1 {
		return "", fmt.Errorf("%w: name the card; the wallet has %d that are %s", errUsage, len(cards), names)
	}
	return cards[0].GetId(), nil
}

func (b *buyer) showOrder(cmd *cobra.Command, o *roamcardv1.Order) error {
	return b.show(cmd, o, func(w io.Writer) { orderText(w, o) })
}

func orderText(w io.Writer, o *roamcardv1.Order) {
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, value)
		}
	}
	at := func(name string, t *timestamppb.Timestamp) {
		if t != nil {
			row(name, t.AsTime().Format("2006-01-02 15:04:05 MST"))
		}
	}
	row("order", o.GetOrderId())
	row("kind", o.GetKind())
	row("status", o.GetStatus())
	row("amount", dollars(o.GetAmountUsdCents())+" USD")
	if o.GetReplayed() {
		row("replayed", "yes; it was paid by an earlier request")
	}
	at("created", o.GetCreatedAt())
	row("pay at", o.GetPayableUrl())
	if o.GetPayableUrl() != "" {
		at("until", o.GetExpiresAt())
	}
	row("paid by", o.GetPayment().GetPayer())
	at("paid", o.GetPayment().GetSettledAt())
	row("transaction", o.GetPayment().GetTransaction())
	row("issuance", o.GetIssuance().GetStatus())
	row("card", o.GetIssuance().GetCardId())
	if i := o.GetIssuance(); i != nil {
		row("issue fee", dollars(i.GetCardIssueFeeUsdCents())+" USD")
		row("on the card", dollars(i.GetExpectedAvailableAfterIssueUsdCents())+" USD after the fee")
	}
	row("plan", o.GetDelivery().GetPlanId())
	row("eSIM", o.GetDelivery().GetStatus())
	row("plan", o.GetEsimTopup().GetPlanId())
	row("data", o.GetEsimTopup().GetStatus())
	row("for eSIM", o.GetEsimTopup().GetOrderId())
	row("refund", first(o.GetRefund().GetTransaction(), o.GetRefund().GetStatus()))
	row("top-up", o.GetTopup().GetStatus())
	if t := o.GetTopup(); t != nil {
		row("load fee", dollars(t.GetLoadFeeUsdCents())+" USD")
		row("credit", dollars(t.GetCardCreditUsdCents())+" USD")
	}
}
