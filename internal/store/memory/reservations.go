package memory

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// reservation is a share of a resource that an order has.
type reservation struct {
	order                        order.ID
	owner                        x402.Address
	resource                     string
	units                        int64
	released, suspended, settled *time.Time
}

// takeReservations adds the reservations of an order that is claimed, within what its payer may have undecided.
func (t *tx) takeReservations(p checkout.ClaimRequest) error {
	payer := p.Payment.Authorization.From
	undecided := t.payments.all(func(o *payment.Payment) bool {
		return o.Status == payment.Claimed && o.Authorization.From == payer
	})
	inFlight, unarrived, promised := 0, 0, int64(0)
	for _, o := range undecided {
		if o.CreatedAt.After(p.InFlightSince) {
			inFlight++
		}
		if o.ArrivedAt == nil {
			unarrived++
			promised += int64(o.Authorization.Value)
		}
	}
	switch {
	case p.MaxUndecided > 0 && len(undecided) > p.MaxUndecided:
		return checkout.ErrUndecided
	case p.MaxInFlight > 0 && inFlight > p.MaxInFlight:
		return limit.Busy(p.MaxInFlight)
	case p.Payment.ArrivedAt == nil && unarrived > 1 && promised > int64(p.Funds):
		return checkout.ErrUncovered
	}
	for _, h := range p.Reservations {
		if h.Units <= 0 || t.reserved(h.Resource, h.AsOf)+h.Units > h.Limit {
			return &order.Shortage{Reservation: h}
		}
		if _, err := add(t, &t.reservations, "reservations_pkey", uuid.New(), reservation{
			order: p.Order.ID, owner: p.Order.Owner, resource: h.Resource, units: h.Units,
		}); err != nil {
			return err
		}
		if h.Unsettled > 0 && t.unsettled(h.Resource, payer) > h.Unsettled {
			h.Refusal = fault.FloatReserved
			h.Detail = "Too much is reserved for payments of this wallet that are not settled yet. " +
				"Nothing was claimed; repeat the same request."
			return &order.Shortage{Reservation: h}
		}
	}
	return nil
}

// unsettled is what the unpaid orders of an owner reserve of a resource.
func (t *tx) unsettled(resource string, owner x402.Address) int64 {
	return t.sum(func(r *reservation) bool {
		return r.resource == resource && r.owner == owner && r.released == nil && r.settled == nil &&
			t.payments.first(func(p *payment.Payment) bool {
				return p.Order == r.order && p.Status == payment.Claimed
			}) != nil
	})
}

func (t *tx) sum(wanted func(*reservation) bool) (units int64) {
	for _, r := range t.reservations.rows {
		if wanted(r) {
			units += r.units
		}
	}
	return units
}

// reserved is how much of a resource is reserved, and was until after a time: a limit that was read then does not
// reflect its use yet. Suspended reservations have none.
func (t *tx) reserved(resource string, asOf time.Time) int64 {
	return t.sum(func(r *reservation) bool {
		return r.resource == resource && (r.released == nil || !r.released.Before(asOf) && r.suspended == nil)
	})
}

// unpaid is how much of a resource live orders have reserved that are not paid.
func (t *tx) unpaid(resource string) int64 {
	return t.sum(func(r *reservation) bool { return r.resource == resource && r.released == nil && r.settled == nil })
}

// awaited is a shortage as it is told: whether payments that are not settled yet are its cause.
func (s *Store) awaited(ctx context.Context, short *order.Shortage) *order.Shortage {
	h := short.Reservation
	if !strings.HasPrefix(h.Resource, "float/") || h.Refusal == fault.FloatReserved {
		return short
	}
	err := s.do(ctx, "reservations.awaited", func(t *tx) error {
		if t.reserved(h.Resource, h.AsOf)-t.unpaid(h.Resource)+h.Units <= h.Limit {
			short = short.Awaited()
		}
		return nil
	})
	_ = err // it is refused either way
	return short
}

// forget gives back what an order reserved for a payment that is dead, as if long ago: nothing was taken of it.
func (t *tx) forget(id order.ID) {
	for _, r := range t.reservations.rows {
		if r.order == id && (r.suspended != nil || r.released == nil) {
			r = edit(t, r)
			r.suspended, r.released = nil, new(time.Time)
		}
	}
}

// release gives back what an order reserves.
func (t *tx) release(id order.ID) {
	for _, r := range t.reservations.rows {
		if r.order == id && (r.suspended != nil || r.released == nil) {
			r = edit(t, r)
			if r.suspended = nil; r.released == nil {
				r.released = &t.stamp
			}
		}
	}
}

func (t *tx) suspended(id order.ID) []reservation {
	return t.reservations.all(func(r *reservation) bool { return r.order == id && r.suspended != nil })
}

// Suspend implements settlement.Store.
func (o Orders) Suspend(ctx context.Context, f job.Fence, id order.ID) error {
	return o.s.fenced(ctx, "orders.suspend", f, func(t *tx) error {
		for _, r := range t.reservations.rows {
			mine := r.order == id && (f.Of == "" || r.owner.Lower() == f.Of)
			if mine && strings.HasPrefix(r.resource, "float/") && r.released == nil && r.settled == nil {
				r = edit(t, r)
				r.released, r.suspended = &t.stamp, &t.stamp
			}
		}
		return nil
	})
}

// Suspended implements settlement.Store.
func (o Orders) Suspended(ctx context.Context, of order.Order) (all []order.Reservation, err error) {
	err = o.s.do(ctx, "orders.suspended", func(t *tx) error {
		for _, r := range t.suspended(of.ID) {
			all = append(all, order.Reservation{Resource: r.resource, Units: r.units})
		}
		return nil
	})
	return all, err
}

// Resume implements settlement.Store.
func (o Orders) Resume(ctx context.Context, f job.Fence, of order.Order, again []order.Reservation) error {
	return o.s.fenced(ctx, "orders.resume", f, func(t *tx) error {
		for _, h := range again {
			for _, r := range t.reservations.rows {
				if r.order == of.ID && r.resource == h.Resource && r.suspended != nil {
					r = edit(t, r)
					r.released, r.suspended, r.settled = nil, nil, &t.stamp
				}
			}
			if t.reserved(h.Resource, h.AsOf) > h.Limit {
				return &order.Shortage{Reservation: h}
			}
		}
		return nil
	})
}

// Hold reserves units of a resource for an order of somebody else, paid or not.
func (s *Store) Hold(resource string, units int64, paid bool) {
	_ = s.do(context.Background(), "reservations.hold", func(t *tx) error {
		r := reservation{order: order.NewID(t.stamp), resource: resource, units: units}
		if paid {
			r.settled = &t.stamp
		}
		_, err := add(t, &t.reservations, "reservations_pkey", uuid.New(), r)
		return err
	})
}

// Reserved is how much of a resource live orders have reserved, as card.Store and esim.Store say.
func (s *Store) Reserved(ctx context.Context, resource string, asOf time.Time) (units int64, err error) {
	err = s.do(ctx, "reservations.reserved", func(t *tx) error {
		units = t.reserved(resource, asOf)
		return nil
	})
	return units, err
}

// Unpaid is how much of that is not paid.
func (s *Store) Unpaid(ctx context.Context, resource string) (units int64, err error) {
	err = s.do(ctx, "reservations.unpaid", func(t *tx) error {
		units = t.unpaid(resource)
		return nil
	})
	return units, err
}
