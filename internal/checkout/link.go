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

// Linked is what an order's link is about: the order, and what it is for. Whoever has the link may ask.
func (c *Checkout) Linked(ctx context.Context, id order.ID) (o order.Order, about string, err error) {
	o, err = c.Store.Find(ctx, id)
	if errors.Is(err, order.ErrNotFound) {
		return order.Order{}, "", noOrder()
	}
	if err != nil {
		return order.Order{}, "", fmt.Errorf("read the order: %w", err)
	}
	if p, ok := c.products[o.Kind].(Describer); ok {
		if about, err = p.Describe(ctx, o); err != nil {
			return order.Order{}, "", fmt.Errorf("describe the order: %w", err)
		}
	}
	return o.AsOf(c.Now()), about, nil
}

func noOrder() *fault.Fault { return fault.New(fault.OrderNotFound, "There is no order with this id.") }
