package esim

import (
	"context"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
)

// Handed is what the answer to a purchase gives its buyer.
type Handed struct {
	// Order is as it was when the wait ended.
	Order order.Order
	// Token and Credentials are nil for a caller who is not proven to be the payer; Credentials also before the delivery.
	Token       *Token
	Credentials *Credentials
}

// handoverTimeout bounds each read of what is handed over.
const handoverTimeout = 10 * time.Second

// HandOver waits for a paid order as Await does, and gives the proven payer what it delivers: nothing for an eSIM that
// was given back, or that an operator has delivered by hand. It reads in contexts of
// its own: a caller that has gone, or whose deadline has passed, may still read the answer or get it again.
func (e *Esims) HandOver(ctx context.Context, o order.Order, proven bool, until time.Time) (h Handed, err error) {
	if proven {
		// Before the wait: when that ends for many calls at once, only delivered eSIMs are read.
		if h.Token, err = reading(ctx, o, e.Token); err != nil {
			return h, err
		}
	}
	h.Order = e.Await(ctx, o, until)
	if proven && h.Order.Status == order.Fulfilled {
		h.Credentials, err = reading(ctx, h.Order, e.Credentials)
		if code := fault.Of(err); code == fault.EsimCancelled || code == fault.OrderNotFulfilled {
			h.Credentials, err = nil, nil
		}
	}
	return h, err
}

func reading[T any](
	ctx context.Context, o order.Order, read func(context.Context, order.Order) (T, error),
) (*T, error) {
	ctx, cancel := fault.Outlive(ctx, handoverTimeout)
	defer cancel()
	got, err := read(ctx, o)
	return &got, err
}
