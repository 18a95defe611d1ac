package invariants

import "slices"

// closingRow is the job that closes a card: how far it is, and what was left on the card.
type closingRow struct {
	Job, Card, Order, Status, Stage string
	LeftCents                       int64
	// Reference is that of the remainder's withdrawal, and ByHand the transaction that an operator refunded it with.
	Reference, ByHand string
}

// withdrawn says that the issuer must have given the remainder back, returned that its owner must have it.
func (c closingRow) withdrawn() bool {
	return c.LeftCents > 0 && (c.Stage == "refunding" || c.returned())
}
func (c closingRow) returned() bool {
	return c.LeftCents > 0 && (c.Stage == "ending" || c.Stage == "closed")
}

func (r *records) closingsByOrder() map[string]closingRow {
	all := map[string]closingRow{}
	for _, c := range r.closings {
		all[c.Order] = c
	}
	return all
}

// closingsByReference are those whose withdrawal the issuer may have been asked for.
func (r *records) closingsByReference() map[string]closingRow {
	all := map[string]closingRow{}
	for _, c := range r.closings {
		if c.Reference != "" {
			all[lower(c.Reference)] = c
		}
	}
	return all
}

// closedCardsAreEmptied follows every closing to the issuer's books and to the refund, and back.
func closedCardsAreEmptied(r *records) []string {
	var f findings
	accounts, cards := map[string]issuerCard{}, map[string]cardRow{}
	for _, a := range r.issuer.Cards {
		accounts[a.ID] = a
	}
	for _, c := range r.cards {
		cards[c.ID] = c
	}
	refunds := map[string]refundRow{}
	for _, b := range r.refunds {
		refunds[b.Order] = b
	}
	for _, c := range r.closings {
		card, known := cards[c.Card]
		at := accounts[card.Account]
		var taken int64
		times := 0
		for _, m := range r.issuer.Movements {
			if m.Card == card.Account && m.Direction == "out" && m.Status == "done" && same(m.Reference, c.Reference) {
				taken, times = taken+m.AmountCents, times+1
			}
		}
		refund, refunded := refunds[c.Order]
		switch {
		case !known || card.Order != c.Order:
			f.add("closing %s is of card %s, which order %s did not buy", c.Job, c.Card, c.Order)
			continue
		case c.withdrawn() && (times != 1 || taken != c.LeftCents):
			f.add("closing %s: %d cents were left, the issuer gave %d back in %d withdrawals", c.Job, c.LeftCents, taken, times)
		case (refunded || c.ByHand != "") && times == 0:
			f.add("closing %s: a refund is signed, and the issuer gave nothing back", c.Job)
		case c.returned() && !r.refundedOnce(c.Order, c.ByHand, c.LeftCents*unitsPerCent):
			f.add("closing %s: %d cents were left, and the refund of %d units is %q", c.Job, c.LeftCents, refund.Value,
				refund.Status)
		}
		switch ended := c.Stage == "closed"; {
		case ended && (card.Status != "CLOSED" || at.live() || at.BalanceCents != 0):
			f.add("closing %s is done, the card is %s, at the issuer %s with %d cents", c.Job, card.Status, at.Status,
				at.BalanceCents)
		case ended != (c.Status == "succeeded"):
			f.add("closing %s is %s in the stage %s", c.Job, c.Status, c.Stage)
		case c.Status == "queued" || c.Status == "processing" || c.Status == "failed":
			f.add("closing %s is still %s", c.Job, c.Status)
		}
	}
	return f
}

// refundedOnce reports whether the owner of an order got an amount back: from the treasury, or by the transaction that
// an operator named, which is no other order's.
func (r *records) refundedOnce(order, byHand string, units int64) bool {
	paid, confirmed := false, false
	for _, b := range r.refunds {
		paid = paid || b.Order == order && b.Status == "paid" && b.Value == units
	}
	for _, j := range r.jobs {
		confirmed = confirmed || j.Order == order && j.Kind == refundConfirmJob
	}
	if byHand == "" {
		return paid && confirmed
	}
	named := 0
	for _, c := range r.closings {
		named += count(same(c.ByHand, byHand))
	}
	for _, c := range r.cancels {
		named += count(same(c.ByHand, byHand))
	}
	owner := r.ordersByID()[order].Owner
	return named == 1 && !paid && slices.ContainsFunc(r.chain.byHand, func(p payout) bool {
		return same(p.Transaction, byHand) && same(p.To, owner) && p.Value == units
	})
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}
