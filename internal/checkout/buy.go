package checkout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/testing/faultpoint"
	"github.com/roamcard/roamcard/internal/x402"
)

// Buy answers a purchase: a *Challenge until it is paid, then the order with its proven payment. A
// repeat of a paid purchase gets the same order again and is never charged again.
func (c *Checkout) Buy(ctx context.Context, p Purchase) (PaidOrder, error) {
	ctx, cancel := c.detached(ctx, p.Payment)
	defer cancel()
	pay, excess, err := c.presented(ctx, p)
	if err != nil {
		return PaidOrder{}, err
	}
	ctx, span := otel.Tracer("checkout").Start(ctx, "checkout.buy")
	defer span.End()
	known, err := c.find(ctx, p, pay.Authorization.From, "")
	switch {
	case err == nil && known.Status != order.PaymentRequired:
		c.pace(ctx, excess, known)
		return c.repeat(ctx, p, pay, known)
	case err != nil && !errors.Is(err, order.ErrNotFound):
		return PaidOrder{}, fmt.Errorf("look the purchase up: %w", err)
	case excess != nil:
		return PaidOrder{}, excess // the claim died since it was counted as claimed
	case err != nil:
		return c.claim(ctx, p, pay, nil)
	}
	return c.claim(ctx, p, pay, &known)
}

// detached is ctx for a request that may have a payment. A paid request survives client disconnect and the client's own
// deadline: a request dropped half-way leaves a signed authorization with us, and the client may never retry.
func (c *Checkout) detached(ctx context.Context, paid string) (context.Context, context.CancelFunc) {
	if paid == "" || paid == x402.PaymentV1 {
		return ctx, func() {}
	}
	return fault.Outlive(ctx, c.Wait+paidGrace)
}

// paidGrace is what a paid request may take in addition to waiting for its settlement.
const paidGrace = 10 * time.Second

// claim verifies a payment, claims the order and waits for its settlement. known is the order when it exists unpaid.
func (c *Checkout) claim(ctx context.Context, p Purchase, pay payment.Signed, known *order.Order) (PaidOrder, error) {
	if known != nil && known.Fingerprint != p.fingerprint() {
		return PaidOrder{}, keyReused(known.ID)
	}
	if err := c.screenKnown(ctx, pay.Authorization.From); err != nil {
		return c.unlessKnown(ctx, p, pay, err)
	}
	available := c.products[p.Kind].Availability()
	if err := available.RecordedOf(ctx, pay.Authorization.From); err != nil {
		return c.unlessKnown(ctx, p, pay, err)
	}
	offer, err := c.offer(ctx, p, c.promised(p, pay, known, c.Now()))
	if err != nil {
		return c.refuse(ctx, p, pay, known, nil, err)
	}
	if err := c.Terms.Check(pay, offer.Price.USDC(), c.Now()); err != nil {
		return c.refuse(ctx, p, pay, known, &offer, err)
	}
	if paid, err := c.payWithUnmatched(ctx, p, pay, known, offer); !errors.Is(err, order.ErrNotFound) {
		return paid, err
	}
	if err := c.verify(ctx, pay, offer); err != nil {
		return c.refuse(ctx, p, pay, known, &offer, err)
	}
	faultpoint.Reach("buy.verified")
	if err := available.Settle(ctx); err != nil {
		return c.unlessKnown(ctx, p, pay, err)
	}
	reserved, err := c.products[p.Kind].Reserve(ctx, pay.Authorization.From, offer)
	if err != nil {
		return c.refuse(ctx, p, pay, known, &offer, err)
	}
	return c.claimOrder(ctx, p, pay, c.claimRequest(p, pay, offer, reserved, known))
}

// screenKnown fails with a fault when a payer is known not to be served.
func (c *Checkout) screenKnown(ctx context.Context, payer x402.Address) error {
	if c.Screener == nil {
		return nil
	}
	return c.Screener.Known(ctx, payer)
}

// screen fails with a fault when a payer is not served. It may ask a service that has a quota: only of a payer whose
// money would move, or has arrived.
func (c *Checkout) screen(ctx context.Context, payer x402.Address) error {
	if c.Screener == nil {
		return nil
	}
	return c.Screener.Screen(ctx, payer)
}

// verify reports whether a payment would move the price of an offer now. The error is a *payment.Rejection, or fit to
// show. Empty wallets make it ask, too, so it leaves of the nodes' quota to those whose money is found there.
func (c *Checkout) verify(ctx context.Context, pay payment.Signed, offer order.Offer) error {
	ctx = limit.WithUse(ctx, limit.ForOwner)
	err := c.Terms.Verify(ctx, c.Chain, pay, offer.Price.USDC(), c.Now())
	rejection, rejected := errors.AsType[*payment.Rejection](err)
	if rejected {
		if f := issuerFault(rejection); f != nil {
			return f
		}
	}
	if err == nil || rejected {
		return err
	}
	return fmt.Errorf("verify the payment: %w", errors.Join(err, noChain()))
}

func noChain() *fault.Fault {
	return fault.New(fault.DependencyDown, "The chain does not answer. Nothing was claimed; repeat the same request.").
		Then(fault.RetrySameRequest)
}

// claimOrder claims an order and waits until its payment is decided.
func (c *Checkout) claimOrder(
	ctx context.Context, p Purchase, pay payment.Signed, req ClaimRequest,
) (PaidOrder, error) {
	leave, err := c.countClaim(pay.Authorization.From, req.Existing)
	if err != nil {
		return c.unlessKnown(ctx, p, pay, err)
	}
	defer leave()
	if err := c.screen(ctx, pay.Authorization.From); err != nil {
		return c.unlessKnown(ctx, p, pay, err)
	}
	result, err := c.Store.Claim(ctx, req)
	if errors.Is(err, ErrUncovered) {
		if req.Funds, err = c.Chain.Funds(ctx, pay.Authorization.From); err != nil {
			return c.unlessKnown(ctx, p, pay, fmt.Errorf("read the payer's funds: %w", errors.Join(err, noChain())))
		}
		result, err = c.Store.Claim(ctx, req)
	}
	if errors.Is(err, ErrUncovered) {
		return c.unlessKnown(ctx, p, pay, uncovered())
	}
	if short, ok := errors.AsType[*order.Shortage](err); ok {
		return c.unlessKnown(ctx, p, pay, short.Fault())
	}
	if errors.Is(err, ErrHistoryLost) {
		return PaidOrder{}, fmt.Errorf("claim the order: %w", c.products[p.Kind].Availability().Lost(err))
	}
	if errors.Is(err, ErrUndecided) {
		return c.unlessKnown(ctx, p, pay, undecided())
	}
	if refusal, ok := errors.AsType[*limit.Refusal](err); ok {
		return c.unlessKnown(ctx, p, pay, refusal)
	}
	if errors.Is(err, availability.ErrPaused) {
		return c.unlessKnown(ctx, p, pay, c.products[p.Kind].Availability().Fault())
	}
	if err != nil {
		// The transaction may have committed: only repeating the same request is safe.
		return PaidOrder{}, fmt.Errorf("claim the order: %w", errors.Join(err, unknownYet("")))
	}
	switch result.Claim {
	case Repeated:
		return c.repeat(ctx, p, pay, result.Order)
	case Reused:
		if req.Payment.Authorization.Nonce != pay.Authorization.Nonce {
			return PaidOrder{}, errTaken
		}
		return PaidOrder{}, authorizationReused()
	case Fresh:
	}
	decided := make(chan payment.Decided, 1)
	c.Runner.Adopt(result.Job, c.Settlement.Begin(result.Order, req.Payment, decided))
	return c.await(ctx, p, result.Order.ID, decided, c.Wait)
}

// promised is the offer that a payment was made for: the order's, or that of the quote it echoes if the quote was valid
// at a time; nil when there is none.
func (c *Checkout) promised(p Purchase, pay payment.Signed, known *order.Order, at time.Time) *order.Offer {
	if known != nil {
		return offerOf(*known)
	}
	id, _ := pay.Accepted.Extra["quoteId"].(string)
	quoted, err := c.quotes.openAt(id, p.Kind, p.fingerprint(), at)
	if err != nil {
		return nil
	}
	return &quoted
}

// offerOf is the offer that an order was created for.
func offerOf(o order.Order) *order.Offer { return &order.Offer{Price: o.Price, Item: o.Item} }

// offer asks the product for its offer, or to confirm the promised one, while the product is available.
func (c *Checkout) offer(ctx context.Context, p Purchase, promised *order.Offer) (order.Offer, error) {
	if promised == nil && p.of != nil {
		promised = offerOf(*p.of)
	}
	product := c.products[p.Kind]
	if err := product.Availability().Open(ctx); err != nil {
		return order.Offer{}, err
	}
	return product.Offer(ctx, order.OfferRequest{Key: p.Key, Body: p.Request, Quoted: promised})
}

func (c *Checkout) claimRequest(
	p Purchase, pay payment.Signed, offer order.Offer, reserved order.Claim, known *order.Order,
) ClaimRequest {
	o := c.newOrder(p, pay.Authorization.From, offer.Price, reserved.Item)
	if known != nil {
		o = *known
	}
	id := newID()
	return ClaimRequest{
		Order: o,
		Payment: payment.Payment{
			ID: id, Order: o.ID, Status: payment.Claimed, Network: c.Terms.Network, Asset: c.Terms.Asset,
			Authorization: pay.Authorization, Signature: pay.Signature, CreatedAt: c.Now(),
		},
		Reservations: reserved.Reservations, Provider: reserved.Provider, MaxUndecided: c.Limits.Most(limit.Undecided),
		MaxInFlight: c.Limits.Most(limit.InFlight), InFlightSince: c.Now().Add(-c.Wait),
		Turns:    c.claimTurns(pay, known != nil),
		Job:      c.Runner.Own(c.Settlement.Job(o.ID, id.String())),
		Goods:    c.goods(o),
		Existing: known != nil,
	}
}

// newOrder makes the order of a purchase, without storing it.
func (c *Checkout) newOrder(p Purchase, owner x402.Address, price money.Cents, item json.RawMessage) order.Order {
	now := c.Now()
	return order.Order{
		ID: order.NewID(now), Operation: newID(), Kind: p.Kind, Owner: owner, Key: p.Key, Fingerprint: p.fingerprint(),
		Price: price, Item: item, Reference: order.ReferenceOf(p.Kind, owner, p.Key), Delivery: 1, CreatedAt: now,
		UpdatedAt: now,
	}
}

// repeat answers an existing purchase from its record, once its payment is decided.
func (c *Checkout) repeat(ctx context.Context, p Purchase, pay payment.Signed, o order.Order) (PaidOrder, error) {
	if o.Fingerprint != p.fingerprint() {
		return PaidOrder{}, keyReused(o.ID)
	}
	timeout, leave := c.waiting(o)
	defer leave()
	paid, err := c.await(ctx, p, o.ID, nil, timeout)
	paid.ProvenCaller = err == nil && c.provenCaller(ctx, p, pay, paid)
	return paid, err
}

// await waits until the order's payment is decided, or for the timeout; the payment continues either way. here receives
// the decision when the order's job started in this process. It is nil for a repeat, which reads the order at once.
func (c *Checkout) await(
	ctx context.Context, p Purchase, id order.ID, here <-chan payment.Decided, wait time.Duration,
) (PaidOrder, error) {
	wake, stop := c.Store.Watch(id)
	defer stop()
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	const often, seldom = 500 * time.Millisecond, 5 * time.Second // here reports what happens to the order
	poll := time.NewTicker(often)
	defer poll.Stop()
	if here != nil {
		poll.Reset(seldom)
	}
	replayed := here == nil
	for looking := replayed; ; looking = true {
		if looking {
			o, err := c.Store.Find(ctx, id)
			if err != nil {
				return PaidOrder{}, fmt.Errorf("read the order: %w", errors.Join(err, unknownYet(id)))
			}
			if o.Status != order.Settling {
				return c.decided(ctx, p, o, replayed)
			}
		}
		changed := wake
		if here != nil {
			changed = nil // here reports the change
		}
		select {
		case paid, told := <-here:
			if told {
				return c.answer(ctx, p, paid.Order, paid.Payment, false)
			}
			here = nil
			poll.Reset(often)
		case <-changed:
		case <-poll.C:
		case <-timeout.C:
			c.Metrics.Settled(ctx, string(p.Kind), "unknown")
			return PaidOrder{}, unknownYet(id)
		case <-ctx.Done():
			return PaidOrder{}, fmt.Errorf("wait for the settlement: %w", errors.Join(ctx.Err(), unknownYet(id)))
		}
	}
}

// decided answers for an order whose payment is decided.
func (c *Checkout) decided(ctx context.Context, p Purchase, o order.Order, replayed bool) (PaidOrder, error) {
	if o.ExpiresAt != nil {
		// The claim came too late, even if expiry is not recorded yet.
		return PaidOrder{}, expired(o.ID)
	}
	pay, err := c.payment(ctx, o.ID)
	if err != nil {
		return PaidOrder{}, fmt.Errorf("read the payment: %w", errors.Join(err, unknownYet(o.ID)))
	}
	return c.answer(ctx, p, o, pay, replayed)
}

// answer is the order of a decided payment, or a challenge when the payment is dead.
func (c *Checkout) answer(
	ctx context.Context, p Purchase, o order.Order, pay payment.Payment, replayed bool,
) (PaidOrder, error) {
	if o.RefundReason != "" {
		return PaidOrder{}, refunding(o)
	}
	if o.Status.Paid() {
		if replayed {
			c.Metrics.Replayed(ctx, string(p.Kind))
		}
		return c.paid(ctx, o, pay, replayed)
	}
	offer, err := c.offer(ctx, p, nil)
	if err != nil {
		return PaidOrder{}, err
	}
	return PaidOrder{}, c.deadChallenge(p, offer, pay)
}

// paid is an order whose payment has arrived, with its refund if there is one.
func (c *Checkout) paid(ctx context.Context, o order.Order, pay payment.Payment, replayed bool) (PaidOrder, error) {
	paid := PaidOrder{Order: o, Payment: pay, Replayed: replayed, ProvenCaller: !replayed}
	refunds, err := c.refunds(ctx, []order.Order{o})
	if err != nil {
		return PaidOrder{}, errors.Join(err, unknownYet(o.ID))
	}
	if r, ok := refunds[o.ID]; ok {
		paid.Refund = &r
	}
	return paid, nil
}

func (c *Checkout) rejected(ctx context.Context, p Purchase, err error) error {
	rejection, ok := errors.AsType[*payment.Rejection](err)
	if !ok {
		return fmt.Errorf("check the signature: %w", err)
	}
	return c.reject(ctx, p, rejection)
}

// reject answers with a challenge, and with the reason why the payment was rejected, if there was one. An order that
// takes no payment gets no challenge.
func (c *Checkout) reject(ctx context.Context, p Purchase, rejection *payment.Rejection) error {
	if err := c.invites(ctx, p.of); err != nil {
		return err
	}
	offer, err := c.offer(ctx, p, nil)
	if err != nil {
		return err
	}
	if err := c.products[p.Kind].Availability().Invite(ctx); err != nil {
		return err
	}
	faultpoint.Reach("buy.challenged")
	return c.challenge(p, offer, rejection)
}

func unknownYet(id order.ID) *fault.Fault {
	return fault.New(fault.SettlementUnknown, "The payment is on its way.").About(string(id)).After(2 * time.Second)
}

func authorizationReused() *fault.Fault {
	return fault.New(fault.AuthorizationAlreadyUsed,
		"This authorization pays for another request. Sign a new one for this key.")
}

func keyReused(id order.ID) *fault.Fault {
	return fault.New(fault.IdempotencyKeyReused, "This idempotencyKey was used with another body.").About(string(id))
}
