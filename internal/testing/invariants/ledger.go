package invariants

import (
	"fmt"
	"maps"
	"strings"
)

// booksBalance adds every posting up.
func booksBalance(r *records) []string {
	var f findings
	sums, lines := map[string]int64{}, map[string]int{}
	for _, e := range r.entries {
		sums[e.Posting] += e.Amount
		lines[e.Posting]++
	}
	for _, p := range r.postings {
		if sums[p.ID] != 0 || lines[p.ID] < 2 {
			f.add("posting %s has %d entries, which sum to %d", p.ID, lines[p.ID], sums[p.ID])
		}
		delete(lines, p.ID)
	}
	for id := range lines {
		f.add("there are entries of %s, which is no posting", id)
	}
	return f
}

// sums are what each account comes to.
type sums map[string]int64

// move moves units from one account to another.
func (s sums) move(units int64, from, to string) { s[from] -= units; s[to] += units }

// ledgerIsWhatHappened computes every account by itself, from what was paid, delivered and withdrawn.
func ledgerIsWhatHappened(r *records) []string {
	var f findings
	want, got := sums{}, r.postedByOrders()
	r.addPayments(want)
	r.addCards(want)
	r.addEsims(want)
	r.addReturns(want)
	for account := range mapsUnion(want, got) {
		if want[account] != got[account] {
			f.add("the ledger has %d units in %s, what happened comes to %d", got[account], account, want[account])
		}
	}
	cancels := r.cancelsByOrder()
	for _, o := range r.orders {
		if c := cancels[o.ID]; c.granted() && !c.returned() {
			continue
		}
		// A card that an operator delivered by hand is posted when it becomes active, if ever.
		ended := o.Status == "refunded" || o.Status == "fulfilled" && o.Kind != "card_issue"
		if owed := got["customer:"+o.ID]; ended && owed != 0 {
			f.add("order %s is %s and the ledger has %d units in its customer's account", o.ID, o.Status, owed)
		}
	}
	return f
}

// postedByOrders are the accounts as they were posted, without what belongs to no order.
func (r *records) postedByOrders() sums {
	got := sums{}
	unordered := map[string]bool{}
	for _, p := range r.postings {
		unordered[p.ID] = p.Kind == "unmatched" || p.Kind == "matched" || p.Kind == "resolved"
	}
	for _, e := range r.entries {
		if !unordered[e.Posting] {
			got[e.Account] += e.Amount
		}
	}
	return got
}

// addPayments adds what was paid, and refunded.
func (r *records) addPayments(into sums) {
	orders := r.ordersByID()
	for _, p := range r.paidPayments() {
		into.move(p.Value, "customer:"+p.Order, "treasury:usdc")
		if orders[p.Order].Status == "refunded" {
			into.move(p.Value, "treasury:usdc", "customer:"+p.Order)
		}
	}
}

// addCards adds what was put on cards, and earned with top-ups.
func (r *records) addCards(into sums) {
	load := func(order, card string, cents int64) {
		into.move(cents*unitsPerCent, "issuer:float", "card:"+card)
		into.move(cents*unitsPerCent, "holder:"+card, "customer:"+order)
	}
	for _, c := range r.cards {
		if c.Status == "ACTIVE" || c.Status == "FROZEN" || c.Status == "CLOSED" {
			load(c.Order, c.ID, c.LoadCents)
		}
	}
	for _, o := range r.orders {
		if o.Kind == "card_topup" && o.Status == "fulfilled" {
			load(o.ID, o.Card, creditOf(o.PriceCents))
			into.move((o.PriceCents-creditOf(o.PriceCents))*unitsPerCent, "revenue:load_fee", "customer:"+o.ID)
		}
	}
}

// addEsims adds what was earned with eSIMs and with data for them, and what it cost.
func (r *records) addEsims(into sums) {
	for _, o := range r.orders {
		if (o.Kind == "esim" || o.Kind == "esim_topup") && o.Status == "fulfilled" {
			into.move(o.PriceCents*unitsPerCent, "revenue:esim", "customer:"+o.ID)
		}
	}
	profiles := r.profilesByReference()
	for _, e := range r.supplier.Esims {
		if s := profiles[lower(e.Reference)].Status; s == "ready" || s == "cancelled" {
			into.move(e.Cost, "supplier:float", "cost:esim")
		}
	}
	added := map[string]string{}
	for _, t := range r.topups {
		added[lower(t.Reference)] = t.Status
	}
	for _, e := range r.supplier.Topups {
		if added[lower(e.Reference)] == "ready" {
			into.move(e.Cost, "supplier:float", "cost:esim")
		}
	}
}

// addReturns adds the fees of cards, and what was taken back from cards and eSIMs and returned.
func (r *records) addReturns(into sums) {
	fees := r.feesByJob()
	for _, j := range r.jobs {
		if j.Kind == feeJob {
			fees[j.ID].moves(j, func(from, to string) { into.move(feeCents*unitsPerCent, from, to) })
		}
	}
	for _, c := range r.closings {
		if c.withdrawn() {
			into.move(c.LeftCents*unitsPerCent, "card:"+c.Card, "issuer:float")
			into.move(c.LeftCents*unitsPerCent, "customer:"+c.Order, "holder:"+c.Card)
		}
		if c.returned() {
			into.move(c.LeftCents*unitsPerCent, "treasury:usdc", "customer:"+c.Order)
		}
	}
	for _, c := range r.cancels {
		if c.granted() {
			into.move(c.Credit, "cost:esim", "supplier:float")
			into.move(c.Refund, "customer:"+c.Order, "revenue:esim")
		}
		if c.returned() {
			into.move(c.Refund, "treasury:usdc", "customer:"+c.Order)
		}
	}
}

func (r *records) feesByJob() map[string]feeRow {
	all := map[string]feeRow{}
	for _, f := range r.fees {
		all[f.Job] = f
	}
	return all
}

// moves is the outcome of an issue fee: earned once it is withdrawn or owed.
func (f feeRow) moves(j jobRow, fee func(from, to string)) {
	done, debt := j.Status == "succeeded", "receivable:"+j.UniqueKey
	if done && !f.Kept {
		fee("card:"+j.UniqueKey, "issuer:float")
	}
	switch {
	case f.Kept && done:
		fee("revenue:issue_fee", "customer:"+j.Order)
		return
	case !f.Owed && done:
		fee("revenue:issue_fee", "holder:"+j.UniqueKey)
		return
	case !f.Owed:
		return
	}
	fee("revenue:issue_fee", debt)
	if f.WrittenOff {
		fee(debt, "cost:issue_fee")
		debt = "cost:issue_fee"
	}
	if done {
		fee(debt, "holder:"+j.UniqueKey)
	}
}

func mapsUnion(a, b map[string]int64) map[string]int64 {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// unmatchedMoneyIsPostedOnce follows each posting of money that belongs to nobody to a transfer on chain, which must be
// no payment.
func unmatchedMoneyIsPostedOnce(r *records) []string {
	var f findings
	name := func(transaction string, index int64) string {
		return fmt.Sprintf("unmatched/%s/%d", lower(transaction), index)
	}
	arrived, paid := map[string]int64{}, map[string]bool{}
	for _, c := range r.chain.credits {
		arrived[name(c.Transaction, c.LogIndex)] = c.Value
	}
	for _, p := range r.paidPayments() {
		if p.Transaction != nil && p.LogIndex != nil {
			paid[name(*p.Transaction, *p.LogIndex)] = true
		}
	}
	units, seen := map[string]int64{}, map[string]bool{}
	for _, e := range r.entries {
		if e.Account == "treasury:usdc" {
			units[e.Posting] += e.Amount
		}
	}
	matched := map[string]bool{}
	for _, p := range r.postings {
		if of, ok := strings.CutPrefix(lower(p.ID), "matched/"); ok && p.Kind == "matched" {
			matched[of] = true
		}
	}
	for _, p := range r.postings {
		if p.Kind != "unmatched" {
			continue
		}
		id := lower(p.ID)
		switch value, ok := arrived[id]; {
		case !ok:
			f.add("posting %s is of a transfer that the chain does not have", p.ID)
		case paid[id] && !matched[strings.TrimPrefix(id, "unmatched/")]:
			f.add("posting %s is of a transfer that paid for an order", p.ID)
		case units[p.ID] != value || p.Order != "":
			f.add("posting %s of order %q is of %d units, %d arrived", p.ID, p.Order, units[p.ID], value)
		case seen[id]:
			f.add("posting %s is there twice", p.ID)
		}
		seen[id] = true
	}
	for _, p := range r.postings {
		if of, resolved := strings.CutPrefix(lower(p.ID), "resolved/"); resolved {
			// The operator's decision clears what is in "unmatched", to the cent.
			if !seen["unmatched/"+of] || p.Kind != "resolved" || resolvedUnits(r, p.ID) != arrived["unmatched/"+of] {
				f.add("posting %s settles %d units, %d arrived", p.ID, resolvedUnits(r, p.ID), arrived["unmatched/"+of])
			}
			continue
		}
		if of, claimed := strings.CutPrefix(lower(p.ID), "matched/"); claimed {
			// The order that claimed such money takes it off "unmatched", to the cent, and is paid by that very transfer.
			if !seen["unmatched/"+of] || !paid["unmatched/"+of] || p.Order == "" ||
				resolvedUnits(r, p.ID) != arrived["unmatched/"+of] {
				f.add("posting %s of order %q takes %d units, %d arrived", p.ID, p.Order, resolvedUnits(r, p.ID),
					arrived["unmatched/"+of])
			}
			continue
		}
		if p.Kind != "unmatched" && (p.ID != p.Kind+"/"+p.Order || strings.TrimSpace(p.Order) == "") {
			f.add("posting %s of order %q does not say what it records", p.ID, p.Order)
		}
	}
	return f
}

// resolvedUnits is what a posting takes out of the account of money that belongs to nobody.
func resolvedUnits(r *records, posting string) (units int64) {
	for _, e := range r.entries {
		if e.Posting == posting && e.Account == "unmatched" {
			units += e.Amount
		}
	}
	return units
}
