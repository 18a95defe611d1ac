package checkout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// CreateRequest asks for an order that is paid later, by its owner.
type CreateRequest struct {
	Kind  order.Kind
	Owner x402.Address
	// Key is the caller's idempotency key. Empty makes an order of its own.
	Key string
	// Request is as in Purchase: a purchase with the same key and request pays this order.
	Request json.RawMessage
	// Resource is the URL that payers are told the payment is for; empty for the order's own address.
	Resource string
	// Alone gives back the owner's open order of the kind instead of a second one, when there is no key.
	Alone bool
}

// Create makes an unpaid order at the present price, which it keeps. It promises nothing that is scarce: that
// is taken when the order is paid. The same key gives the same order again, whatever became of it.
func (c *Checkout) Create(ctx context.Context, n CreateRequest) (PaidOrder, error) {
	p := Purchase{Kind: n.Kind, Key: n.Key, Request: n.Request}
	if n.Key != "" {
		known, err := c.Store.FindByKey(ctx, n.Kind, n.Owner, n.Key)
		if err == nil {
			return c.opened(ctx, n, known)
		}
		if !errors.Is(err, order.ErrNotFound) {
			return PaidOrder{}, fmt.Errorf("look the order up: %w", err)
		}
	}
	if err := c.screen(ctx, n.Owner); err != nil {
		return PaidOrder{}, err
	}
	if err := c.products[n.Kind].Availability().Recorded(ctx); err != nil {
		return PaidOrder{}, err
	}
	offer, err := c.offer(ctx, p, nil)
	if err != nil {
		return PaidOrder{}, err
	}
	admission, err := c.products[n.Kind].Reserve(ctx, n.Owner, offer)
	if err != nil {
		return PaidOrder{}, err
	}
	o := c.newOrder(p, n.Owner, offer.Price, admission.Item)
	if n.Key == "" {
		// It cannot be made again for the same purchase: providers know it by its id.
		o.Key, o.Reference = order.Keyless(o.ID), nil
	}
	until := o.CreatedAt.Add(c.PayableFor)
	o.Resource, o.ExpiresAt = n.Resource, &until
	uncount, err := c.countOrder(ctx)
	if err != nil {
		return PaidOrder{}, err
	}
	stored, err := c.Store.Create(ctx, o, c.bounds(n.Owner, n.Alone && n.Key == ""))
	if errors.Is(err, availability.ErrPaused) {
		return PaidOrder{}, c.products[n.Kind].Availability().Fault()
	}
	if err != nil {
		return PaidOrder{}, fmt.Errorf("open the order: %w", err)
	}
	if stored.ID != o.ID {
		uncount()
	}
	return c.opened(ctx, n, stored)
}

// opened shows the order of an opening, unless its key was used for another one.
func (c *Checkout) opened(ctx context.Context, n CreateRequest, o order.Order) (PaidOrder, error) {
	if o.Fingerprint != order.FingerprintOf(n.Kind, n.Request) || o.Resource != n.Resource {
		return PaidOrder{}, keyReused(o.ID)
	}
	all, err := c.withPayments(ctx, o)
	if err != nil {
		return PaidOrder{}, err
	}
	return all[0], nil
}
