// Package trigger makes products and settlements play the scenario that an idempotency key ends in, in the sandbox
// only.
package trigger

import (
	"context"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/provider/sandbox/scenario"
	"github.com/roamcard/roamcard/internal/x402"
)

// The scenarios that are played before a provider is asked. What its provider plays, sandbox/scenario.go says.
const (
	// unknownSettlement keeps a payment undecided for longer than its buyer waits.
	unknownSettlement = "004"
	noFloat           = "007"
	// priceChanged and soldOut happen between the quote and the payment.
	priceChanged = "008"
	soldOut      = "009"
)

// Inner is a product, as checkout sells and settlement delivers it.
type Inner interface {
	Kind() order.Kind
	Path() string
	Availability() availability.Product
	Offer(ctx context.Context, r order.OfferRequest) (order.Offer, error)
	Reserve(ctx context.Context, owner x402.Address, o order.Offer) (order.Claim, error)
	Deliver(ctx context.Context, l *job.Lease, o order.Order) (order.Progress, error)
	Postings(o order.Order) ([]ledger.Posting, error)
}

// Product is a product that plays the scenario of an idempotency key.
type Product struct{ Inner }

// Offer refuses what the key asks to be refused.
func (p Product) Offer(ctx context.Context, r order.OfferRequest) (order.Offer, error) {
	played := scenario.Of(r.Key)
	again := r.Quoted != nil && p.repriced()
	switch {
	case played == noFloat:
		return order.Offer{}, fault.New(fault.FloatUnavailable, "The sandbox was asked to be out of float.")
	case played == priceChanged && again:
		return order.Offer{}, fault.New(fault.TermsChanged, "The sandbox was asked to change the price.")
	case played == soldOut && again:
		return order.Offer{}, fault.New(fault.TermsChanged, "The sandbox was asked to be out of stock.")
	}
	return p.Inner.Offer(ctx, r)
}

// repriced says that the product's price and stock may change between the quote and the payment.
func (p Product) repriced() bool {
	sold, ok := p.Inner.(interface{ Repriced() bool })
	return ok && sold.Repriced()
}

// Deliver tells the provider the scenario of the order's key.
func (p Product) Deliver(ctx context.Context, l *job.Lease, o order.Order) (order.Progress, error) {
	return p.Inner.Deliver(scenario.With(ctx, scenario.Of(o.Key)), l, o)
}

// Invite passes on to a product that says whether its buyer may be told the terms.
func (p Product) Invite(ctx context.Context, o order.Order) error {
	if sold, ok := p.Inner.(interface {
		Invite(ctx context.Context, o order.Order) error
	}); ok {
		return sold.Invite(ctx, o)
	}
	return nil
}

// PathOf passes on to a product whose path depends on the order.
func (p Product) PathOf(o order.Order) string {
	if sold, ok := p.Inner.(interface{ PathOf(o order.Order) string }); ok {
		return sold.PathOf(o)
	}
	return p.Path()
}

// Describe passes on to a product that says what an order of it is for.
func (p Product) Describe(ctx context.Context, o order.Order) (string, error) {
	if sold, ok := p.Inner.(interface {
		Describe(ctx context.Context, o order.Order) (string, error)
	}); ok {
		return sold.Describe(ctx, o)
	}
	return "", nil
}

// Found passes on to a product that tells what its provider has of a purchase.
func (p Product) Found(ctx context.Context, o order.Order) (bool, error) {
	if sold, ok := p.Inner.(interface {
		Found(ctx context.Context, o order.Order) (bool, error)
	}); ok {
		return sold.Found(ctx, o)
	}
	return false, nil
}

// References passes on to a product whose provider knows orders by references.
func (p Product) References(o order.Order) []order.Reference {
	if sold, ok := p.Inner.(interface {
		References(o order.Order) []order.Reference
	}); ok {
		return sold.References(o)
	}
	return nil
}

// Settler settles claimed orders.
type Settler interface {
	Job(id order.ID, claim string) job.New
	Begin(o order.Order, pay payment.Payment, decided chan<- payment.Decided) job.Handler
}

// Settlement is a settlement that plays the scenario of an idempotency key.
type Settlement struct {
	Settler
	// Wait is how long a buyer waits for a settlement.
	Wait time.Duration
}

// overdue is how much longer than its buyer waits a payment stays undecided.
const overdue = 5 * time.Second

// Begin leaves a payment that its key asks to stay undecided to a later attempt of the order's job.
func (s Settlement) Begin(o order.Order, pay payment.Payment, decided chan<- payment.Decided) job.Handler {
	if scenario.Of(o.Key) != unknownSettlement {
		return s.Settler.Begin(o, pay, decided)
	}
	return func(context.Context, *job.Lease) (job.Outcome, error) {
		close(decided)
		return job.Snooze(s.Wait + overdue), nil
	}
}
