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

// CreateRequest is a request for an order that its owner pays later.
type CreateRequest struct {
	Kind  order.Kind
	Owner x402.Address
	// Key is the caller's idempotency key. Without one, each request creates an order.
	Key string
	// Request is as in Purchase: a purchase with the same key and request pays this order.
	Request json.RawMessage
	// Resource is the URL that payers are told the payment is for; empty for the order's own address.
	Resource string
	// ReuseUnpaid returns the owner's unpaid order of the kind instead of creating a second one, when there is no key.
	ReuseUnpaid bool
}

// Create makes an unpaid order with the current price. It reserves nothing: reservations are made when the order is
// paid. The same key returns the same order, in any status.
func (c *Checkout) Create(ctx context.Context, n CreateRequest) (PaidOrder, error) {
	p := Purchase{Kind: n.Kind, Key: n.Key, Request: n.Request}
	if n.Key != "" {
		known, err := c.find(ctx, p, n.Owner, n.Resource)
		if err == nil {
			return c.created(ctx, n, known)
		}
		if !errors.Is(err, order.ErrNotFound) {
			return PaidOrder{}, fmt.Errorf("look the order up: %w", err)
		}
	}
	if err := c.screenKnown(ctx, n.Owner); err != nil {
		return PaidOrder{}, err
	}
	if err := c.products[n.Kind].Availability().Recorded(ctx); err != nil {
		return PaidOrder{}, err
	}
	offer, err := c.offer(ctx, p, nil)
	if err != nil {
		return PaidOrder{}, err
	}
	reserved, err := c.products[n.Kind].Reserve(ctx, n.Owner, offer)
	if err != nil {
		return PaidOrder{}, err
	}
	o := c.newOrder(p, n.Owner, offer.Price, reserved.Item)
	if n.Key == "" {
		// Without a key the reference is derived from the order's id.
		o.Key, o.Reference = order.Keyless(o.ID), nil
	}
	until := o.CreatedAt.Add(c.PayableFor)
	o.Resource, o.ExpiresAt = n.Resource, &until
	uncount, err := c.countOrder(ctx)
	if err != nil {
		return PaidOrder{}, err
	}
	stored, err := c.Store.Create(ctx, o, c.bounds(n.Owner, n.ReuseUnpaid && n.Key == ""))
	if errors.Is(err, availability.ErrPaused) {
		return PaidOrder{}, c.products[n.Kind].Availability().Fault()
	}
	if err != nil {
		return PaidOrder{}, fmt.Errorf("create the order: %w", err)
	}
	if stored.ID != o.ID {
		uncount()
	}
	return c.created(ctx, n, stored)
}

// created is the answer to a CreateRequest, unless its key was used for another one.
func (c *Checkout) created(ctx context.Context, n CreateRequest, o order.Order) (PaidOrder, error) {
	if o.Fingerprint != order.FingerprintOf(n.Kind, n.Request) || o.Resource != n.Resource {
		return PaidOrder{}, keyReused(o.ID)
	}
	all, err := c.withPayments(ctx, o)
	if err != nil {
		return PaidOrder{}, err
	}
	return all[0], nil
}
