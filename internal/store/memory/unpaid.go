package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
)

// Create implements checkout.Store.
func (o Orders) Create(ctx context.Context, ord order.Order, b checkout.Bounds) (made order.Order, err error) {
	ord.Status, ord.Version = order.PaymentRequired, 1
	err = o.s.do(ctx, "orders.create", func(t *tx) error {
		made = ord
		unpaid := t.orders.all(func(o *order.Order) bool {
			return o.Owner == ord.Owner && o.Status == order.PaymentRequired && t.inTime(o)
		})
		slices.SortFunc(unpaid, func(a, b order.Order) int { return cmp.Compare(b.ID, a.ID) })
		if b.ReuseUnpaid {
			if i := slices.IndexFunc(unpaid, func(o order.Order) bool { return o.Kind == ord.Kind }); i >= 0 {
				made = unpaid[i]
				return nil
			}
		}
		if err := t.roomForAnother(ord, unpaid, b.MaxUnpaid); err != nil {
			return err
		}
		if err := t.selling(ord.Kind); err != nil {
			return err
		}
		if err := t.insertOrder(ord); err != nil {
			return err
		}
		return t.countHits(b.Hits)
	})
	if errors.Is(err, violation("orders_purchase")) {
		return o.FindByKey(ctx, ord.Kind, ord.Owner, ord.Key) // a copy of the request created it
	}
	if err != nil {
		return order.Order{}, err
	}
	return made, nil
}

// roomForAnother fails with a *limit.Refusal when an owner has the largest allowed number of unpaid orders. The order
// itself, created by a copy of the request, does not count.
func (t *tx) roomForAnother(ord order.Order, unpaid []order.Order, most int) error {
	unpaid = slices.DeleteFunc(slices.Clone(unpaid), func(o order.Order) bool { return o.ExpiresAt == nil })
	if most == 0 || len(unpaid) < most {
		return nil
	}
	if _, err := t.orderOf(ord.Kind, ord.Owner, ord.Key); err == nil {
		return nil // the insert finds it again
	}
	next := slices.MinFunc(unpaid, func(a, b order.Order) int { return a.ExpiresAt.Compare(*b.ExpiresAt) })
	return limit.Full(most, next.ExpiresAt.Sub(t.stamp), fmt.Sprintf(
		"%d orders of this wallet wait to be paid. Pay one of them, or wait until one expires.", len(unpaid)))
}

// Expire moves up to limit unpaid orders that are past their deadline to expired, and returns how many.
func (o Orders) Expire(ctx context.Context, limit int) (n int, err error) {
	err = o.s.do(ctx, "orders.expire", func(t *tx) error {
		due := t.orders.all(func(o *order.Order) bool { return o.Status == order.PaymentRequired && !t.inTime(o) })
		slices.SortStableFunc(due, func(a, b order.Order) int { return a.ExpiresAt.Compare(*b.ExpiresAt) })
		n = min(limit, len(due))
		for _, ord := range due[:n] {
			if _, err := t.moveOrder(order.Move{
				Order: ord.ID, Owner: ord.Owner, From: order.PaymentRequired, To: order.Expired, Actor: order.Worker,
				Reason: "not paid in time",
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}
