package invariants

import "strings"

func lower(s string) string { return strings.ToLower(s) }

func (r *records) ordersByID() map[string]orderRow {
	out := make(map[string]orderRow, len(r.orders))
	for _, o := range r.orders {
		out[o.ID] = o
	}
	return out
}

func (r *records) cardsByReference() map[string]cardRow {
	out := make(map[string]cardRow, len(r.cards))
	for _, c := range r.cards {
		out[lower(c.Reference)] = c
	}
	return out
}

func (r *records) paidPayments() []paymentRow {
	var paid []paymentRow
	for _, p := range r.payments {
		if p.Status == "paid" {
			paid = append(paid, p)
		}
	}
	return paid
}

func paidOrdersHaveAJob(r *records) []string {
	var f findings
	jobs := group(r.jobs, func(j jobRow) string { return j.Kind + " " + j.Order })
	settled := map[string]bool{}
	for _, m := range r.moves {
		settled[m.Order] = settled[m.Order] || m.To == "settled"
	}
	posted := map[string]bool{}
	for _, p := range r.postings {
		posted[p.ID] = true
	}
	for _, o := range r.orders {
		if !o.paid() {
			continue
		}
		if !posted["settled/"+o.ID] {
			f.add("order %s is %s and its payment is not in the ledger", o.ID, o.Status)
		}
		if len(jobs[fulfillJob+" "+o.ID]) == 0 {
			f.add("order %s is %s and has no job", o.ID, o.Status)
		}
		if len(jobs[confirmJob+" "+o.ID]) == 0 {
			f.add("order %s is %s and nobody follows its payment", o.ID, o.Status)
		}
		if o.Status == "refunded" && len(jobs[refundConfirmJob+" "+o.ID]) == 0 {
			f.add("order %s is refunded and nobody follows its refund", o.ID)
		}
		if !settled[o.ID] {
			f.add("order %s is %s and its timeline never settled", o.ID, o.Status)
		}
	}
	return f
}

// provenOnChain are the orders whose payment the chain's own logs show.
func (r *records) provenOnChain() map[string]bool {
	credited := map[[2]string]bool{}
	for _, c := range r.chain.credits {
		credited[[2]string{lower(c.Transaction), lower(c.From)}] = true
	}
	proven := map[string]bool{}
	for _, p := range r.paidPayments() {
		if p.Transaction != nil && credited[[2]string{lower(*p.Transaction), lower(p.Payer)}] {
			proven[p.Order] = true
		}
	}
	return proven
}

// deliveryNeedsATransfer starts at the issuer's books: what the issuer delivered must have been paid on chain.
func deliveryNeedsATransfer(r *records) []string {
	var f findings
	proven := r.provenOnChain()
	cards := r.cardsByReference()
	paidFor := map[string]bool{}
	for _, a := range r.issuer.Cards {
		c, ours := cards[lower(a.Reference)]
		switch {
		case !ours && a.Status == "declined" && len(r.lost) > 0:
			// Its order is lost, and nothing was delivered.
		case !ours:
			f.add("the issuer has card %s under the reference %s, which is none of ours", a.ID, a.Reference)
		case !proven[c.Order]:
			f.add("the issuer has card %s for order %s, whose transfer is not on chain", a.ID, c.Order)
		default:
			paidFor[a.ID] = true
		}
	}
	for _, m := range r.issuer.Movements {
		if !paidFor[m.Card] {
			f.add("the issuer moved %d cents on card %s, which nobody paid for", m.AmountCents, m.Card)
		}
	}
	return f
}

func eachReferenceOnce(r *records) []string {
	var f findings
	for ref, n := range r.issuer.Executed {
		if n > 1 {
			f.add("the issuer executed reference %s %d times", ref, n)
		}
	}
	refs := map[string]int{}
	for _, a := range r.issuer.Cards {
		refs[lower(a.Reference)]++
	}
	for _, m := range r.issuer.Movements {
		refs[lower(m.Reference)]++
	}
	for ref, n := range refs {
		if n > 1 {
			f.add("the issuer's books have reference %s %d times", ref, n)
		}
	}
	return f
}

func oneLiveCard(r *records) []string {
	var f findings
	here, there := map[string]int{}, map[string]int{}
	for _, c := range r.cards {
		if c.live() {
			here[lower(c.Owner)]++
		}
	}
	cards := r.cardsByReference()
	for _, a := range r.issuer.Cards {
		if c, ours := cards[lower(a.Reference)]; ours && a.live() {
			there[lower(c.Owner)]++
		}
	}
	for owner, n := range here {
		if n > 1 {
			f.add("%s has %d live cards", owner, n)
		}
	}
	for owner, n := range there {
		if n > 1 {
			f.add("%s has %d live cards at the issuer", owner, n)
		}
	}
	return f
}

// paidOrdersEnd also checks that a fulfilled order has its card, in the database and at the issuer.
func paidOrdersEnd(r *records) []string {
	var f findings
	byOrder := map[string][]cardRow{}
	for _, c := range r.cards {
		if c.Status != "FAILED" { // an operator's retry leaves the refused ones behind
			byOrder[c.Order] = append(byOrder[c.Order], c)
		}
	}
	byHand := map[string]bool{}
	for _, m := range r.moves {
		byHand[m.Order] = byHand[m.Order] || m.To == "fulfilled" && strings.HasPrefix(m.Actor, "operator:")
	}
	known := map[string]bool{}
	for _, a := range r.issuer.Cards {
		known[a.ID] = true
	}
	for _, o := range r.orders {
		switch {
		case !o.ended():
			f.add("order %s is still %s", o.ID, o.Status)
		case o.Status == "fulfilled" && o.Kind == "card_issue" && !byHand[o.ID]:
			cards := byOrder[o.ID]
			if len(cards) != 1 || cards[0].Status == "PENDING" || !known[cards[0].Account] {
				f.add("order %s is fulfilled without a card at the issuer", o.ID)
			}
		}
	}
	for _, p := range r.payments {
		if p.Status == "claimed" {
			f.add("payment %s of order %s is still undecided", p.ID, p.Order)
		}
	}
	return f
}

func thePayerOwns(r *records) []string {
	var f findings
	orders := r.ordersByID()
	for _, p := range r.payments {
		if o, ok := orders[p.Order]; ok && !same(o.Owner, p.Payer) {
			f.add("order %s belongs to %s, %s paid", o.ID, o.Owner, p.Payer)
		}
		if !same(p.PayTo, r.payTo) {
			f.add("payment %s pays %s", p.ID, p.PayTo)
		}
	}
	for _, c := range r.cards {
		if o, ok := orders[c.Order]; !ok || !same(o.Owner, c.Owner) {
			f.add("card %s belongs to %s, its order to %q", c.ID, c.Owner, o.Owner)
		}
	}
	return f
}

// rowsHaveTheirOwner compares the owner of each row of an order with the order's, to the letter: it is part of the
// keys.
func rowsHaveTheirOwner(r *records) []string {
	var f findings
	owners := map[string]string{"": ""}
	for _, o := range r.orders {
		owners[o.ID] = o.Owner
	}
	for _, row := range r.owned {
		if owner, known := owners[row.Order]; !known || owner != row.Owner {
			f.add("row %s of %s has the owner %q, its order %q has %q", row.ID, row.Table, row.Owner, row.Order, owner)
		}
	}
	return f
}

// oneFee compares each card's fee job with the withdrawals in the issuer's books.
func oneFee(r *records) []string {
	var f findings
	jobs := map[string][]jobRow{}
	for _, j := range r.jobs {
		if j.Kind == feeJob {
			jobs[j.UniqueKey] = append(jobs[j.UniqueKey], j)
		}
	}
	taken, closings := map[string]int{}, r.closingsByReference()
	for _, m := range r.issuer.Movements {
		if _, closing := closings[lower(m.Reference)]; !closing && m.Direction == "out" && m.Status == "done" {
			taken[m.Card]++
		}
	}
	orders, fees := r.ordersByID(), r.feesByJob()
	for _, c := range r.cards {
		if c.Account == "" {
			continue
		}
		n := taken[c.Account]
		if n > 1 {
			f.add("the fee was withdrawn %d times from card %s", n, c.ID)
		}
		if orders[c.Order].Kind != "card_issue" {
			continue
		}
		if len(jobs[c.ID]) != 1 {
			f.add("card %s has %d fee jobs", c.ID, len(jobs[c.ID]))
			continue
		}
		j := jobs[c.ID][0]
		switch kept := fees[j.ID].Kept; {
		case kept != (c.LoadCents == issueCents-feeCents) || !kept && c.LoadCents != issueCents:
			f.add("card %s opened with %d cents, its fee is kept: %t", c.ID, c.LoadCents, kept)
		case kept && n > 0:
			f.add("the fee was withdrawn from card %s, which opened without it", c.ID)
		case j.Status == "succeeded" && n == 0 && !kept:
			f.add("the fee job of card %s succeeded, the issuer withdrew nothing", c.ID)
		case j.Status == "failed" && n > 0:
			f.add("the fee job of card %s failed, the issuer withdrew the fee", c.ID)
		case j.Status == "queued" || j.Status == "processing":
			f.add("the fee job of card %s is still %s", c.ID, j.Status)
		}
	}
	return f
}

func reservationsBelongToOpenOrders(r *records) []string {
	var f findings
	orders := r.ordersByID()
	reserved := map[string]bool{}
	for _, h := range r.reservations {
		o, known := orders[h.Order]
		switch {
		case !known:
			f.add("%s is reserved for order %q, which does not exist", h.Resource, h.Order)
		case h.Units <= 0:
			f.add("order %s reserves %d of %s", o.ID, h.Units, h.Resource)
		case h.Released:
		case o.ended() && o.Status != "operator_review":
			f.add("order %s is %s and still reserves %s", o.ID, o.Status, h.Resource)
		default:
			reserved[o.ID] = true
		}
	}
	for _, o := range r.orders {
		if !o.ended() && !reserved[o.ID] {
			f.add("order %s is %s and reserves nothing", o.ID, o.Status)
		}
	}
	if r.issuer.FloatCents < 0 {
		f.add("the issuer's float is %d cents", r.issuer.FloatCents)
	}
	return f
}
