package checkout

import (
	"context"
	"time"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// Watch shows an order of a wallet whenever its version is above after, beginning now, until the order is
// final or its time is over. Changes that follow each other closely may show as one.
func (c *Checkout) Watch(
	ctx context.Context, id order.ID, owner x402.Address, after int, patience time.Duration, show func(PaidOrder) error,
) error {
	wake, stop := c.Store.Watch(id)
	defer stop()
	end := time.NewTimer(patience)
	defer end.Stop()
	look := time.NewTicker(time.Second)
	defer look.Stop()
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
		case <-look.C:
		case <-end.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}
