package reconcile

import (
	"cmp"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/card"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
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
func (c *comparison) mutations() map[card.Ref]*mutation {
	all := map[card.Ref]*mutation{}
	accounts := map[uuid.UUID]string{}
	for _, k := range c.Cards {
		accounts[k.ID] = k.Account
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
		if o.Kind != order.CardTopup {
			continue
		}
		for attempt := max(1, o.Delivery); attempt > 0; attempt-- {
			m := &mutation{
				order: o.ID, what: "load", amount: o.Topup.Credit, card: o.Topup.Card, account: accounts[o.Topup.Card], direction: card.Load,
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
	}
	for _, f := range c.Fees {
		if f.Args.Kept {
			continue // nothing is moved at the issuer
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
	}
	return all
}

// issuer compares the issuer's statement with what we asked for, in both directions.
func (c *comparison) issuer() {
	all := c.mutations()
	// What may be on a card beyond the ledger: loads under way, and fees that the issuer gave back.
	slack := map[uuid.UUID]money.Cents{}
	for _, m := range all {
		if m.standing == underWay && m.direction != card.Withdrawal {
			slack[m.card] += m.amount
		}
	}
	withdrawn := map[uuid.UUID]int{}
	for _, moved := range c.statement.Movements {
		m := c.known(all, moved.Ref, "movement")
		if m == nil {
			continue
		}
		if moved.Amount != m.amount || moved.Direction != m.direction || moved.Account != m.account {
			c.add(ProviderDiffers, m.order, moved.Ref.String(), "the issuer made a %s of %s on %s, ours is a %s of %s on %s",
				moved.Direction, moved.Amount, moved.Account, m.direction, m.amount, m.account)
		}
		c.happened(m, moved.Ref, moved.State == card.MoveSucceeded, moved.State == card.MoveFailed)
		if m.direction == card.Withdrawal && moved.State == card.MoveSucceeded {
			if withdrawn[m.card]++; withdrawn[m.card] == 2 {
				c.add(ProviderDuplicate, m.order, moved.Ref.String(), "the fee was withdrawn more than once")
			}
		}
		if m.direction == card.Withdrawal && m.standing == taken && moved.State == card.MoveFailed {
			slack[m.card] += m.amount
		}
	}
	for _, a := range c.statement.Accounts {
		m := c.known(all, a.Ref, "card")
		if m == nil {
			continue
		}
		live := a.State == card.AccountActive || a.State == card.AccountFrozen
		if a.Loaded != m.amount || m.direction != "" {
			c.add(ProviderDiffers, m.order, a.Ref.String(), "the issuer opened a card with %s, ours is a %s of %s", a.Loaded, m.what, m.amount)
		}
		// Also a card that we know to be closed: what was on it is its holder's, until an operator says otherwise.
		c.happened(m, a.Ref, live, a.State == card.AccountRejected || a.State == card.AccountClosed)
		if live {
			c.balance(m, a, slack[m.card])
		}
	}
	for ref, m := range all {
		if m.standing == taken && !m.seen {
			c.add(ProviderRecordMissing, m.order, ref.String(), "the issuer has no record of the %s of %s", m.what, m.amount)
		}
	}
}

// known finds what a record of the issuer's is about; nil when it is about nothing of ours.
func (c *comparison) known(all map[card.Ref]*mutation, ref card.Ref, what string) *mutation {
	m, ok := all[ref]
	if !ok {
		c.add(ProviderUnknown, "", ref.String(), "the issuer has a %s under a reference that belongs to no order", what)
		return nil
	}
	if m.seen {
		c.add(ProviderDuplicate, m.order, ref.String(), "the issuer has two records under one reference")
	}
	m.seen = true
	return m
}

// happened compares whether a mutation took place, by the issuer, with what we recorded.
func (c *comparison) happened(m *mutation, ref card.Ref, done, undone bool) {
	switch {
	case m.standing == taken && undone:
		c.add(ProviderReversed, m.order, ref.String(), "the issuer undid the %s of %s", m.what, m.amount)
	case m.standing == taken && !done:
		c.add(ProviderRecordMissing, m.order, ref.String(), "the issuer has not carried out the %s of %s", m.what, m.amount)
	case m.standing == untaken && done:
		c.add(ProviderUnrecorded, m.order, ref.String(), "the issuer carried out the %s of %s, and we have not recorded it", m.what, m.amount)
	}
}

// balance compares what is on a card with the ledger. Holders spend, and the issuer does not tell us what: less than the ledger
// has is spending. More cannot be explained.
func (c *comparison) balance(m *mutation, a StatedAccount, slack money.Cents) {
	has := c.balances[ledger.Card(m.card.String())]
	if a.Balance.USDC() > has+slack.USDC() {
		c.add(CardBalanceHigh, m.order, m.card.String(), "%s is on the card, the ledger has %s USDC", a.Balance, has.Dollars())
	}
	if less, _ := (has - a.Balance.USDC()).Cents(); less > 0 {
		c.spent += less
	}
}
