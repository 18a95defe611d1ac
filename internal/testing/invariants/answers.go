package invariants

import "net/http"

// bought are the answers that told of an order, by purchase.
func (r *records) bought() map[[2]string][]Answer {
	var told []Answer
	for _, a := range r.answers {
		if a.Status == http.StatusOK {
			told = append(told, a)
		}
	}
	return group(told, func(a Answer) [2]string { return [2]string{lower(a.Payer), a.Key} })
}

func answersAgree(r *records) []string {
	var f findings
	for purchase, told := range r.bought() {
		first := told[0]
		for _, a := range told[1:] {
			if a.OrderID != first.OrderID || !r.sameTransfer(a.Transaction, first.Transaction) || a.Amount != first.Amount {
				f.add("%s was told of order %s by %s and of order %s by %s for key %s",
					purchase[0], first.OrderID, first.Transaction, a.OrderID, a.Transaction, purchase[1])
			}
		}
	}
	return f
}

// noChallengeAfterBroadcast checks paid requests only: an unpaid one has no payer yet. A claimed
// payment counts as sent, because it may be sent at any moment by anyone.
func noChallengeAfterBroadcast(r *records) []string {
	var f findings
	orders := r.ordersByID()
	for _, a := range r.answers {
		if !a.Paid || a.Status != http.StatusPaymentRequired {
			continue
		}
		for _, p := range r.payments {
			if o := orders[p.Order]; p.Status != "dead" && same(p.Payer, a.Payer) && o.Key == a.Key && a.At.After(p.CreatedAt) {
				f.add("%s was asked to pay again for key %s while payment %s was on its way", a.Payer, a.Key, p.ID)
			}
		}
	}
	return f
}

func answersLast(r *records) []string {
	var f findings
	orders := r.ordersByID()
	paid := group(r.paidPayments(), func(p paymentRow) string { return p.Order })
	for _, told := range r.bought() {
		for _, a := range told {
			o, ok := orders[a.OrderID]
			switch p := paid[a.OrderID]; {
			case !ok || !o.paid():
				f.add("%s was told of order %s, which is gone", a.Payer, a.OrderID)
			case len(p) != 1 || p[0].Transaction == nil || !r.sameTransfer(*p[0].Transaction, a.Transaction):
				f.add("%s was told that order %s was paid by %s, which is not recorded", a.Payer, a.OrderID, a.Transaction)
			case !r.onChain(*p[0].Transaction):
				f.add("%s was told of the transaction %s, which is not on chain", a.Payer, a.Transaction)
			}
		}
	}
	return f
}

// sameTransfer reports whether two transactions, of one payment, made its transfer.
func (r *records) sameTransfer(one, other string) bool { return r.reorganised || same(one, other) }

func (r *records) onChain(transaction string) bool {
	for _, c := range r.chain.credits {
		if same(c.Transaction, transaction) {
			return true
		}
	}
	return false
}

// downMeansClosed checks paid requests only: an unpaid one promises nothing. It skips what was claimed before, which
// goes on, and what was refused for another reason.
func downMeansClosed(r *records) []string {
	var f findings
	orders := r.ordersByID()
	for _, span := range r.down {
		claimed := map[[2]string]bool{}
		for _, p := range r.payments {
			if p.CreatedAt.Before(span.From) {
				claimed[[2]string{lower(p.Payer), orders[p.Order].Key}] = true
			}
			if span.holds(p.CreatedAt) {
				f.add("payment %s of order %s was claimed while a sale could not be executed", p.ID, p.Order)
			}
		}
		for _, a := range r.answers {
			open := a.Status == http.StatusOK || a.Status == http.StatusPaymentRequired
			if a.Paid && open && span.holds(a.At) && !claimed[[2]string{lower(a.Payer), a.Key}] {
				f.add("%s asked for a new purchase with key %s while a sale could not be executed, and got %d", a.Payer, a.Key,
					a.Status)
			}
		}
	}
	return f
}
