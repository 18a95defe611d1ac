package reconcile

import (
	"slices"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
)

// mutation is a call that the issuer was, or may have been, asked to make.
type mutation struct {
	order.Call
	seen bool
}

// finding is one about it.
func (m *mutation) finding(of Code, subject string) Finding {
	return Finding{Code: of, Order: string(m.Order), Subject: subject, Provider: m.Provider}
}

// mutations are the mutations of all orders, by our reference.
func (c *comparison) mutations() map[fulfilment.Ref]*mutation {
	all := map[fulfilment.Ref]*mutation{}
	for _, g := range c.Goods {
		for _, call := range g.Calls(c.Orders) {
			all[fulfilment.Ref(call.Reference)] = &mutation{Call: call}
		}
	}
	return all
}

// Refs are the issuer's references of some orders.
func (r Records) Refs() []fulfilment.Ref {
	c := &comparison{Records: r}
	all := c.mutations()
	refs := make([]fulfilment.Ref, 0, len(all))
	for ref := range all {
		refs = append(refs, ref)
	}
	return refs
}

// issuer compares the issuer's lines with our calls, in both directions.
func (c *comparison) issuer() {
	all := c.mutations()
	// The amount by which a card's balance may exceed the ledger: loads in progress, and fees that the issuer returned.
	slack := map[uuid.UUID]money.Cents{}
	for _, m := range all {
		if m.Standing == order.InFlight && m.Direction == "" {
			slack[m.Card] += m.Amount
		}
	}
	type withdrawal struct {
		card uuid.UUID
		what string
	}
	withdrawn := map[withdrawal]int{}
	for _, l := range c.Lines {
		if l.Movement == nil || c.removed(l) {
			continue
		}
		c.checked.Movements++
		m, moved := c.known(all, l), l.Movement
		if m == nil {
			continue
		}
		c.lines = append(c.lines, LineOrder{Line: l.ID, Order: m.Order})
		c.movement(m, *moved)
		if m.Direction == string(card.Withdrawal) && moved.State == card.MoveSucceeded {
			of := withdrawal{m.Card, m.Description}
			if withdrawn[of]++; withdrawn[of] == 2 {
				c.add(m.finding(ProviderDuplicate, moved.Ref.String()),
					"the %s was made more than once", m.Description)
			}
		}
		if m.Direction == string(card.Withdrawal) && m.Standing == order.Made && moved.State == card.MoveFailed {
			slack[m.Card] += m.Amount
		}
	}
	for _, l := range c.Lines {
		if l.Card == nil || c.removed(l) {
			continue
		}
		c.checked.Cards++
		if m := c.known(all, l); m != nil {
			c.lines = append(c.lines, LineOrder{Line: l.ID, Order: m.Order, Spent: c.account(m, *l.Card, slack[m.Card])})
		}
	}
	for ref, m := range all {
		if m.Standing == order.Made && !m.seen && c.reads(m.Provider) {
			c.add(m.finding(ProviderRecordMissing, ref.String()),
				"the issuer has no record of the %s of %s", m.Description, m.Amount)
		}
	}
}

// reads reports whether the books of a provider are read at all. Those of a provider that is not configured any more
// are not.
func (c *comparison) reads(provider string) bool {
	return c.Providers == nil || slices.Contains(c.Providers, provider)
}

// removed reports whether an issuer does not show a line any more, or its books are not read any more.
func (c *comparison) removed(l card.Line) bool {
	return l.Epoch < c.Epochs[l.Provider] || !c.reads(l.Provider)
}

// movement compares one movement.
func (c *comparison) movement(m *mutation, moved card.MovementRecord) {
	if moved.Amount != m.Amount || string(moved.Direction) != m.Direction || moved.Account != m.Account {
		c.add(m.finding(ProviderDiffers, moved.Ref.String()),
			"the issuer made a %s of %s on %s, ours is a %s of %s on %s",
			moved.Direction, moved.Amount, moved.Account, m.Direction, m.Amount, m.Account)
	}
	c.happened(m, moved.Ref, moved.State == card.MoveSucceeded, moved.State == card.MoveFailed)
}

// account compares one card, and returns how much its holder has spent.
func (c *comparison) account(m *mutation, a card.StatedAccount, slack money.Cents) (spent money.Cents) {
	live := a.State == card.AccountActive || a.State == card.AccountFrozen
	if a.Loaded != m.Amount || m.Direction != "" {
		c.add(m.finding(ProviderDiffers, a.Ref.String()),
			"the issuer opened a card with %s, ours is a %s of %s", a.Loaded, m.Description, m.Amount)
	}
	// This includes cards that we have recorded as closed: the balance is owed to the holder until an operator resolves
	// it.
	// What an operator has closed, after its owner had the remainder, is no such card.
	gone := a.State == card.AccountClosed
	c.happened(m, a.Ref, live || gone && m.Ended, a.State == card.AccountRejected || gone && !m.Ended)
	if !live {
		return 0
	}
	return c.balance(m, a, slack+c.Loading[m.Card])
}

// known finds the mutation of a line of the issuer; nil when it is not ours.
func (c *comparison) known(all map[fulfilment.Ref]*mutation, l card.Line) *mutation {
	ref, what := l.Ref(), "movement"
	if l.Card != nil {
		what = "card"
	}
	m, ok := all[ref]
	if !ok {
		c.lines = append(c.lines, LineOrder{Line: l.ID})
		c.add(Finding{
			Code: ProviderUnknown, Unit: LineUnit(l.ID), Subject: ref.String(), Owner: l.Owner, Provider: l.Provider,
		},
			"the issuer has a %s under a reference that belongs to no order", what)
		return nil
	}
	if l.Provider != m.Provider {
		c.lines = append(c.lines, LineOrder{Line: l.ID, Order: m.Order})
		c.add(Finding{Code: ProviderDiffers, Order: string(m.Order), Subject: ref.String(), Provider: l.Provider},
			"%s has a %s that was asked of %s", l.Provider, what, m.Provider)
		return nil
	}
	if m.seen {
		c.add(m.finding(ProviderDuplicate, ref.String()),
			"the issuer has two records under one reference")
	}
	m.seen = true
	return m
}

// happened compares the issuer's outcome of a mutation with ours.
func (c *comparison) happened(m *mutation, ref fulfilment.Ref, done, undone bool) {
	f := m.finding("", ref.String())
	switch {
	case m.Standing == order.Made && undone:
		f.Code = ProviderReversed
		c.add(f, "the issuer undid the %s of %s", m.Description, m.Amount)
	case m.Standing == order.Made && !done:
		f.Code = ProviderRecordMissing
		c.add(f, "the issuer has not executed the %s of %s", m.Description, m.Amount)
	case m.Standing == order.NotMade && done:
		f.Code = ProviderUnrecorded
		c.add(f, "the issuer executed the %s of %s, and we have not recorded it", m.Description, m.Amount)
	}
}

// balance compares a card's balance with the ledger, and returns how much the holder has spent. The issuer does not
// report spending: a balance below the ledger's is spending. A balance above it is a merchant's credit, as long as the
// issuer's movements match ours.
func (c *comparison) balance(m *mutation, a card.StatedAccount, slack money.Cents) (spent money.Cents) {
	has := c.Balances[m.Card]
	if beyond, _ := (a.Balance.USDC() - has - slack.USDC()).Cents(); beyond > 0 {
		f := m.finding(CardBalanceHigh, m.Card.String())
		f.Evidence, f.Size = "credit", int64(beyond)
		c.add(f, "%s is on the card, the ledger has %s USDC", a.Balance, has.Dollars())
	}
	less, _ := (has - a.Balance.USDC()).Cents()
	return max(0, less)
}
