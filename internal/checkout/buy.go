package checkout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Buy answers a purchase: a *Challenge until it is paid, then the order with its proven payment. A
// repeat of a paid purchase gets the same order again and is never charged again.
func (c *Checkout) Buy(ctx context.Context, p Purchase) (PaidOrder, error) {
	if paid, known, err := c.signedRepeat(ctx, p); known || err != nil {
		return paid, err
	}
	ctx, cancel := c.detached(ctx, p.Payment)
	defer cancel()
	a, err := c.presented(ctx, p)
	if err != nil {
		return PaidOrder{}, err
	}
	if a.identifier != "" && a.identifier != p.Key {
		return PaidOrder{}, fault.New(fault.IdempotencyKeyReused, "The payment-identifier of the payment is not the "+
			"idempotencyKey of the request. This payment was not taken: send the key as the id, or no id.")
	}
	ctx, span := otel.Tracer("checkout").Start(ctx, "checkout.buy")
	defer span.End()
	known, err := c.find(ctx, p, a.payer(), "")
	switch {
	case err == nil:
		a.known = &known
	case !errors.Is(err, order.ErrNotFound):
		return PaidOrder{}, fmt.Errorf("look the purchase up: %w", err)
	case a.excess != nil:
		return PaidOrder{}, a.excess // the claim died since it was counted as claimed
	}
	return c.buy(ctx, a)
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

// attempt is one request to buy, with a payment that its payer signed.
type attempt struct {
	Purchase
	signed payment.Signed
	// identifier is the client's own name for what it pays, by x402's payment-identifier; empty for none.
	identifier string
	// excess is the answer if the request turns out to prove nothing; see countPayment. Nil below the limit.
	excess error
	// known is the order that exists for the purchase; nil when there is none.
	known *order.Order
	// offer is what the payment buys; nil as long as the product has not said so.
	offer *order.Offer
}

func (a attempt) payer() x402.Address { return a.signed.Authorization.From }

// quoteID is that of the quote that the payment echoes; empty for none.
func (a attempt) quoteID() string {
	id, _ := a.signed.Accepted.Extra["quoteId"].(string)
	return id
}

// barred is the reason why a payment cannot claim the order that it names, or nil.
func (a attempt) barred() error {
	switch {
	case a.of == nil:
		return nil
	case a.payer() != a.of.Owner:
		return notTheOwner()
	case a.of.Status == order.Expired:
		return expired(a.of.ID)
	}
	return nil
}

// claim is an order that an attempt has claimed, or found claimed.
type claim struct {
	ClaimResult
	payment payment.Payment
	// leave ends the claim in the limits.
	leave func()
}

// buy answers an attempt: from the record of an order that has claimed a payment, else by claiming one with this.
func (c *Checkout) buy(ctx context.Context, a attempt) (PaidOrder, error) {
	var made claim
	var err error
	switch barred := a.barred(); {
	case barred != nil:
		made, err = c.refuseCounted(ctx, a, barred)
	case a.known != nil && a.known.Status != order.PaymentRequired:
		c.pace(ctx, a.excess, *a.known)
		return c.repeat(ctx, a, *a.known)
	default:
		made, err = c.claim(ctx, a)
	}
	if err != nil {
		return c.unlessClaimed(ctx, a, err)
	}
	defer made.leave()
	return c.follow(ctx, a, made)
}

// unlessClaimed is the one way out for attempts that have claimed nothing. It returns err, unless the purchase has an
// order by now: a copy of the request has claimed it, or a recovery has recreated it.
func (c *Checkout) unlessClaimed(ctx context.Context, a attempt, err error) (PaidOrder, error) {
	if a.of != nil && a.payer() != a.of.Owner {
		return PaidOrder{}, err
	}
	known, lookup := c.find(ctx, a.Purchase, a.payer(), "")
	switch {
	case lookup == nil && known.Status != order.PaymentRequired:
		return c.repeat(ctx, a, known)
	case lookup == nil || errors.Is(lookup, order.ErrNotFound):
		return PaidOrder{}, err
	}
	if f, ok := fault.As(err); ok && f.Code == fault.SettlementUnknown {
		return PaidOrder{}, err // which claims nothing that the record could belie
	}
	return PaidOrder{}, fmt.Errorf("look the purchase up again: %w", lookup)
}

// follow waits until the payment of a claim is decided. Money that had arrived before pays like a repeat; who presents
// no other payment than that, and no session, is proven by nothing but what is public.
func (c *Checkout) follow(ctx context.Context, a attempt, made claim) (paid PaidOrder, err error) {
	arrived := made.payment.ArrivedAt != nil
	public := arrived && made.payment.Authorization.Nonce == a.signed.Authorization.Nonce
	if made.Claim == Repeated {
		paid, err = c.repeat(ctx, a, made.Order)
	} else {
		decided := make(chan payment.Decided, 1)
		c.Runner.Adopt(made.Job, c.Settlement.Begin(made.Order, made.payment, decided))
		if made.Order.RefundReason != "" {
			return PaidOrder{}, refunding(made.Order) // the refund does not depend on the job's first attempt
		}
		paid, err = c.await(ctx, a.Purchase, made.Order.ID, decided, c.Wait)
	}
	paid.Replayed = err == nil && (paid.Replayed || arrived)
	paid.ProvenCaller = err == nil && (paid.ProvenCaller && !public || c.signedIn(ctx, made.Order.Owner))
	return paid, err
}

// claim verifies a payment and claims the order with it, or with money of its payer that has arrived before.
func (c *Checkout) claim(ctx context.Context, a attempt) (claim, error) {
	if a.known != nil && a.known.Fingerprint != a.fingerprint() {
		return claim{}, keyReused(a.known.ID)
	}
	if err := c.screenKnown(ctx, a.payer()); err != nil {
		return claim{}, err
	}
	product := c.products[a.Kind]
	if err := product.Availability().RecordedOf(ctx, a.payer()); err != nil {
		return claim{}, err
	}
	if err := c.elsewhere(a); err != nil {
		return c.refuse(ctx, a, err)
	}
	offer, err := c.offer(ctx, a.Purchase, c.promised(a, c.Now()))
	if err != nil {
		return c.refuse(ctx, a, err)
	}
	a.offer = &offer
	if err := c.Terms.Check(a.signed, offer.Price.USDC(), c.Now()); err != nil {
		return c.refuse(ctx, a, err)
	}
	if made, err := c.claimWithUnmatched(ctx, a); !errors.Is(err, order.ErrNotFound) {
		return made, err
	}
	if err := c.verify(ctx, a.signed, offer); err != nil {
		return c.refuse(ctx, a, err)
	}
	faultpoint.Reach("buy.verified")
	if err := product.Availability().Settle(ctx); err != nil {
		return claim{}, err
	}
	reserved, err := product.Reserve(ctx, a.payer(), offer)
	if err != nil {
		return c.refuse(ctx, a, err)
	}
	return c.claimOrder(ctx, a, c.claimRequest(a, reserved))
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

// claimOrder claims an order, within the payer's limits.
func (c *Checkout) claimOrder(ctx context.Context, a attempt, req ClaimRequest) (made claim, err error) {
	made.payment = req.Payment
	if made.leave, err = c.countClaim(a.payer(), req.Existing); err != nil {
		return made, err
	}
	defer func() {
		if err != nil {
			made.leave()
		}
	}()
	if err := c.screen(ctx, a.payer()); err != nil {
		return made, err
	}
	made.ClaimResult, err = c.Store.Claim(ctx, req)
	if errors.Is(err, ErrUncovered) {
		if req.Funds, err = c.Chain.Funds(ctx, a.payer()); err != nil {
			return made, fmt.Errorf("read the payer's funds: %w", errors.Join(err, noChain()))
		}
		made.ClaimResult, err = c.Store.Claim(ctx, req)
	}
	switch {
	case err != nil:
		return made, c.unclaimed(a.Kind, err)
	case made.Claim != Reused:
		return made, nil
	case req.Payment.Authorization.Nonce != a.signed.Authorization.Nonce:
		return made, errTaken
	}
	return made, authorizationReused()
}

// unclaimed is the answer to an error of Store.Claim.
func (c *Checkout) unclaimed(kind order.Kind, err error) error {
	available := c.products[kind].Availability()
	if short, ok := errors.AsType[*order.Shortage](err); ok {
		return short.Fault()
	}
	if refusal, ok := errors.AsType[*limit.Refusal](err); ok {
		return refusal
	}
	switch {
	case errors.Is(err, ErrUncovered):
		return uncovered()
	case errors.Is(err, ErrUndecided):
		return undecided()
	case errors.Is(err, availability.ErrPaused):
		return available.Fault()
	case errors.Is(err, ErrHistoryLost):
		return fmt.Errorf("claim the order: %w", available.Lost(err))
	}
	// The transaction may have committed: only repeating the same request is safe.
	return fmt.Errorf("claim the order: %w", errors.Join(err, unknownYet("")))
}

// promised is the offer that a payment was made for: the order's, or that of the quote it echoes if the quote was valid
// at a time; nil when there is none.
func (c *Checkout) promised(a attempt, at time.Time) *order.Offer {
	if a.known != nil {
		return offerOf(*a.known)
	}
	quoted, err := c.quotes.openAt(a.quoteID(), a.Kind, a.fingerprint(), at)
	if err != nil {
		return nil
	}
	return &quoted
}

// elsewhere fails with a *payment.Rejection when a payment says itself that it was signed for something else of the
// same price: by the quote of another product, by the page of another order, or by another address of this service.
// Nobody but its payer loses by that.
func (c *Checkout) elsewhere(a attempt) error {
	refused := func(what string) error {
		return &payment.Rejection{Reason: x402.ReasonRequirements, Detail: "The payment was signed for " + what +
			". It was not taken: sign what this answer asks for."}
	}
	if kind, ok := c.quotes.kindOf(a.quoteID()); ok && kind != a.Kind {
		return refused("another product")
	}
	at := a.signed.Resource.URL
	if id, ok := payableID(at); ok {
		if at != a.Resource.URL && (a.known == nil || id != a.known.ID) {
			return refused("another order")
		}
		return nil
	}
	if a.of == nil && isElsewhere(at, a.Resource.URL) {
		return refused("another address")
	}
	return nil
}

// isElsewhere says that an address of our own has another path. Others have names of their own for us, and what they
// say is not signed.
func isElsewhere(address, ours string) bool {
	theirs, err1 := url.Parse(address)
	own, err2 := url.Parse(ours)
	return err1 == nil && err2 == nil && theirs.Host == own.Host && theirs.Path != own.Path
}

// payableID is the order whose page an address is.
func payableID(address string) (id order.ID, ok bool) {
	_, rest, ok := strings.Cut(address, "/pay/ord_")
	rest, _, _ = strings.Cut(rest, "?")
	return order.ID("ord_" + rest), ok
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
	offer, err := product.Offer(ctx, order.OfferRequest{Key: p.Key, Body: p.Request, Quoted: promised})
	if f, ok := fault.As(err); ok && f.Code == fault.TermsChanged && p.of != nil {
		f.Detail += " This order cannot be paid as it is; create another one."
		return offer, f.Then(fault.FixRequest)
	}
	return offer, err
}

// claimRequest asks for the order of an attempt, whose offer is known.
func (c *Checkout) claimRequest(a attempt, reserved order.Claim) ClaimRequest {
	o := c.newOrder(a.Purchase, a.payer(), a.offer.Price, reserved.Item)
	if a.known != nil {
		o = *a.known
	}
	id := newID()
	return ClaimRequest{
		Order: o,
		Payment: payment.Payment{
			ID: id, Order: o.ID, Status: payment.Claimed, Network: c.Terms.Network, Asset: c.Terms.Asset,
			Authorization: a.signed.Authorization, Signature: a.signed.Signature, CreatedAt: c.Now(),
		},
		Reservations: reserved.Reservations, Provider: reserved.Provider, MaxUndecided: c.mostUndecided(a.signed),
		MaxInFlight: c.Limits.Most(limit.InFlight), InFlightSince: c.Now().Add(-c.Wait),
		Hits:     c.claimHits(a.signed, a.known != nil),
		Job:      c.Runner.Own(c.Settlement.Job(o.ID, id.String())),
		Goods:    c.goods(o),
		Existing: a.known != nil,
	}
}

// newOrder makes the order of a purchase, without storing it.
func (c *Checkout) newOrder(p Purchase, owner x402.Address, price money.Cents, item json.RawMessage) order.Order {
	now := c.Now().Truncate(time.Microsecond) // as the store keeps it: a repeat shows the same
	return order.Order{
		ID: order.NewID(now), Operation: newID(), Kind: p.Kind, Owner: owner, Key: p.Key, Fingerprint: p.fingerprint(),
		Price: price, Item: item, Reference: order.ReferenceOf(p.Kind, owner, p.Key), Delivery: 1, CreatedAt: now,
		UpdatedAt: now,
	}
}
