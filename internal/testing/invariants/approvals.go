package invariants

import (
	"strings"
	"time"
)

// approvalRow is a decision of an operator that a second one had to approve.
type approvalRow struct {
	ID, Action, Subject, Status, Asked, Approved string

	AmountCents      int64
	Expires, Decided time.Time
}

// endings are the statuses to which an operator moves an order above the amount only with an approval of an action.
var endings = map[string]string{"refund_pending": "order.refund", "fulfilled": "order.fulfill"}

// endingsHaveTwoNames follows every approval to two operators, and every large order that an operator has ended to an
// approval.
func endingsHaveTwoNames(r *records) []string {
	var f findings
	approved := map[[2]string]approvalRow{}
	for _, a := range r.approvals {
		if a.Status != "approved" {
			continue
		}
		approved[[2]string{a.Action, a.Subject}] = a
		switch {
		case a.Asked == "" || a.Approved == "" || a.Asked == a.Approved:
			f.add("approval %s of %s was asked for by %q and approved by %q", a.ID, a.Subject, a.Asked, a.Approved)
		case !a.Decided.Before(a.Expires):
			f.add("approval %s of %s was approved after it had expired", a.ID, a.Subject)
		}
	}
	orders := r.ordersByID()
	for _, m := range r.moves {
		name, byOperator := strings.CutPrefix(m.Actor, "operator:")
		action, ends := endings[m.To]
		if !byOperator || m.From != "operator_review" || !ends || r.secondAbove == 0 ||
			orders[m.Order].PriceCents <= r.secondAbove {
			continue
		}
		a, ok := approved[[2]string{action, m.Order}]
		if !ok || a.Asked != name || a.AmountCents != orders[m.Order].PriceCents {
			f.add("%s moved order %s of %d cents to %s, which nobody else has approved", name, m.Order,
				orders[m.Order].PriceCents, m.To)
		}
	}
	return f
}
