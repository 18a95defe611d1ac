package checkout

import (
	"context"
	"time"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// Watch calls show with an order of a wallet, now and after each change, while its version is above after. It returns
// when the order is final or the timeout has passed. Changes in quick succession may be shown as one.
func (c *Checkout) Watch(
	ctx context.Context, id order.ID, owner x402.Address, after int, timeout time.Duration, show func(PaidOrder) error,
) error {
	wake, stop := c.Store.Watch(id)
	defer stop()
	end := time.NewTimer(timeout)
	defer end.Stop()
	poll := time.NewTicker(time.Second)
	defer poll.Stop()
	for {
		at, err := c.Order(ctx, id, owner)
		if err != nil {
			return err
		}
		if at.Order.Version > after {
			if err := show(at); err != nil {
				return err
			}
			after = at.Order.Version
		}
		if at.Order.Status.Final() {
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
