package checkout

import (
	"context"
	"time"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// watchPoll is how often a watched order is read when nothing wakes its watcher, and previewPoll how often while its
// payment may be preconfirmed, which wakes nobody.
const (
	watchPoll   = time.Second
	previewPoll = 250 * time.Millisecond
)

// Watch calls show with an order of a wallet, now and after each change, while its version is above after, and once
// when its payment is preconfirmed. It returns when the order is final or the timeout has passed. Changes in quick
// succession may be shown as one.
func (c *Checkout) Watch(
	ctx context.Context, id order.ID, owner x402.Address, after int, timeout time.Duration, show func(PaidOrder) error,
) error {
	previewed := false
	return c.watching(ctx, timeout, func() (ended, preview bool, err error) {
		at, err := c.Order(ctx, id, owner)
		if err != nil {
			return false, false, err
		}
		if at.Order.Version > after || (at.Preconfirmed && !previewed) {
			if err := show(at); err != nil {
				return false, false, err
			}
			after, previewed = max(after, at.Order.Version), at.Preconfirmed
		}
		return at.Order.Status.Final(), c.mayBePreconfirmed(at.Order) && !previewed, nil
	}, id)
}

// watching looks at orders, now and whenever one may have changed, until look says that it has ended or the timeout has
// passed. preview says that one of them may be preconfirmed soon.
func (c *Checkout) watching(
	ctx context.Context, timeout time.Duration, look func() (ended, preview bool, err error), ids ...order.ID,
) error {
	wake, stop := c.Store.Watch(ids...)
	defer stop()
	end := time.NewTimer(timeout)
	defer end.Stop()
	poll := time.NewTimer(0)
	defer poll.Stop()
	for {
		ended, preview, err := look()
		if err != nil || ended {
			return err
		}
		pause := watchPoll
		if preview {
			pause = previewPoll
		}
		poll.Reset(pause)
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
