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

// refundsHaveTwoNames follows every approval to two operators, and every large refund of an operator's to an approval.
func refundsHaveTwoNames(r *records) []string {
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
		if !byOperator || m.From != "operator_review" || m.To != "refund_pending" || r.secondAbove == 0 ||
			orders[m.Order].PriceCents <= r.secondAbove {
			continue
		}
		a, ok := approved[[2]string{"order.refund", m.Order}]
		if !ok || a.Asked != name || a.AmountCents != orders[m.Order].PriceCents {
			f.add("%s refunded order %s of %d cents, which nobody else has approved", name, m.Order,
				orders[m.Order].PriceCents)
		}
	}
	return f
}
