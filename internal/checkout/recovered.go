package checkout

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// RecoveredStore keeps orders that were recreated after data loss from goods that a provider delivered. Their
// idempotency keys are unknown until the buyer repeats the purchase.
type RecoveredStore interface {
	// Rebind sets the key and the request of a recreated order, once. order.ErrNotFound when no order has the
	// reference, or when its key is set.
	Rebind(ctx context.Context, r Rebinding) (order.Order, error)
}

// Rebinding identifies a recreated order by a repeated purchase.
type Rebinding struct {
	Kind        order.Kind
	Owner       x402.Address
	Key         string
	Fingerprint order.Fingerprint
	// Resource is the order's, where the purchase names one.
	Resource string
	// Reference is the provider's reference of the purchase's first delivery. It is derived from the key, and so proves
	// it.
	Reference uuid.UUID
}

// referrer is a Product whose provider identifies orders by references that we derive. They are UUIDs.
type referrer interface {
	References(o order.Order) []order.Reference
}

// find finds the order of a purchase by its key, or the recreated order whose reference is derived from this key.
func (c *Checkout) find(ctx context.Context, p Purchase, payer x402.Address, resource string) (order.Order, error) {
	known, err := c.Store.FindByKey(ctx, p.Kind, payer, p.Key)
	if c.Recovered == nil || !errors.Is(err, order.ErrNotFound) {
		return known, err
	}
	goods := c.goods(order.Order{
		Kind: p.Kind, Owner: payer, Key: p.Key, Reference: order.ReferenceOf(p.Kind, payer, p.Key), Delivery: 1,
	})
	if goods == uuid.Nil {
		return known, err
	}
	return c.Recovered.Rebind(ctx, Rebinding{
		Kind: p.Kind, Owner: payer, Key: p.Key, Fingerprint: p.fingerprint(), Resource: resource, Reference: goods,
	})
}

// goods is the provider's reference of an order's first delivery; zero when its product has none.
func (c *Checkout) goods(o order.Order) uuid.UUID {
	product, ok := c.products[o.Kind].(referrer)
	if !ok {
		return uuid.Nil
	}
	refs := product.References(o)
	if len(refs) == 0 {
		return uuid.Nil
	}
	return uuid.MustParse(refs[0].Reference)
}
