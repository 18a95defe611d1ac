package checkout

import (
	"context"
	"errors"
	"fmt"

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
	// Reference is the provider's reference of the purchase's first delivery. It is derived from the key, and so proves
	// it.
	Reference uuid.UUID
}

// referrer is a Product whose provider identifies orders by references that we derive.
type referrer interface {
	References(o order.Order) []order.Reference
}

// find finds the order of a purchase by its key, or the recreated order whose reference is derived from this key.
func (c *Checkout) find(ctx context.Context, p Purchase, payer x402.Address) (order.Order, error) {
	known, err := c.Store.FindByKey(ctx, p.Kind, payer, p.Key)
	if c.Recovered == nil || !errors.Is(err, order.ErrNotFound) {
		return known, err
	}
	named, ok := c.products[p.Kind].(referrer)
	if !ok {
		return known, err
	}
	refs := named.References(order.Order{
		Kind: p.Kind, Owner: payer, Key: p.Key, Reference: order.ReferenceOf(p.Kind, payer, p.Key), Delivery: 1,
	})
	if len(refs) == 0 {
		return known, err
	}
	ref, err := uuid.Parse(refs[0].Reference)
	if err != nil {
		return known, fmt.Errorf("parse the reference of a purchase: %w", err)
	}
	return c.Recovered.Rebind(ctx, Rebinding{
		Kind: p.Kind, Owner: payer, Key: p.Key, Fingerprint: p.fingerprint(), Reference: ref,
	})
}
