package checkout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/testing/faultpoint"
	"github.com/roamcard/roamcard/internal/x402"
)

// ArrivedStore keeps unmatched transfers: transfers to the payee that no order has claimed. A ClaimRequest whose
// payment has the transfer's authorization claims it, once, because authorizations are unique. ClaimResult.Claim is
// Reused when another order claimed it or an operator resolved it first.
type ArrivedStore interface {
	// Arrive stores a transfer that the chain shows. Storing it again only updates its place in the chain.
	Arrive(ctx context.Context, a payment.Arrived) error
	// Unmatched finds the oldest transfer of a payer and a value that was made by an authorization, that no order has
	// ever claimed, and that no operator has resolved. It may have been read from a single node: verify it before use.
	// order.ErrNotFound when there is none.
	Unmatched(ctx context.Context, q UnmatchedQuery) (payment.Arrived, error)
}

// UnmatchedQuery selects unmatched transfers.
type UnmatchedQuery struct {
	Network             string
	Asset, PayTo, Payer x402.Address
	Value               money.USDC
	// Except are the nonces of authorizations to skip.
	Except []x402.Hash
}

// Finder is a Product whose provider can be asked for an order by reference.
type Finder interface {
	// Found reports whether the provider has made, or is making, the goods of an order, by the order's reference. An
	// error means that the provider did not answer.
	Found(ctx context.Context, o order.Order) (bool, error)
}

// arrived answers a payment that was transferred and that no order has claimed. The transfer is stored first. The
// proven payer gets the order; anyone else gets a challenge to prove to be the payer, since a settled payment is
// public.
func (c *Checkout) arrived(
	ctx context.Context, p Purchase, pay payment.Signed, known *order.Order, refused error, at payment.Receipt,
) (PaidOrder, error) {
	a := payment.Arrived{Network: c.Terms.Network, Asset: c.Terms.Asset, Authorization: pay.Authorization, Receipt: at}
	if err := c.Store.Arrive(ctx, a); err != nil {
		return PaidOrder{}, fmt.Errorf("store the transfer: %w", errors.Join(err, unknownYet("")))
	}
	c.Log.WarnContext(ctx, "payment was transferred without an order", slog.String("kind", string(p.Kind)),
		slog.String("transaction", at.Transaction.String()))
	faultpoint.Reach("arrive.committed")
	if known != nil && known.Status != order.PaymentRequired {
		return PaidOrder{}, refused // an order that takes no payment
	}
	owner := known == nil || known.Owner == pay.Authorization.From
	promised := c.promised(p, pay, known, at.SettledAt)
	offer, err := c.offer(ctx, p, promised)
	switch {
	case err != nil && promised != nil:
		offer = *promised
	case err != nil:
		return PaidOrder{}, keptForPayer(err)
	}
	if !owner || offer.Price.USDC() != a.Authorization.Value {
		const detail = "The payment arrived, and it is not what is asked for here."
		return PaidOrder{}, keptForPayer(fault.New(fault.TermsChanged, detail))
	}
	if !c.proven(ctx, p, pay) {
		if err != nil {
			return PaidOrder{}, keptForPayer(err)
		}
		return PaidOrder{}, c.proofRequired(p, offer)
	}
	var reserved order.Claim
	if err == nil {
		reserved, err = c.products[p.Kind].Reserve(ctx, a.Authorization.From, offer)
	}
	req := c.claimRequest(p, pay, offer, reserved, known)
	req.Payment.ArrivedAt = &at.SettledAt
	if f, ok := fault.As(err); ok && f.Status == http.StatusConflict {
		req.Order.Item = offer.Item
		return c.claimToRefund(ctx, p, pay, req, a, f)
	}
	if err != nil {
		return PaidOrder{}, err
	}
	paid, err := c.claimWithUnmatched(ctx, p, pay, req, a)
	paid.ProvenCaller = false // the payment is public: secrets need a session
	return paid, err
}

// keptForPayer is an error about money that arrived and stays with us, for its payer's next purchase or an operator.
// The payer must not pay again.
func keptForPayer(err error) error {
	f, ok := fault.As(err)
	if !ok || f.Status != http.StatusConflict {
		return err
	}
	return fault.New(fault.TermsChanged, f.Detail+" The payment arrived anyway, and is kept for its payer.").MoneyMoved()
}

// proofRequired asks the sender of a payment whose money arrived to prove to be its payer, by signing another payment.
func (c *Checkout) proofRequired(p Purchase, offer order.Offer) error {
	detail := "The money of this payment has arrived. It is public by now and proves nobody: sign another payment of " +
		offer.Price.String() + " USD and repeat the request. It is not sent; the money that arrived pays."
	return c.newChallenge(p, offer, string(fault.PaymentUnclaimed), fault.New(fault.PaymentUnclaimed, detail), nil)
}

// derivedAttempts is the largest number of authorizations that our clients derive for one purchase.
const derivedAttempts = 16

// proven reports whether the sender of a spent authorization is its payer: by a session, or because the nonce is
// derived from this purchase and its key, which is not public. Our clients derive nonces so.
func (c *Checkout) proven(ctx context.Context, p Purchase, pay payment.Signed) bool {
	payer := pay.Authorization.From
	if c.Session != nil && c.Session(ctx, payer) {
		return true
	}
	site, err := url.Parse(p.Resource.URL)
	if err != nil {
		return false
	}
	path, key := c.products[p.Kind].Path(), p.Key
	if p.of != nil {
		path, key = "/pay/"+string(p.of.ID), string(p.of.ID)
	}
	for attempt := range derivedAttempts {
		if x402.DerivedNonce(site.Scheme+"://"+site.Host, path, payer, key, attempt) == pay.Authorization.Nonce {
			return true
		}
	}
	return false
}

// unmatched finds an unmatched transfer of the payer that pays for an offer. The payer is proven by a payment that
// nobody has seen; that payment is never sent. The stored transfer may have been read from a single node, so the chain
// is asked again, and a transfer that it does not show now is not used. order.ErrNotFound when there is none.
func (c *Checkout) unmatched(ctx context.Context, pay payment.Signed, offer order.Offer) (payment.Arrived, error) {
	q := UnmatchedQuery{
		Network: c.Terms.Network, Asset: c.Terms.Asset, PayTo: c.Terms.PayTo, Payer: pay.Authorization.From,
		Value: offer.Price.USDC(),
	}
	a, err := c.Store.Unmatched(ctx, q)
	if err != nil {
		return a, fmt.Errorf("find an unmatched transfer: %w", err)
	}
	switch unseen, err := c.unseen(ctx, pay); {
	case err != nil:
		return a, fmt.Errorf("look for the payment: %w", errors.Join(err, noChain()))
	case !unseen:
		return a, order.ErrNotFound
	}
	for {
		if a.Receipt.SettledAt.IsZero() {
			if a.Receipt.SettledAt, err = c.blockTime(ctx, a.Receipt.Block); err != nil {
				return a, fmt.Errorf("read the time of the transfer: %w", errors.Join(err, noChain()))
			}
		}
		verdict, err := c.verifyArrived(ctx, a)
		switch {
		case err != nil:
			return a, err
		case verdict.State == payment.Settled:
			return a, nil
		case verdict.State != payment.Void:
			return a, arrivalUnknown()
		}
		c.Log.WarnContext(ctx, "stored transfer is not on the chain", slog.String("payer", pay.Authorization.From.String()),
			slog.String("transaction", a.Receipt.Transaction.String()), slog.String("reason", verdict.Reason))
		q.Except = append(q.Except, a.Authorization.Nonce)
		if a, err = c.Store.Unmatched(ctx, q); err != nil {
			return a, fmt.Errorf("find another unmatched transfer: %w", err)
		}
	}
}

// verifyArrived asks the chain whether it shows a stored transfer.
func (c *Checkout) verifyArrived(ctx context.Context, a payment.Arrived) (payment.Verdict, error) {
	if c.VerifyArrived == nil {
		return payment.Verdict{State: payment.Settled}, nil
	}
	a.Authorization = a.Bounded(c.Terms.MaxValidity)
	return c.pollVerdict(ctx, func(ctx context.Context) (payment.Verdict, error) { return c.VerifyArrived(ctx, a) })
}

// arrivalUnknown is the answer while it is unknown whether a transfer exists: nodes disagree, or a reorganisation
// removed it and it may be included again.
func arrivalUnknown() error {
	return fault.New(fault.SettlementUnknown, "A payment of this wallet has arrived, and too few nodes of the chain show "+
		"it now. Nothing was claimed or sent; repeat the same request with the same payment.").After(5 * time.Second)
}

func (c *Checkout) blockTime(ctx context.Context, number uint64) (time.Time, error) {
	if c.BlockTime == nil {
		return c.Now().Add(-24 * time.Hour).UTC(), nil
	}
	return c.BlockTime(ctx, number)
}

// unseen reports whether only its payer knows an authorization: no order has claimed it, and the chain does not show
// it.
func (c *Checkout) unseen(ctx context.Context, pay payment.Signed) (bool, error) {
	claimed, err := c.Store.Claimed(ctx, c.Terms.Network, c.Terms.Asset, pay.Authorization)
	if err != nil || claimed {
		return false, err
	}
	verdict, err := c.Chain.Verdict(ctx, pay.Authorization, payment.SearchFrom(c.Now()))
	return err == nil && verdict.State == payment.Unused, err
}

// errTaken says that an unmatched transfer was claimed, or resolved by an operator, concurrently.
var errTaken = errors.New("the unmatched transfer is taken")

// payWithUnmatched pays with an unmatched transfer. order.ErrNotFound when the payer has none.
func (c *Checkout) payWithUnmatched(
	ctx context.Context, p Purchase, pay payment.Signed, known *order.Order, offer order.Offer,
) (PaidOrder, error) {
	for {
		a, err := c.unmatched(ctx, pay, offer)
		if err != nil {
			return PaidOrder{}, err
		}
		reserved, err := c.products[p.Kind].Reserve(ctx, pay.Authorization.From, offer)
		if err != nil {
			return c.unlessKnown(ctx, p, pay, err)
		}
		req := c.claimRequest(p, pay, offer, reserved, known)
		req.Payment = a.Claim(req.Payment.ID, req.Order.ID, c.Terms.MaxValidity, c.Now())
		paid, err := c.claimWithUnmatched(ctx, p, pay, req, a)
		if !errors.Is(err, errTaken) {
			return paid, err
		}
		// There may be another one. When there is none, the new payment is sent.
	}
}

// claimWithUnmatched claims an order with an unmatched transfer, unless the transfer may have bought goods or may have
// been refunded.
func (c *Checkout) claimWithUnmatched(
	ctx context.Context, p Purchase, pay payment.Signed, req ClaimRequest, a payment.Arrived,
) (PaidOrder, error) {
	if err := c.checkUnused(ctx, a, req.Order); err != nil {
		return PaidOrder{}, err
	}
	paid, err := c.claimOrder(ctx, p, pay, req)
	paid.Replayed = err == nil
	return paid, err
}

// checkUnused checks that a transfer was neither refunded nor used for an order in data that we have lost.
func (c *Checkout) checkUnused(ctx context.Context, a payment.Arrived, o order.Order) error {
	if err := c.checkNotRefunded(ctx, a); err != nil {
		return err
	}
	return c.checkUnspent(ctx, o)
}

// checkUnspent checks that a transfer has not paid for an order in data that we have lost. The order may proceed when
// its provider has it under the same reference; while a provider has other goods that we cannot explain, an operator
// decides.
func (c *Checkout) checkUnspent(ctx context.Context, o order.Order) error {
	if finder, ok := c.products[o.Kind].(Finder); ok {
		found, err := finder.Found(ctx, o)
		if err != nil || found {
			return err
		}
	}
	if c.Unexplained == nil {
		return nil
	}
	unexplained, err := c.Unexplained(ctx)
	if err != nil {
		return fmt.Errorf("compare with the providers: %w", err)
	}
	if unexplained {
		return forOperator("it is not clear yet what it bought")
	}
	return nil
}

// checkNotRefunded checks that a transfer was not refunded in data that we have lost.
func (c *Checkout) checkNotRefunded(ctx context.Context, a payment.Arrived) error {
	if c.MaybeRefunded == nil {
		return nil
	}
	returned, err := c.MaybeRefunded(ctx, a)
	if err != nil {
		return fmt.Errorf("look for a refund: %w", errors.Join(err, noChain()))
	}
	if returned {
		return forOperator("it may have been sent back")
	}
	return nil
}

// forOperator is the answer to a purchase while an operator has to resolve its transfer.
func forOperator(why string) error {
	return fault.New(fault.SettlementUnknown, "The payment arrived, and "+why+
		". An operator looks into it; nothing was sent.").After(time.Minute)
}

// claimToRefund refunds a transfer for something that can no longer be sold: it claims an order with it, which
// settlement refunds.
func (c *Checkout) claimToRefund(
	ctx context.Context, p Purchase, pay payment.Signed, req ClaimRequest, a payment.Arrived, why *fault.Fault,
) (PaidOrder, error) {
	req.Order.RefundReason = why.Detail
	if err := c.screen(ctx, a.Authorization.From); err != nil {
		return PaidOrder{}, err
	}
	if err := c.checkUnused(ctx, a, req.Order); err != nil {
		return PaidOrder{}, err
	}
	result, err := c.Store.Claim(ctx, req)
	if err != nil {
		return PaidOrder{}, fmt.Errorf("claim the order: %w", errors.Join(err, unknownYet("")))
	}
	switch result.Claim {
	case Repeated:
		return c.repeat(ctx, p, pay, result.Order)
	case Reused:
		return PaidOrder{}, authorizationReused()
	case Fresh:
	}
	// The buyer is answered at once: the refund does not depend on the job's first attempt.
	c.Runner.Adopt(result.Job, c.Settlement.Begin(result.Order, req.Payment, make(chan payment.Decided, 1)))
	return PaidOrder{}, refunding(result.Order)
}

// refunding is the answer for an order whose payment is being, or has been, refunded.
func refunding(o order.Order) error {
	f := fault.New(fault.TermsChanged, o.RefundReason+
		" The payment arrived anyway, and is sent back.").About(string(o.ID))
	if o.Status == order.Refunded {
		return f
	}
	return f.MoneyMoved()
}
