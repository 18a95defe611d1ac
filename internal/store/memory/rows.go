package memory

import (
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/esim"
)

// Rows are everything that concerns what was sold, for whoever checks all of it. They are in the order in which they
// were stored.
type Rows struct {
	Orders       []order.Order
	Timeline     []order.Event
	Payments     []payment.Payment
	Refunds      []payment.Refund
	Reservations []ReservedRow
	Jobs         []job.Row
	Postings     []ledger.Posting
	Cards        []card.Card
	Profiles     []esim.Profile
	Topups       []esim.Topup
	Sent         []esim.Sent
}

// ReservedRow is what an order has of a resource. Released and Suspended say that it no longer has it.
type ReservedRow struct {
	Order               order.ID
	Resource            string
	Units               int64
	Released, Suspended bool
}

// Rows reads all rows at one moment, past the hook.
func (d *Disk) Rows() (r Rows) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r = Rows{
		Orders: values(d.orders, same[order.Order]), Timeline: values(d.timeline, same[order.Event]),
		Payments: values(d.payments, same[payment.Payment]), Refunds: values(d.refunds, same[payment.Refund]),
		Jobs:     values(d.jobs, same[job.Row]),
		Postings: values(d.postings, func(p posted) ledger.Posting { return p.Posting }),
		Cards:    values(d.cards, func(c cardRow) card.Card { return c.Card }),
		Profiles: values(d.profiles, same[esim.Profile]), Topups: values(d.topups, same[esim.Topup]),
		Sent: values(d.sent, func(s sentRow) esim.Sent { return s.Sent }),
	}
	r.Reservations = values(d.reservations, func(one reservation) ReservedRow {
		return ReservedRow{one.order, one.resource, one.units, one.released != nil, one.suspended != nil}
	})
	return r
}

func same[R any](row R) R { return row }

// values are the rows of a table as somebody else sees them.
func values[K comparable, R, V any](b table[K, R], as func(R) V) []V {
	all := make([]V, 0, len(b.rows))
	for _, row := range b.rows {
		all = append(all, as(*row))
	}
	return all
}
