package reconcile

import (
	"cmp"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
)

// standing is what our records say of a mutation at the issuer.
type standing int

const (
	// untaken: it did not happen, or nobody knows, and nothing of ours is at it.
	untaken standing = iota
	// underWay: it may happen at any moment, and be recorded after.
	underWay
	// taken: it happened.
	taken
)

// mutation is one thing that the issuer was, or may have been, asked for.
type mutation struct {
	order     order.ID
	what      string
	standing  standing
	amount    money.Cents
	card      uuid.UUID
	account   string
	direction card.Direction
	seen      bool
}

// mutations are all of them, by our reference.
func (c *comparison) mutations() map[fulfilment.Ref]*mutation {
	all := map[fulfilment.Ref]*mutation{}
	for _, k := range c.Cards {
		m := &mutation{order: k.Order, what: "card", amount: k.Load, card: k.ID, account: k.Account}
		switch {
		case sold(k):
			m.standing = taken
		case k.Status == card.Pending && c.orders[k.Order].perhaps():
			m.standing = underWay
		}
		all[k.Ref] = m
	}
	for _, o := range c.Orders {
		for ref, m := range c.loads(o) {
			all[ref] = m
		}
	}
	for _, f := range c.Fees {
		for ref, m := range withdrawals(f) {
			all[ref] = m
		}
	}
	return all
}

// loads are the attempts at a top-up's load.
func (c *comparison) loads(o Order) map[fulfilment.Ref]*mutation {
	all := map[fulfilment.Ref]*mutation{}
	if o.Kind != order.CardTopup || !o.sold() {
		return all
	}
	for attempt := max(1, o.Delivery); attempt > 0; attempt-- {
		m := &mutation{
			order: o.ID, what: "load", amount: o.Topup.Credit, card: o.Topup.Card, account: c.Accounts[o.Topup.Card], direction: card.Load,
		}
		switch {
		case attempt < o.Delivery: // confirmed as refused, or there would be no later one
		case o.perhaps():
			m.standing = underWay
		case o.Status == order.Fulfilled:
			m.standing = taken
		}
		all[card.LoadRef(cmp.Or(o.Name, string(o.ID)), attempt)] = m
	}
	return all
}

// withdrawals are the versions of a fee's withdrawal.
func withdrawals(f Fee) map[fulfilment.Ref]*mutation {
	all := map[fulfilment.Ref]*mutation{}
	if f.Args.Kept {
		return all // nothing is moved at the issuer
	}
	for a := f.Args; a.Version > 0; a.Version-- {
		m := &mutation{
			order: order.ID(a.Order), what: "fee withdrawal", amount: a.Amount, card: a.Card, account: a.Account, direction: card.Withdrawal,
		}
		switch {
		case a.Version < f.Args.Version: // confirmed as failed, or there would be no later one
		case f.Status == job.Succeeded:
			m.standing = taken
		case f.Status == job.Queued || f.Status == job.Processing:
			m.standing = underWay
		}
		all[a.Ref()] = m
	}
	return all
}

// Refs are the references at the issuer of some orders.
func (r Records) Refs() []fulfilment.Ref {
	c := &comparison{Records: r, orders: map[order.ID]Order{}}
	all := c.mutations()
	refs := make([]fulfilment.Ref, 0, len(all))
	for ref := range all {
		refs = append(refs, ref)
	}
	return refs
}

// issuer compares the issuer's lines with what we asked for, in both directions.
func (c *comparison) issuer() {
	all := c.mutations()
	// What may be on a card beyond the ledger: loads under way, and fees that the issuer gave back.
	slack := map[uuid.UUID]money.Cents{}
	for _, m := range all {
		if m.standing == underWay && m.direction == "" {
			slack[m.card] += m.amount
		}
	}
	withdrawn := map[uuid.UUID]int{}
	for _, l := range c.Lines {
		if l.Movement == nil || l.Epoch < c.Epoch {
			continue
		}
		c.checked.Movements++
		m, moved := c.known(all, l), l.Movement
		if m == nil {
			continue
		}
		c.lines = append(c.lines, LineOrder{Line: l.ID, Order: m.order})
		c.movement(m, *moved)
		if m.direction == card.Withdrawal && moved.State == card.MoveSucceeded {
			if withdrawn[m.card]++; withdrawn[m.card] == 2 {
				c.add(Finding{Code: ProviderDuplicate, Order: string(m.order), Subject: moved.Ref.String()}, "the fee was withdrawn more than once")
			}
		}
		if m.direction == card.Withdrawal && m.standing == taken && moved.State == card.MoveFailed {
			slack[m.card] += m.amount
		}
	}
	for _, l := range c.Lines {
		if l.Card == nil || l.Epoch < c.Epoch {
			continue
		}
		c.checked.Cards++
		if m := c.known(all, l); m != nil {
			c.lines = append(c.lines, LineOrder{Line: l.ID, Order: m.order, Spent: c.account(m, *l.Card, slack[m.card])})
		}
	}
	for ref, m := range all {
		if m.standing == taken && !m.seen {
			c.add(Finding{Code: ProviderRecordMissing, Order: string(m.order), Subject: ref.String()},
				"the issuer has no record of the %s of %s", m.what, m.amount)
		}
	}
}

// movement compares one movement.
func (c *comparison) movement(m *mutation, moved card.Moved) {
	if moved.Amount != m.amount || moved.Direction != m.direction || moved.Account != m.account {
		c.add(Finding{Code: ProviderDiffers, Order: string(m.order), Subject: moved.Ref.String()},
			"the issuer made a %s of %s on %s, ours is a %s of %s on %s",
			moved.Direction, moved.Amount, moved.Account, m.direction, m.amount, m.account)
	}
	c.happened(m, moved.Ref, moved.State == card.MoveSucceeded, moved.State == card.MoveFailed)
}

// account compares one card, and says what its holder has spent.
func (c *comparison) account(m *mutation, a StatedAccount, slack money.Cents) (spent money.Cents) {
	live := a.State == card.AccountActive || a.State == card.AccountFrozen
	if a.Loaded != m.amount || m.direction != "" {
		c.add(Finding{Code: ProviderDiffers, Order: string(m.order), Subject: a.Ref.String()},
			"the issuer opened a card with %s, ours is a %s of %s", a.Loaded, m.what, m.amount)
	}
	// Also a card that we know to be closed: what was on it is its holder's, until an operator says otherwise.
	c.happened(m, a.Ref, live, a.State == card.AccountRejected || a.State == card.AccountClosed)
	if !live {
		return 0
	}
	return c.balance(m, a, slack+c.Loading[m.card])
}

// known finds what a line of the issuer's is about; nil when it is about nothing of ours.
func (c *comparison) known(all map[fulfilment.Ref]*mutation, l Line) *mutation {
	ref, what := l.ref(), "movement"
	if l.Card != nil {
		what = "card"
	}
	m, ok := all[ref]
	if !ok {
		c.lines = append(c.lines, LineOrder{Line: l.ID})
		c.add(Finding{Code: ProviderUnknown, Unit: LineUnit(l.ID), Subject: ref.String(), Owner: l.Owner},
			"the issuer has a %s under a reference that belongs to no order", what)
		return nil
	}
	if m.seen {
		c.add(Finding{Code: ProviderDuplicate, Order: string(m.order), Subject: ref.String()}, "the issuer has two records under one reference")
	}
	m.seen = true
	return m
}

// happened compares whether a mutation took place, by the issuer, with what we recorded.
func (c *comparison) happened(m *mutation, ref fulfilment.Ref, done, undone bool) {
	f := Finding{Order: string(m.order), Subject: ref.String()}
	switch {
	case m.standing == taken && undone:
		f.Code = ProviderReversed
		c.add(f, "the issuer undid the %s of %s", m.what, m.amount)
	case m.standing == taken && !done:
		f.Code = ProviderRecordMissing
		c.add(f, "the issuer has not carried out the %s of %s", m.what, m.amount)
	case m.standing == untaken && done:
		f.Code = ProviderUnrecorded
		c.add(f, "the issuer carried out the %s of %s, and we have not recorded it", m.what, m.amount)
	}
}

// balance compares what is on a card with the ledger, and says what the holder has spent. Holders spend, and the issuer does not tell
// us what: less than the ledger has is spending. More is a merchant's credit, as far as the issuer's movements agree with ours.
func (c *comparison) balance(m *mutation, a StatedAccount, slack money.Cents) (spent money.Cents) {
	has := c.Balances[m.card]
	if beyond, _ := (a.Balance.USDC() - has - slack.USDC()).Cents(); beyond > 0 {
		c.add(Finding{Code: CardBalanceHigh, Order: string(m.order), Subject: m.card.String(), Evidence: "credit", Size: int64(beyond)},
			"%s is on the card, the ledger has %s USDC", a.Balance, has.Dollars())
	}
	less, _ := (has - a.Balance.USDC()).Cents()
	return max(0, less)
}
