package checkout

import (
	"context"
	"errors"
	"fmt"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
)

// Describer is a Product that says what an order of it is for.
type Describer interface {
	// Describe is the text with which the challenge of an order names it, in at most 200 characters.
	Describe(ctx context.Context, o order.Order) (string, error)
}

// LinkedOrder is what the link of an order tells.
type LinkedOrder struct {
	Order order.Order
	// About is what it is for.
	About string
	// Preconfirmed says whether the payment of an order that is settling is in a block that is being built. For display;
	// nil when nobody looks.
	Preconfirmed *bool
}

// Linked is what an order's link tells. Whoever has the link may ask.
func (c *Checkout) Linked(ctx context.Context, id order.ID) (LinkedOrder, error) {
	o, err := c.Store.Find(ctx, id)
	if errors.Is(err, order.ErrNotFound) {
		return LinkedOrder{}, noOrder()
	}
	if err != nil {
		return LinkedOrder{}, fmt.Errorf("read the order: %w", err)
	}
	l := LinkedOrder{Order: o.AsOf(c.Now())}
	if p, ok := c.products[o.Kind].(Describer); ok {
		if l.About, err = p.Describe(ctx, o); err != nil {
			return LinkedOrder{}, fmt.Errorf("describe the order: %w", err)
		}
	}
	if c.mayBePreconfirmed(o) {
		p, err := c.payment(ctx, o.ID)
		if err != nil {
			return LinkedOrder{}, fmt.Errorf("read the payment: %w", err)
		}
		seen := c.Preconfirmed(ctx, p)
		l.Preconfirmed = &seen
	}
	return l, nil
}

func noOrder() *fault.Fault { return fault.New(fault.OrderNotFound, "There is no order with this id.") }
