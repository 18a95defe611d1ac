package invariants

import (
	"cmp"
	"slices"
)

// creditsAreThePayments compares the transfers to the payee with the recorded payments, one by one.
func creditsAreThePayments(r *records) []string {
	var f findings
	paid, back := r.paymentsByPlace(), r.arrivedAndBack()
	var recorded, moved, unmatched int64
	for _, p := range r.paidPayments() {
		recorded += p.Value
	}
	for _, c := range r.chain.credits {
		moved += c.Value
		at := place{lower(c.Transaction), c.LogIndex}
		p, ok := paid[at]
		switch {
		case !ok && back[at]:
			recorded += c.Value
		case !ok:
			unmatched += c.Value
		case p.Value != c.Value || !same(p.Payer, c.From):
			f.add("payment %s records %d from %s, the chain shows %d from %s", p.ID, p.Value, p.Payer, c.Value, c.From)
		}
	}
	if unmatched != r.unmatched {
		f.add("%d units arrived that no payment records, expected %d", unmatched, r.unmatched)
	}
	if moved != recorded+unmatched {
		f.add("%d units arrived, %d are recorded as paid and %d are unmatched", moved, recorded, unmatched)
	}
	return f
}

// onePaymentOneOrder follows every used authorization to its payment and its order, and back.
func onePaymentOneOrder(r *records) []string {
	var f findings
	orders := r.ordersByID()
	used := r.usesByNonce()
	claimed := map[[3]string]int{}
	for _, p := range r.payments {
		k := [2]string{lower(p.Payer), lower(p.Nonce)}
		if claimed[[3]string{lower(p.Asset), k[0], k[1]}]++; claimed[[3]string{lower(p.Asset), k[0], k[1]}] == 2 {
			f.add("authorization %s of %s is in two payments", p.Nonce, p.Payer)
		}
		o, known := orders[p.Order]
		proof := used[k]
		switch {
		case !known:
			f.add("payment %s belongs to no order", p.ID)
		case p.Status == "paid" && !o.paid():
			f.add("payment %s is paid, its order %s is %s", p.ID, o.ID, o.Status)
		case p.Status == "paid" && len(proof) != 1:
			f.add("payment %s is paid, its authorization is used %d times on chain", p.ID, len(proof))
		case p.Status == "paid" && (p.Transaction == nil || !same(proof[0].Transaction, *p.Transaction)):
			f.add("payment %s names another transaction than the chain, %s", p.ID, proof[0].Transaction)
		case p.Status != "paid" && len(proof) > 0 && r.credited(proof[0], p.Value):
			f.add("payment %s is %s, but the chain moved its money in %s", p.ID, p.Status, proof[0].Transaction)
		}
	}
	paid := group(r.paidPayments(), func(p paymentRow) string { return p.Order })
	for _, o := range r.orders {
		if o.paid() && len(paid[o.ID]) != 1 {
			f.add("order %s is %s with %d proven payments", o.ID, o.Status, len(paid[o.ID]))
		}
	}
	return f
}

// credited says that a used authorization moved this much to the payee: the transfer is the next event. A nonce that
// was used for another amount paid nothing.
func (r *records) credited(u use, value int64) bool {
	for _, c := range r.chain.credits {
		if same(c.Transaction, u.Transaction) && c.LogIndex == u.LogIndex+1 && same(c.From, u.Payer) && c.Value == value {
			return true
		}
	}
	return false
}

// onePaymentPerPurchase counts, for each purchase, what was paid and what may still be.
func onePaymentPerPurchase(r *records) []string {
	var f findings
	orders := r.ordersByID()
	type purchase struct{ payer, kind, key string }
	paid, sendable := map[purchase]int{}, map[purchase]int{}
	for _, p := range r.payments {
		o := orders[p.Order]
		at := purchase{lower(p.Payer), o.Kind, o.Key}
		if p.Status == "paid" {
			paid[at]++
		}
		if p.Status != "dead" {
			sendable[at]++
		}
	}
	for at, n := range paid {
		if n > 1 {
			f.add("the %s of %s with key %s is paid %d times", at.kind, at.payer, at.key, n)
		}
	}
	for at, n := range sendable {
		if n > 1 {
			f.add("the %s of %s with key %s has %d authorizations that may be sent", at.kind, at.payer, at.key, n)
		}
	}
	bought := map[purchase]int{}
	for _, o := range r.orders {
		if at := (purchase{lower(o.Owner), o.Kind, o.Key}); o.Key != "" {
			if bought[at]++; bought[at] == 2 {
				f.add("the %s of %s with key %s has two orders", at.kind, at.payer, at.key)
			}
		}
	}
	return f
}

// oneChargePerKey compares what buyers have signed with what moved, whatever the database knows of it: one that was put
// back may have lost the first payment. What was sent back, and lost with its order, is no charge. What has arrived and
// is known without its order pays for whatever its payer buys next at that price: then it is a charge for that key.
func oneChargePerKey(r *records) []string {
	var f findings
	moved, charged := r.usesByNonce(), map[[2]string]map[string]bool{}
	credits, back, payments, orders := r.creditsByPlace(), r.arrivedAndBack(), r.paymentsByPlace(), r.ordersByID()
	for _, s := range r.signed {
		for _, u := range moved[[2]string{lower(s.Payer), lower(s.Nonce)}] {
			// The transfer is the next event. A payer may have used the nonce to pay somebody else.
			transfer := place{lower(u.Transaction), u.LogIndex + 1}
			if _, paid := credits[transfer]; !paid || back[transfer] {
				continue
			}
			at := [2]string{lower(s.Payer), cmp.Or(orders[payments[transfer].Order].Key, s.Key)}
			if charged[at] == nil {
				charged[at] = map[string]bool{}
			}
			charged[at][lower(s.Nonce)] = true
		}
	}
	for at, nonces := range charged {
		if len(nonces) > 1 {
			f.add("%s was charged %d times for key %s", at[0], len(nonces), at[1])
		}
	}
	return f
}

// paymentsByPlace are the recorded payments by where their transfers are.
func (r *records) paymentsByPlace() map[place]paymentRow {
	payments := map[place]paymentRow{}
	for _, p := range r.paidPayments() {
		if p.Transaction != nil && p.LogIndex != nil {
			payments[place{lower(*p.Transaction), *p.LogIndex}] = p
		}
	}
	return payments
}

// fulfilledOrRefunded reads every order's whole story, not only its end.
func fulfilledOrRefunded(r *records) []string {
	var f findings
	for id, moves := range group(r.moves, func(m moveRow) string { return m.Order }) {
		ends := map[string]int{}
		for _, m := range moves {
			ends[m.To]++
		}
		if ends["fulfilled"] > 0 && ends["refunded"] > 0 {
			f.add("order %s was fulfilled and refunded", id)
		}
		if ends["refunded"] > 1 {
			f.add("order %s was refunded %d times", id, ends["refunded"])
		}
	}
	return f
}

// The economics of a card, in cents and in units of USDC for a cent.
const (
	unitsPerCent = 10_000
	issueCents   = 2500
	feeCents     = 1000
	loadFeeBPS   = 200
)

// longestKey is how long a buyer's key is at most.
const longestKey = 200

// creditOf is what a card gets of a top-up: the fee is rounded down.
func creditOf(priceCents int64) int64 {
	const whole = 10_000
	return priceCents - priceCents*loadFeeBPS/whole
}

func theMoneyAddsUp(r *records) []string {
	var f findings
	orders, cards := r.ordersByID(), r.cardsByReference()
	for _, p := range r.payments {
		if o, ok := orders[p.Order]; ok && p.Value != o.PriceCents*unitsPerCent {
			f.add("order %s costs %d cents, its payment is of %d units", o.ID, o.PriceCents, p.Value)
		}
	}
	for _, o := range r.orders {
		// What a recovery sends back has an order without a buyer's key, which sells nothing.
		returned := len(o.Key) > longestKey && o.Status == "refunded"
		if o.Kind == "card_issue" && o.PriceCents != issueCents && !returned {
			f.add("order %s sells a card for %d cents", o.ID, o.PriceCents)
		}
	}
	accounts := map[string]issuerCard{}
	for _, a := range r.issuer.Cards {
		accounts[a.ID] = a
		c, ok := cards[lower(a.Reference)]
		o := orders[c.Order]
		// One that was made and never loaded is nobody's: its order was refunded, or an operator decides.
		empty := a.LoadCents == 0 && (o.Status == "refunded" || o.Status == "operator_review")
		if ok && !empty && (a.LoadCents != c.LoadCents || a.LoadCents > o.PriceCents) {
			f.add("order %s paid %d cents, its card is for %d, the issuer loaded %d",
				o.ID, o.PriceCents, c.LoadCents, a.LoadCents)
		}
	}
	closings := r.closingsByReference()
	for _, m := range r.issuer.Movements {
		if _, closing := closings[lower(m.Reference)]; !closing && m.Direction == "out" && m.Status == "done" &&
			m.AmountCents != feeCents {
			f.add("%d cents were withdrawn from card %s, the fee is %d", m.AmountCents, m.Card, feeCents)
		}
		if a, ok := accounts[m.Card]; ok && m.Direction == "out" && a.BalanceCents < 0 {
			f.add("card %s is overdrawn", m.Card)
		}
	}
	return f
}

// loadsAreTheTopups matches the issuer's loads with the top-ups of each card's owner: every load was
// paid for, and every fulfilled top-up was loaded.
func loadsAreTheTopups(r *records) []string {
	var f findings
	paid, fulfilled := map[string][]int64{}, map[string][]int64{}
	for _, o := range r.orders {
		if o.Kind != "card_topup" || !o.paid() || o.Status == "refunded" {
			continue
		}
		owner := lower(o.Owner)
		paid[owner] = append(paid[owner], creditOf(o.PriceCents))
		if o.Status == "fulfilled" {
			fulfilled[owner] = append(fulfilled[owner], creditOf(o.PriceCents))
		}
	}
	owners := map[string]string{}
	for _, c := range r.cards {
		if c.Account != "" {
			owners[c.Account] = lower(c.Owner)
		}
	}
	loaded := map[string][]int64{}
	for _, m := range r.issuer.Movements {
		if m.Direction == "in" && m.Status == "done" {
			loaded[owners[m.Card]] = append(loaded[owners[m.Card]], m.AmountCents)
		}
	}
	for owner, loads := range loaded {
		if rest := without(loads, paid[owner]); len(rest) > 0 {
			f.add("%s was loaded %v cents that no top-up paid for", owner, rest)
		}
	}
	for owner, credits := range fulfilled {
		if rest := without(credits, loaded[owner]); len(rest) > 0 {
			f.add("top-ups of %s are fulfilled, and %v cents were not loaded", owner, rest)
		}
	}
	return f
}

// without is what is left of a list when the things of another are taken out of it, one for one.
func without(all, gone []int64) []int64 {
	rest := slices.Clone(all)
	for _, g := range gone {
		if i := slices.Index(rest, g); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
		}
	}
	return rest
}
