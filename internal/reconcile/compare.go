package reconcile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/roamcard/roamcard/internal/card"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// comparison is one look at all the books.
type comparison struct {
	Records
	statement Statement
	orders    map[order.ID]Order
	balances  map[ledger.Account]money.USDC

	found []Finding
	// strays are transfers of nobody's; unposted are those among them that the ledger does not have.
	strays   []Transfer
	unposted []ledger.Posting
	resolved []ResolvedTransfer
	spent    money.Cents
}

func compare(r Records, s Statement) *comparison {
	c := &comparison{Records: r, statement: s, orders: map[order.ID]Order{}, balances: ledger.Balances(r.Postings)}
	for _, o := range r.Orders {
		c.orders[o.ID] = o
	}
	c.chain()
	c.payments()
	c.ledger()
	c.issuer()
	return c
}

func (c *comparison) add(code Code, of order.ID, subject, format string, args ...any) {
	c.found = append(c.found, Finding{Code: code, Order: string(of), Subject: subject, Detail: fmt.Sprintf(format, args...), Blocks: blocks[code]})
}

// Place is where the transfer stands on the chain.
func (t Transfer) Place() Place { return Place{t.Transaction, t.LogIndex} }

func (t Transfer) subject() string { return t.Place().String() }

// chain matches transfers with payments: by the authorization they carried out, or by their place.
func (c *comparison) chain() {
	type authorization struct {
		payer x402.Address
		nonce x402.Hash
	}
	byPlace, byNonce := map[Place]*Payment{}, map[authorization]*Payment{}
	for i := range c.Payments {
		p := &c.Payments[i]
		if !p.Nonce.IsZero() { // a plain transfer has none
			byNonce[authorization{p.Payer, p.Nonce}] = p
		}
		if p.Status == payment.Paid {
			byPlace[Place{p.Transaction, p.LogIndex}] = p
		}
	}
	arrived := map[*Payment]bool{}
	for _, t := range c.Arrivals {
		p := cmp.Or(byNonce[authorization{t.From, t.Nonce}], byPlace[t.Place()])
		switch {
		case p == nil:
			c.stray(t)
			continue
		case p.Status == payment.Claimed:
			c.add(TransferUnrecorded, p.Order, t.subject(), "the payment of %s USDC arrived and is not recorded as paid yet", t.Value.Dollars())
		case p.Status == payment.Dead:
			c.add(TransferOfDeadPayment, p.Order, t.subject(), "the payment of %s USDC arrived and is recorded as dead", t.Value.Dollars())
		case p.Value != t.Value || p.Payer != t.From:
			c.add(PaymentDiffers, p.Order, t.subject(), "%s USDC arrived from %s, recorded are %s from %s", t.Value.Dollars(), t.From, p.Value.Dollars(), p.Payer)
		}
		arrived[p] = true
	}
	for i := range c.Payments {
		p := &c.Payments[i]
		if p.Status == payment.Paid && !arrived[p] && p.Block >= c.Scan.First && p.Block < c.Scan.Next {
			c.add(PaymentWithoutTransfer, p.Order, p.ID.String(), "recorded are %s USDC in %s, where the chain shows no such transfer", p.Value.Dollars(), p.Transaction)
		}
	}
}

// stray notes a transfer of nobody's: it differs until an operator says what has become of it.
func (c *comparison) stray(t Transfer) {
	c.strays = append(c.strays, t)
	what := fmt.Sprintf("%s USDC arrived from %s for no order", t.Value.Dollars(), t.From)
	if r := c.resolution(t); r != nil {
		c.resolved = append(c.resolved, ResolvedTransfer{t.subject(), r.As, fmt.Sprintf("%s; %s says: %s", what, r.Operator, r.Reason)})
		return
	}
	c.add(TransferUnmatched, "", t.subject(), "%s", what)
}

// resolution is what an operator decided about a transfer, nil when nobody did.
func (c *comparison) resolution(t Transfer) *Resolved {
	i := slices.IndexFunc(c.Resolved, func(r Resolved) bool { return r.Place == t.Place() })
	if i < 0 {
		return nil
	}
	return &c.Resolved[i]
}

// payments compares what was paid with what was sold.
func (c *comparison) payments() {
	paid := map[order.ID]bool{}
	for _, p := range c.Payments {
		if p.Status != payment.Paid {
			continue
		}
		paid[p.Order] = true
		if o := c.orders[p.Order]; o.Price.USDC() != p.Value {
			c.add(OrderAmount, p.Order, p.ID.String(), "the order costs %s, %s USDC were paid", o.Price, p.Value.Dollars())
		}
	}
	for _, o := range c.Orders {
		if o.Status.Paid() && !paid[o.ID] {
			c.add(OrderWithoutPayment, o.ID, string(o.ID), "the order is %s without a proven payment", o.Status)
		}
		if t := o.Topup; o.Kind == order.CardTopup && (t.Gross != o.Price || card.TopupOf(t.Gross) != (card.Topup{Gross: t.Gross, Fee: t.Fee, Credit: t.Credit})) {
			c.add(OrderAmount, o.ID, string(o.ID), "a top-up of %s is split into %s for the card and %s for us", o.Price, t.Credit, t.Fee)
		}
	}
}

// ledger compares what is posted with what the records say must be.
func (c *comparison) ledger() {
	expected := map[ledger.ID]ledger.Posting{}
	for _, p := range c.expected() {
		expected[p.ID] = p
	}
	for _, p := range c.Postings {
		want, ok := expected[p.ID]
		delete(expected, p.ID)
		of := order.ID(p.Order)
		if err := p.Check(); err != nil {
			c.add(LedgerUnbalanced, of, string(p.ID), "%v", err)
		}
		switch {
		case !ok:
			c.add(PostingUnexpected, of, string(p.ID), "nothing recorded explains this posting")
		case !sameEntries(want.Entries, p.Entries) || want.Order != p.Order:
			c.add(PostingDiffers, of, string(p.ID), "posted is %v, recorded is %v", p.Entries, want.Entries)
		}
	}
	for _, p := range expected {
		if p.Kind == ledger.KindUnmatched || p.Kind == ledger.KindMatched {
			c.unposted = append(c.unposted, p)
			continue
		}
		c.add(PostingMissing, order.ID(p.Order), string(p.ID), "recorded is %v, and the ledger does not have it", p.Entries)
	}
}

// expected is every posting that the records call for.
func (c *comparison) expected() []ledger.Posting {
	var all []ledger.Posting
	posted := map[ledger.ID]bool{}
	for _, p := range c.Postings {
		posted[p.ID] = true
	}
	for _, t := range c.strays {
		all = append(all, ledger.Unmatched(t.Transaction.String(), t.LogIndex, t.Value))
		if r := c.resolution(t); r != nil {
			if p, moves := r.As.Posting(t); moves {
				all = append(all, p)
			}
		}
	}
	for _, p := range c.Payments {
		if p.Status != payment.Paid {
			continue
		}
		all = append(all, ledger.Settled(string(p.Order), p.Value))
		if unmatched := ledger.Unmatched(p.Transaction.String(), p.LogIndex, p.Value); posted[unmatched.ID] {
			// It was nobody's when a comparison found it, and an order has claimed it since.
			all = append(all, unmatched, ledger.Matched(string(p.Order), p.Transaction.String(), p.LogIndex, p.Value))
		}
		if c.orders[p.Order].Status == order.Refunded {
			all = append(all, ledger.Refunded(string(p.Order), p.Value))
		}
	}
	for _, o := range c.Orders {
		if o.Kind == order.CardTopup && o.Status == order.Fulfilled {
			all = append(all, ledger.ToppedUp(string(o.ID), o.Topup.Card.String(), o.Topup.Credit, o.Topup.Fee)...)
		}
		if o.Kind == order.ESIM && o.Status == order.Fulfilled {
			all = append(all, ledger.Sold(string(o.ID), o.Price))
		}
	}
	for _, e := range c.Esims {
		if e.Cost > 0 {
			all = append(all, ledger.Supplied(string(e.Order), e.Cost))
		}
	}
	for _, k := range c.Cards {
		if sold(k) {
			all = append(all, ledger.Loaded(string(k.Order), k.ID.String(), k.Load))
		}
	}
	for _, f := range c.Fees {
		all = append(all, f.Args.Postings(f.Status)...)
	}
	return all
}

// sold says that a card came to its owner.
func sold(k card.Card) bool {
	return k.Status == card.Active || k.Status == card.Frozen || k.Status == card.Closed
}

func sameEntries(a, b []ledger.Entry) bool {
	sums := map[ledger.Account]money.USDC{}
	for _, e := range a {
		sums[e.Account] += e.Amount
	}
	for _, e := range b {
		sums[e.Account] -= e.Amount
	}
	for _, left := range sums {
		if left != 0 {
			return false
		}
	}
	return len(a) == len(b) && !slices.ContainsFunc(b, func(e ledger.Entry) bool { return e.Amount == 0 })
}
