package checkout

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// AdoptedStore knows the orders that were made anew for goods, after data loss. Nobody knew the keys that they were
// bought with.
type AdoptedStore interface {
	// Rebind gives the order of some goods the key and the request under which its buyer knows it, once.
	// order.ErrNotFound when there is none, or it has its key.
	Rebind(ctx context.Context, r Rebinding) (order.Order, error)
}

// Rebinding is what a repeated purchase says of itself.
type Rebinding struct {
	Kind        order.Kind
	Owner       x402.Address
	Key         string
	Fingerprint order.Fingerprint
	// Reference is the provider's reference of the purchase's first delivery. It proves the key: it is derived from it.
	Reference uuid.UUID
}

// referrer is a Product whose provider knows orders by references of ours.
type referrer interface {
	References(o order.Order) []order.Reference
}

// find finds the order of a purchase by its key, or by the goods that a purchase with this key was delivered.
func (c *Checkout) find(ctx context.Context, p Purchase, payer x402.Address) (order.Order, error) {
	known, err := c.Store.FindByKey(ctx, p.Kind, payer, p.Key)
	if c.Adopted == nil || !errors.Is(err, order.ErrNotFound) {
		return known, err
	}
	named, ok := c.products[p.Kind].(referrer)
	if !ok {
		return known, err
	}
	would := order.Order{Kind: p.Kind, Owner: payer, Key: p.Key, Reference: order.ReferenceOf(p.Kind, payer, p.Key),
		Delivery: 1}
	refs := named.References(would)
	if len(refs) == 0 {
		return known, err
	}
	ref, err := uuid.Parse(refs[0].Reference)
	if err != nil {
		return known, fmt.Errorf("read the reference of a purchase: %w", err)
	}
	return c.Adopted.Rebind(ctx,
		Rebinding{Kind: p.Kind, Owner: payer, Key: p.Key, Fingerprint: p.fingerprint(), Reference: ref})
}
