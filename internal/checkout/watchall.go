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

// WatchAll calls show with each of several orders of a wallet, now and after each change, while its version is above
// the one that after has of it. One that is final is shown, whatever its version, and then not read any more. It
// returns when all are final or the timeout has passed. Changes in quick succession may be shown as one. When one is
// not the wallet's, none is shown.
func (c *Checkout) WatchAll(
	ctx context.Context, owner x402.Address, after map[order.ID]int, timeout time.Duration, show func(PaidOrder) error,
) error {
	moving := maps.Clone(after)
	wake, stop := c.Store.Watch(slices.Collect(maps.Keys(after))...)
	defer stop()
	end := time.NewTimer(timeout)
	defer end.Stop()
	poll := time.NewTicker(time.Second)
	defer poll.Stop()
	for {
		changed, err := c.changed(ctx, owner, moving)
		if err != nil {
			return err
		}
		for _, at := range changed {
			if err := show(at); err != nil {
				return err
			}
			moving[at.Order.ID] = at.Order.Version
			if at.Order.Status.Final() {
				delete(moving, at.Order.ID)
			}
		}
		if len(moving) == 0 {
			return nil
		}
		select {
		case <-wake:
		case <-poll.C:
		case <-end.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// changed are the orders whose version is above the one given, and those that are final, in the order of their ids.
// However many there are, it is one read while nothing changes.
func (c *Checkout) changed(ctx context.Context, owner x402.Address, after map[order.ID]int) ([]PaidOrder, error) {
	ids := slices.Sorted(maps.Keys(after))
	orders, err := c.Store.Orders(ctx, owner, Query{IDs: ids, Limit: len(ids)})
	if err != nil {
		return nil, fmt.Errorf("read the orders: %w", err)
	}
	if len(orders) < len(ids) {
		return nil, fault.New(fault.OrderNotFound, "This wallet has no order with one of these ids.")
	}
	now := c.Now()
	orders = slices.DeleteFunc(orders, func(o order.Order) bool {
		return o.Version <= after[o.ID] && !o.AsOf(now).Status.Final()
	})
	slices.Reverse(orders)
	return c.withPayments(ctx, orders...)
}
