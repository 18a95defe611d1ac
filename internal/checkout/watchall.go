package checkout

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// shown is how much of an order WatchAll has shown.
type shown struct {
	version      int
	preconfirmed bool
}

// WatchAll calls show with each of several orders of a wallet, now and after each change, while its version is above
// the one that after has of it, and once when its payment is preconfirmed. One that is final is shown, whatever its
// version, and then not read any more. It returns when all are final or the timeout has passed. Changes in quick
// succession may be shown as one. When one is not the wallet's, none is shown.
func (c *Checkout) WatchAll(
	ctx context.Context, owner x402.Address, after map[order.ID]int, timeout time.Duration, show func(PaidOrder) error,
) error {
	moving := make(map[order.ID]shown, len(after))
	for id, version := range after {
		moving[id] = shown{version: version}
	}
	return c.watching(ctx, timeout, func() (ended, preview bool, err error) {
		changed, preview, err := c.changed(ctx, owner, moving)
		if err != nil {
			return false, false, err
		}
		for _, at := range changed {
			if err := show(at); err != nil {
				return false, false, err
			}
			moving[at.Order.ID] = shown{at.Order.Version, at.Preconfirmed}
			if at.Order.Status.Final() {
				delete(moving, at.Order.ID)
			}
		}
		return len(moving) == 0, preview, nil
	}, slices.Collect(maps.Keys(after))...)
}

// changed are the orders whose version is above the one shown, those that are final, and those that are preconfirmed
// and were not shown so, in the order of their ids. preview says that others may be preconfirmed soon. However many
// there are, it is one read while nothing changes and nothing may be preconfirmed.
func (c *Checkout) changed(
	ctx context.Context, owner x402.Address, before map[order.ID]shown,
) (changed []PaidOrder, preview bool, err error) {
	ids := slices.Sorted(maps.Keys(before))
	orders, err := c.Store.Orders(ctx, owner, Query{IDs: ids, Limit: len(ids)})
	if err != nil {
		return nil, false, fmt.Errorf("read the orders: %w", err)
	}
	if len(orders) < len(ids) {
		return nil, false, fault.New(fault.OrderNotFound, "This wallet has no order with one of these ids.")
	}
	now := c.Now()
	isNew := func(o order.Order) bool { return o.Version > before[o.ID].version || o.AsOf(now).Status.Final() }
	mayBe := func(o order.Order) bool { return c.mayBePreconfirmed(o) && !before[o.ID].preconfirmed }
	orders = slices.DeleteFunc(orders, func(o order.Order) bool { return !isNew(o) && !mayBe(o) })
	slices.Reverse(orders)
	changed, err = c.withPayments(ctx, orders...)
	if err != nil {
		return nil, false, err
	}
	for i := range changed {
		if c.mayBePreconfirmed(changed[i].Order) {
			changed[i].Preconfirmed = c.Preconfirmed(ctx, changed[i].Payment)
			preview = preview || !changed[i].Preconfirmed
		}
		changed[i] = c.WithReceipt(ctx, changed[i])
	}
	return slices.DeleteFunc(changed, func(p PaidOrder) bool { return !isNew(p.Order) && !p.Preconfirmed }), preview, nil
}
