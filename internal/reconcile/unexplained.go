package reconcile

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/x402"
)

// unexplained are the goods that a provider made for us, and no order of ours has or is getting. Cards come before loads: a load
// may be on one of them.
func unexplained(lost Lost, s Statement, purchases []esim.Purchase) []made {
	u := search{Lost: lost, expected: map[uuid.UUID]*order.Order{}, owners: map[string]x402.Address{}, notes: map[string]string{}}
	u.expect()
	for _, a := range s.Accounts {
		u.account(a)
	}
	for _, m := range s.Movements {
		u.movement(m)
	}
	for _, p := range purchases {
		u.purchase(p)
	}
	return u.found
}

// search goes through the providers' books.
type search struct {
	Lost
	// expected are the references that our orders have, or will have at their next delivery; the value is nil where that
	// explains the goods.
	expected map[uuid.UUID]*order.Order
	// owners are the wallets of accounts at the issuer, notes what the issuer notes of those that are not known.
	owners map[string]x402.Address
	notes  map[string]string
	found  []made
}

// expect lists what our orders explain. An order that nobody has paid for, as far as we know, explains nothing: it was paid in
// the time that was lost.
func (u *search) expect() {
	for i := range u.Orders {
		o := &u.Orders[i]
		var of *order.Order
		if o.Status == order.PaymentRequired || o.Status == order.Expired {
			of = o
		}
		for attempt := 1; attempt <= max(1, o.Delivery)+1; attempt++ {
			u.expected[goodsRef(*o, attempt)] = of
		}
	}
	for _, f := range u.Fees {
		for a := f.Args; a.Version > 0; a.Version-- {
			u.expected[uuid.UUID(a.Ref())] = nil
		}
	}
	for _, c := range u.Cards {
		u.owners[c.Account] = c.Owner
	}
}

// goodsRef is the provider's reference of one attempt at an order's delivery.
func goodsRef(o order.Order, attempt int) uuid.UUID {
	switch o.Kind {
	case order.CardTopup:
		return uuid.UUID(card.LoadRef(o.Name(), attempt))
	case order.ESIM:
		return uuid.UUID(esim.OrderRef(o.Name(), attempt))
	default:
		return uuid.UUID(card.OpeningRef(o.Name(), attempt))
	}
}

// add notes goods, unless our books explain them.
func (u *search) add(g made) {
	of, ours := u.expected[g.ref]
	if (ours && of == nil) || u.References[g.ref] {
		return
	}
	g.of = of
	if of != nil {
		g.owner, g.known = of.Owner, true
		price := of.Price.USDC()
		g.costs = func(v money.USDC) int {
			if v == price {
				return 3
			}
			return 0
		}
	}
	u.found = append(u.found, g)
}

func (u *search) account(a StatedAccount) {
	u.notes[a.ID] = a.Buyer
	if a.State == card.AccountRejected || a.State == card.AccountClosed {
		return // nothing is left of it
	}
	u.add(made{
		kind: order.CardIssue, ref: uuid.UUID(a.Ref), note: a.Buyer, step: card.OpeningStep,
		what:  fmt.Sprintf("the issuer has a card with %s loaded, ending in %s", a.Loaded, a.Last4),
		costs: opened(a.Loaded), item: func(money.USDC) []byte { return []byte("{}") },
	})
}

// movement looks at a load. The withdrawal of a fee belongs to its card, whose fee job finds it.
func (u *search) movement(m card.Moved) {
	if m.Direction != card.Load || m.State == card.MoveFailed {
		return
	}
	owner, known := u.owners[m.Account]
	on, ours := u.Cards[m.Account]
	g := made{
		kind: order.CardTopup, ref: uuid.UUID(m.Ref), owner: owner, known: known && ours, note: u.notes[m.Account], step: card.LoadStep,
		what: fmt.Sprintf("the issuer has put %s on a card", m.Amount),
		costs: func(v money.USDC) int {
			if gross, exact := v.Cents(); exact && card.TopupOf(gross).Credit == m.Amount {
				return 2
			}
			return 0
		},
		item: func(v money.USDC) []byte {
			gross, _ := v.Cents()
			split := card.TopupOf(gross)
			split.Card = on.ID
			return encoded(split)
		},
	}
	if !ours {
		g.what += " that is not in our books yet"
		g.later = true
	}
	u.add(g)
}

func (u *search) purchase(p esim.Purchase) {
	if p.State == esim.PurchaseRejected {
		return
	}
	plan, sold := u.Plans[p.Code]
	u.add(made{
		kind: order.ESIM, ref: uuid.UUID(p.Ref), note: p.Buyer, step: esim.OrderStep,
		what: fmt.Sprintf("the supplier has an eSIM of the plan %s, for %s USDC", plan.ID, p.Cost.Dollars()),
		costs: func(v money.USDC) int {
			switch {
			case !sold:
				return 0
			case v == plan.Price.USDC():
				return 2
			case v >= p.Cost && v <= 2*plan.Price.USDC():
				return 1 // sold at an earlier price
			}
			return 0
		},
		item: func(money.USDC) []byte {
			return encoded(esim.Item{Plan: plan.ID, DataMB: plan.DataMB, ValidityDays: plan.ValidityDays})
		},
	})
}

// opened says what a card costs that was opened with an amount: all that is paid, or what remains of it at an issuer with limits.
func opened(c money.Cents) func(money.USDC) int {
	return func(v money.USDC) int {
		switch v {
		case c.USDC():
			return 2
		case (c + card.Fee).USDC():
			return 1
		}
		return 0
	}
}

func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("reconcile: marshal %T: %v", v, err))
	}
	return b
}
