package roamcardtest

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
)

// maxTimeout is how many seconds an offer stays good.
const maxTimeout = 120

// purchase is what a paid call buys.
type purchase struct {
	kind, description string
	// key and planID are set as the request has them; open is the order that was made first.
	key, planID string
	cents       int64
	open        *order
	// of is the eSIM that more data is for.
	of *order
}

// same says that two requests under one key are one.
func (p purchase) same(o *order) bool {
	return o.kind == p.kind && o.cents == p.cents && o.planID == p.planID && o.of == p.of
}

// sell answers a paid call: the price, or what the payment buys.
func (s *Service) sell(c call) answer {
	p, refused := s.purchase(c)
	if refused != nil {
		return *refused
	}
	header := c.header.Get(x402.HeaderSignature)
	if header == "" {
		if p.open != nil && p.open.payment != nil {
			return c.problem("order_not_payable", "The order is paid.")
		}
		return s.ask(c, p, "payment_required", "Payment required")
	}
	payment, err := x402.DecodePayment(header)
	if kind, ok := errors.AsType[*x402.PayerKindError](err); ok {
		return c.problem("payer_kind_not_accepted", kind.Detail)
	}
	if _, rejected := errors.AsType[*x402.RejectedError](err); err != nil && !rejected {
		return c.problem("payment_malformed", err.Error())
	}
	if err != nil {
		return s.ask(c, p, "payment_rejected", err.Error())
	}
	return s.take(c, p, payment)
}

// purchase reads what is bought.
func (s *Service) purchase(c call) (p purchase, refused *answer) {
	fail := func(code, detail string) (purchase, *answer) {
		a := c.problem(code, detail)
		return p, &a
	}
	if c.method == "OrderService/PayOrder" {
		o := s.order(c.text("orderId"))
		if o == nil {
			return fail("order_not_found", "There is no such order.")
		}
		return purchase{kind: o.kind, description: "An order", key: o.id, planID: o.planID, cents: o.cents, open: o}, nil
	}
	p.key = c.text("idempotencyKey")
	if p.key == "" || len(p.key) > 200 || strings.ContainsRune(p.key, 0) {
		a := c.problem("schema_invalid", "The request has members that are wrong, see fields.")
		a.body["fields"] = []any{map[string]any{"path": "idempotencyKey", "rule": "string",
			"message": "must have 1 to 200 characters"}}
		return p, &a
	}
	return s.priced(c, p, c.method)
}

// priced finds what a purchase costs.
func (s *Service) priced(c call, p purchase, method string) (purchase, *answer) {
	fail := func(detail string) (purchase, *answer) {
		a := c.problem("schema_invalid", detail)
		return p, &a
	}
	terms := s.published.Config.Card
	switch method {
	case "CardService/PurchaseCard", "CardService/CreateCardOrder":
		p.kind, p.cents, p.description = "card_issue", terms.WalletPaymentUSDCents, "Virtual card"
	case "CardService/TopUpCard", "OrderService/CreateOrder":
		p.kind, p.cents, p.description = "card_topup", terms.DefaultOrderUSDCents, "Top-up of a card"
		if asked, ok := c.asked["amountUsdCents"].(float64); ok {
			p.cents = int64(asked)
		}
		if p.cents < terms.MinOrderUSDCents || p.cents > terms.MaxOrderUSDCents {
			return fail("The amount is not one that can be paid.")
		}
	case "EsimService/TopUpEsim":
		return s.more(c, p)
	default:
		p.kind, p.planID = "esim", c.text("planId")
		plan, ok := s.plan(p.planID)
		if !ok {
			return fail("There is no such plan.")
		}
		p.planID, p.cents, p.description = plan.PlanID, plan.PriceUSDCents, "Travel eSIM: "+plan.Name
	}
	return p, nil
}

// more prices data for an eSIM.
func (s *Service) more(c call, p purchase) (purchase, *answer) {
	fail := func(code, detail string) (purchase, *answer) {
		a := c.problem(code, detail)
		return p, &a
	}
	p.kind, p.of = "esim_topup", s.order(c.text("orderId"))
	switch {
	case p.of == nil || p.of.kind != "esim":
		return fail("order_not_found", "The paying wallet has no eSIM order with this id.")
	case p.of.status != "fulfilled":
		a := c.problemOn(p.of, "order_not_fulfilled", "The order has no eSIM.")
		return p, &a
	case p.of.cancelled:
		a := c.problemOn(p.of, "esim_cancelled", "The eSIM was cancelled.")
		return p, &a
	}
	for _, at := range s.taken() {
		if plan := s.published.Plans[at]; p.planID == "" && (c.text("planId") == "" || plan.PlanID == c.text("planId")) {
			p.planID, p.cents, p.description = plan.PlanID, plan.PriceUSDCents, "More data for a travel eSIM: "+plan.Name
		}
	}
	if p.planID == "" {
		return fail("terms_changed", "The eSIM does not take this plan.")
	}
	return p, nil
}

// taken are the plans that an eSIM takes, by their place in the catalogue: those with a size, the cheapest first.
func (s *Service) taken() (all []int) {
	for i, p := range s.published.Plans {
		if p.DataMB > 0 {
			all = append(all, i)
		}
	}
	slices.SortStableFunc(all, func(a, b int) int {
		return cmp.Compare(s.published.Plans[a].PriceUSDCents, s.published.Plans[b].PriceUSDCents)
	})
	return all
}

// offer is what a purchase costs, as x402 has it.
func (s *Service) offer(p purchase) x402.Requirements {
	n, extra := s.published.Config.Network, map[string]any{
		"name": s.Token.domain.Name, "version": s.Token.domain.Version, x402.ExtraPaymentFlow: x402.FlowUpfront,
	}
	if p.open == nil {
		extra["quoteId"] = "fake" // an order that was made first needs none
	}
	return x402.Requirements{
		Scheme: x402.Scheme, Network: x402.NetworkID, Amount: strconv.FormatInt(p.cents*unitsPerCent, 10), Asset: n.Asset,
		PayTo:             n.PayTo,
		MaxTimeoutSeconds: maxTimeout, Extra: extra,
	}
}

// ask answers 402.
func (s *Service) ask(c call, p purchase, code, reason string) answer {
	header, err := x402.EncodeRequired(x402.PaymentRequired{
		X402Version: x402.Version, Error: reason, Accepts: []x402.Requirements{s.offer(p)},
		Resource: x402.Resource{URL: c.resource, Description: p.description, MimeType: "application/json",
			ServiceName: "roamcard"},
	})
	if err != nil {
		panic("roamcardtest: " + err.Error())
	}
	detail := reason
	if code == "payment_required" {
		detail = fmt.Sprintf("Pay %s USD in USDC and repeat the request with PAYMENT-SIGNATURE.", roamcard.Cents(p.cents))
	}
	a := c.problem(code, detail)
	a.header = one(x402.HeaderRequired, header)
	return a
}

// take answers a payment: with the order that it, or an earlier one of the key, has bought.
func (s *Service) take(c call, p purchase, payment x402.Payment) answer {
	a := payment.Authorization
	nonce := usedNonce{a.From, a.Nonce}
	name := p.kind + " " + a.From.Lower() + " " + p.key
	if known := s.paidWith[nonce]; known != nil && known != s.bought[name] {
		return c.problem("authorization_already_used", "The payment bought another order.")
	}
	if known := s.bought[name]; known != nil {
		if !p.same(known) {
			return c.problem("idempotency_key_reused", "The key belongs to another request.")
		}
		return s.sold(c, known, true)
	}
	switch card := s.cards[a.From]; {
	case p.open != nil && p.open.owner != a.From:
		return s.ask(c, p, "wrong_payer", "the order is another wallet's")
	case p.of != nil && p.of.owner != a.From:
		return c.problem("order_not_found", "The paying wallet has no eSIM order with this id.")
	case p.kind == "card_issue" && card != nil:
		return c.problem("card_already_exists", "The wallet already has a card.")
	case p.kind == "card_topup" && !card.usable():
		return c.problem("active_card_missing", "The wallet has no active card.")
	case a.To != mustAddress(s.PayTo()):
		return s.ask(c, p, "payment_rejected", x402.ReasonRecipient)
	case a.Value != money.USDC(p.cents*unitsPerCent):
		return s.ask(c, p, "payment_rejected", x402.ReasonValue)
	}
	moved, reason := s.Token.take(payment)
	if reason == x402.ReasonNonceUsed {
		return c.problem("authorization_already_used", "The authorization was used.")
	}
	if reason != "" {
		return s.ask(c, p, "payment_rejected", reason)
	}
	o := p.open
	if o == nil {
		o = s.create(p, a.From)
	}
	s.bought[name], s.paidWith[nonce] = o, o
	s.pay(o, moved)
	return s.sold(c, o, false)
}

// sold answers with a paid order.
func (s *Service) sold(c call, o *order, replayed bool) answer {
	header, err := x402.EncodeSettlement(x402.Settlement{
		Success: true, Transaction: o.payment.Transaction, Network: x402.NetworkID, Payer: o.payment.Payer,
		Amount: strconv.FormatInt(o.payment.Amount, 10),
	})
	if err != nil {
		panic("roamcardtest: " + err.Error())
	}
	shown := s.show(o)
	if replayed {
		shown["replayed"] = true
	} else if o.kind == "esim" {
		shown["credentials"] = s.published.raw("esim")
		shown["delivery"] = s.deliver(o)
	}
	a := c.ok(map[string]any{"order": shown})
	a.header = one(x402.HeaderResponse, header)
	return a
}

// one is a header.
func one(name, value string) http.Header {
	header := http.Header{}
	header.Set(name, value)
	return header
}

// deliver makes a new token that opens an order.
func (s *Service) deliver(o *order) map[string]any {
	o.delivery = s.id("delivery")
	bought, _ := s.plan(o.planID)
	return map[string]any{
		"status": "fulfilled", "planId": o.planID, "planName": bought.Name, "token": o.delivery,
		"tokenExpiresAt": s.stamp(deliveryTime),
	}
}
