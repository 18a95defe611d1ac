package reconcile

import (
	"fmt"
	"slices"

	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// comparison compares a part of the books once.
type comparison struct {
	Records
	orders   map[order.ID]order.Sale
	byPlace  map[Place]*Payment
	byNonce  map[authorization]*Payment
	expected []ledger.Posting
	// addable are the expected postings that a comparison adds itself when they are missing.
	addable map[ledger.ID]bool

	found    []Finding
	unposted []ledger.Posting
	lines    []LineOrder
	checked  Checked
}

type authorization struct {
	payer x402.Address
	nonce x402.Hash
}

func begin(r Records) *comparison {
	c := &comparison{
		Records: r, orders: map[order.ID]order.Sale{}, byPlace: map[Place]*Payment{}, byNonce: map[authorization]*Payment{},
		addable: map[ledger.ID]bool{},
	}
	for _, o := range r.Orders {
		c.orders[o.ID] = o
	}
	for i := range c.Payments {
		p := &c.Payments[i]
		if !p.Nonce.IsZero() { // a plain transfer has none
			c.byNonce[authorization{p.Payer, p.Nonce}] = p
		}
		if p.Status == payment.Paid {
			c.byPlace[Place{p.Transaction, p.LogIndex}] = p
		}
	}
	return c
}

// compareOrders compares orders with their payments, postings and provider records.
func compareOrders(r Records) *comparison {
	c := begin(r)
	c.checked = Checked{Payments: len(r.Payments), Postings: len(r.Postings)}
	for _, o := range r.Orders {
		if o.WasClaimed() {
			c.checked.Orders++
		}
	}
	c.chain()
	c.payments()
	c.expect()
	c.ledger()
	c.issuer()
	return c
}

// compareTransfers compares transfers that may be unmatched with the ledger.
func compareTransfers(r Records) *comparison {
	c := begin(r)
	c.checked = Checked{Postings: len(r.Postings)}
	posted := map[ledger.ID]bool{}
	for _, p := range r.Postings {
		posted[p.ID] = true
	}
	for _, t := range r.Arrivals {
		p := c.paymentOf(t)
		unmatched := ledger.Unmatched(t.Transaction.String(), t.LogIndex, t.Value)
		switch {
		case p == nil:
			c.unmatched(t, unmatched)
		case posted[unmatched.ID]:
			// It was unmatched until an order claimed it.
			matched := ledger.Matched(string(p.Order), t.Transaction.String(), t.LogIndex, t.Value)
			c.addable[matched.ID] = true
			c.expected = append(c.expected, unmatched, matched)
		}
	}
	c.ledger()
	return c
}

func (c *comparison) add(f Finding, format string, args ...any) {
	f.Detail = fmt.Sprintf(format, args...)
	if o, ok := c.orders[order.ID(f.Order)]; ok {
		f.Owner, f.Product = o.Owner.Lower(), string(o.Kind)
	}
	if f.Unit == "" {
		f.Unit = OrderUnit(order.ID(f.Order))
	}
	if f.Evidence == "" {
		f.Evidence = f.Detail
	}
	f.Blocks = f.blocks()
	c.found = append(c.found, f)
}

// Place is the transfer's place in the chain.
func (t Transfer) Place() Place { return Place{t.Transaction, t.LogIndex} }

func (t Transfer) subject() string { return t.Place().String() }

// paymentOf is the payment of a transfer, by the authorization that it executed or by its place. A payer can use a
// nonce for another amount than the claimed one: such a transfer pays for nothing and is unmatched.
func (c *comparison) paymentOf(t Transfer) *Payment {
	p := c.byNonce[authorization{t.From, t.Nonce}]
	if p == nil {
		p = c.byPlace[t.Place()]
	}
	if p != nil && p.Status != payment.Paid && p.Value != t.Value {
		return nil
	}
	return p
}

// chain compares payments with their transfers.
func (c *comparison) chain() {
	arrived := map[*Payment]bool{}
	for _, t := range c.Arrivals {
		p := c.paymentOf(t)
		if p == nil {
			continue
		}
		f := Finding{Order: string(p.Order), Subject: t.subject()}
		switch {
		case p.Status == payment.Claimed:
			f.Code = TransferUnrecorded
			c.add(f, "the payment of %s USDC arrived and is not recorded as paid yet", t.Value.Dollars())
		case p.Status == payment.Dead:
			f.Code = TransferOfDeadPayment
			c.add(f, "the payment of %s USDC arrived and is recorded as dead", t.Value.Dollars())
		case p.Value != t.Value || p.Payer != t.From:
			f.Code = PaymentDiffers
			c.add(f, "%s USDC arrived from %s, recorded are %s from %s", t.Value.Dollars(), t.From, p.Value.Dollars(), p.Payer)
		}
		arrived[p] = true
		c.checked.Transfers++
	}
	for i := range c.Payments {
		p := &c.Payments[i]
		read := p.Block >= c.Scan.First && p.Block < c.Scan.Next && !slices.Contains(c.Unread, p.Block) && !p.Elsewhere
		if p.Status == payment.Paid && !arrived[p] && read {
			c.add(Finding{Code: PaymentWithoutTransfer, Order: string(p.Order), Subject: p.ID.String()},
				"recorded are %s USDC in %s, where the chain shows no such transfer", p.Value.Dollars(), p.Transaction)
		}
	}
}

// unmatched adds the finding of an unmatched transfer, which stays open until an operator resolves it.
func (c *comparison) unmatched(t Transfer, posting ledger.Posting) {
	c.checked.Transfers++
	c.addable[posting.ID] = true
	c.expected = append(c.expected, posting)
	f := Finding{Code: TransferUnmatched, Unit: TransferUnit(t.Place()), Subject: t.subject(), Evidence: t.subject()}
	i := slices.IndexFunc(c.Resolved, func(r Resolved) bool { return r.Place == t.Place() })
	if i >= 0 {
		f.Resolved = &c.Resolved[i]
		c.expected = append(c.expected, f.Resolved.As.Postings(t)...)
	}
	c.add(f, "%s USDC arrived from %s for no order", t.Value.Dollars(), t.From)
}

// payments compares payments with orders.
func (c *comparison) payments() {
	paid := map[order.ID]bool{}
	for _, p := range c.Payments {
		if p.Status != payment.Paid {
			continue
		}
		paid[p.Order] = true
		if o := c.orders[p.Order]; o.Price.USDC() != p.Value {
			c.add(Finding{Code: OrderAmount, Order: string(p.Order), Subject: p.ID.String()},
				"the order costs %s, %s USDC were paid", o.Price, p.Value.Dollars())
		}
	}
	for _, o := range c.Orders {
		f := Finding{Order: string(o.ID), Subject: string(o.ID)}
		if o.Status.Paid() && !paid[o.ID] {
			f.Code = OrderWithoutPayment
			c.add(f, "the order is %s without a proven payment", o.Status)
		}
		for _, g := range c.Goods {
			if differs := g.Differs(o); differs != "" {
				f.Code = OrderAmount
				c.add(f, "%s", differs)
			}
		}
	}
}

// ledger compares the postings with those that the records require.
func (c *comparison) ledger() {
	expected := map[ledger.ID]ledger.Posting{}
	for _, p := range c.expected {
		expected[p.ID] = p
	}
	for _, p := range c.Postings {
		want, ok := expected[p.ID]
		delete(expected, p.ID)
		f := Finding{Order: p.Order, Subject: string(p.ID), Unit: postingUnit(p)}
		if err := p.Check(); err != nil {
			f.Code = LedgerUnbalanced
			c.add(f, "%v", err)
		}
		switch {
		case !ok:
			f.Code = PostingUnexpected
			c.add(f, "nothing recorded explains this posting")
		case !sameEntries(want.Entries, p.Entries) || want.Order != p.Order:
			f.Code = PostingDiffers
			c.add(f, "posted is %v, recorded is %v", p.Entries, want.Entries)
		}
	}
	for _, p := range expected {
		if c.addable[p.ID] {
			c.unposted = append(c.unposted, p)
			continue
		}
		c.add(Finding{Code: PostingMissing, Order: p.Order, Subject: string(p.ID), Unit: postingUnit(p)},
			"recorded is %v, and the ledger does not have it", p.Entries)
	}
}

// postingUnit is the unit of a posting: its order, else its transfer.
func postingUnit(p ledger.Posting) Unit {
	u := unitOf(sortPosting, string(p.ID))
	if p.Order != "" {
		return OrderUnit(order.ID(p.Order))
	}
	if subject, ok := u.transfer(); ok {
		return unitOf(sortTransfer, subject)
	}
	return u
}

// expect lists every posting that the orders require.
func (c *comparison) expect() {
	add := func(all ...ledger.Posting) { c.expected = append(c.expected, all...) }
	posted := map[ledger.ID]bool{}
	for _, p := range c.Postings {
		posted[p.ID] = true
	}
	for _, p := range c.Payments {
		if p.Status != payment.Paid {
			continue
		}
		add(ledger.Settled(string(p.Order), p.Value))
		if matched := ledger.Matched(string(p.Order), p.Transaction.String(), p.LogIndex, p.Value); posted[matched.ID] {
			// It was unmatched until this order claimed it. compareTransfers checks whether it had to be posted.
			add(matched)
		}
		if c.orders[p.Order].Status == order.Refunded {
			add(ledger.Refunded(string(p.Order), p.Value))
		}
	}
	for _, g := range c.Goods {
		add(g.Postings(c.Orders)...)
	}
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
