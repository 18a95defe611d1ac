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
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
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

// arrived claims the order of an attempt with its payment, which was transferred and which no order has claimed. The
// transfer is stored first. Only the proven payer gets the order; anyone else gets a challenge to prove to be the
// payer, since a settled payment is public.
func (c *Checkout) arrived(ctx context.Context, a attempt, refused error, at payment.Receipt) (claim, error) {
	transfer := payment.Arrived{
		Network: c.Terms.Network, Asset: c.Terms.Asset, Authorization: a.signed.Authorization, Receipt: at,
	}
	if err := c.Store.Arrive(ctx, transfer); err != nil {
		return claim{}, fmt.Errorf("store the transfer: %w", errors.Join(err, unknownYet("")))
	}
	c.Log.WarnContext(ctx, "payment was transferred without an order", slog.String("kind", string(a.Kind)),
		slog.String("transaction", at.Transaction.String()))
	faultpoint.Reach("arrive.committed")
	if a.known != nil && a.known.Status != order.PaymentRequired {
		if f, ok := fault.As(refused); ok { // the order takes no payment
			refused = moneyKept(f.Code, f).About(string(a.known.ID))
		}
		return claim{}, refused
	}
	owner := a.known == nil || a.known.Owner == a.payer()
	promised := c.promised(a, at.SettledAt)
	offer, err := c.offer(ctx, a.Purchase, promised)
	switch {
	case err != nil && promised != nil:
		offer = *promised
	case err != nil:
		return claim{}, keptForPayer(err)
	}
	a.offer = &offer
	if !owner || offer.Price.USDC() != a.signed.Authorization.Value {
		const detail = "The payment arrived, and it is not what is asked for here."
		return claim{}, keptForPayer(fault.New(fault.TermsChanged, detail))
	}
	if !c.proven(ctx, a) {
		if err != nil {
			return claim{}, keptForPayer(err)
		}
		return claim{}, c.proofRequired(a.Purchase, offer)
	}
	var reserved order.Claim
	if err == nil {
		reserved, err = c.products[a.Kind].Reserve(ctx, a.payer(), offer)
	}
	req := c.claimRequest(a, reserved)
	req.Payment.ArrivedAt = &at.SettledAt
	if f, ok := fault.As(err); ok && f.Status == http.StatusConflict {
		// It can no longer be sold: settlement refunds the order.
		req.Order.Item, req.Order.RefundReason = offer.Item, f.Detail
		err = nil
	}
	if err != nil {
		return claim{}, err
	}
	return c.claimUnused(ctx, a, req, transfer)
}

// keptForPayer is an error about money that arrived and stays with us, for its payer's next purchase or an operator.
// The payer must not pay again.
func keptForPayer(err error) error {
	f, ok := fault.As(err)
	if !ok || f.Status != http.StatusConflict {
		return err
	}
	return moneyKept(fault.TermsChanged, f)
}

// moneyKept is a refusal, with a code, of a payment whose money arrived.
func moneyKept(code fault.Code, f *fault.Fault) *fault.Fault {
	return fault.New(code, f.Detail+" The payment arrived anyway, and is kept for its payer.").MoneyMoved()
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
func (c *Checkout) proven(ctx context.Context, a attempt) bool {
	payer := a.payer()
	if c.signedIn(ctx, payer) {
		return true
	}
	site, err := url.Parse(a.Resource.URL)
	if err != nil {
		return false
	}
	path, key := c.products[a.Kind].Path(), a.Key
	if a.of != nil {
		path, key = "/pay/"+string(a.of.ID), string(a.of.ID)
	}
	for attempt := range derivedAttempts {
		if x402.DerivedNonce(site.Scheme+"://"+site.Host, path, payer, key, attempt) == a.signed.Authorization.Nonce {
			return true
		}
	}
	return false
}

// unmatched finds an unmatched transfer of the payer that pays for an offer. The payer is proven by a payment that
// nobody has seen; that payment is never sent. The stored transfer may have been read from a single node, so the chain
// is asked again, and a transfer that it does not show now is not used. order.ErrNotFound when there is none.
func (c *Checkout) unmatched(ctx context.Context, a attempt) (payment.Arrived, error) {
	q := UnmatchedQuery{
		Network: c.Terms.Network, Asset: c.Terms.Asset, PayTo: c.Terms.PayTo, Payer: a.payer(),
		Value: a.offer.Price.USDC(),
	}
	found, err := c.Store.Unmatched(ctx, q)
	if err != nil {
		return found, fmt.Errorf("find an unmatched transfer: %w", err)
	}
	switch unseen, err := c.unseen(ctx, a.signed.Authorization); {
	case err != nil:
		return found, err
	case !unseen:
		return found, order.ErrNotFound
	}
	for {
		if found.Receipt.SettledAt.IsZero() {
			if found.Receipt.SettledAt, err = c.blockTime(ctx, found.Receipt.Block); err != nil {
				return found, fmt.Errorf("read the time of the transfer: %w", errors.Join(err, noChain()))
			}
		}
		verdict, err := c.verifyArrived(ctx, found)
		switch {
		case err != nil:
			return found, err
		case verdict.State == payment.Settled:
			return found, nil
		case verdict.State != payment.Void:
			return found, arrivalUnknown()
		}
		c.Log.WarnContext(ctx, "stored transfer is not on the chain", slog.String("payer", a.payer().String()),
			slog.String("transaction", found.Receipt.Transaction.String()), slog.String("reason", verdict.Reason))
		q.Except = append(q.Except, found.Authorization.Nonce)
		if found, err = c.Store.Unmatched(ctx, q); err != nil {
			return found, fmt.Errorf("find another unmatched transfer: %w", err)
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
// it. While that is not known, nothing is claimed: taken for an ordinary payment, it would be sent although the money
// has arrived.
func (c *Checkout) unseen(ctx context.Context, a x402.Authorization) (bool, error) {
	claimed, err := c.Store.Claimed(ctx, c.Terms.Network, c.Terms.Asset, a)
	if err != nil {
		return false, fmt.Errorf("look the payment up: %w", err)
	}
	if claimed {
		return false, nil
	}
	verdict, err := c.Chain.Verdict(ctx, a, payment.SearchFrom(c.Now()))
	switch {
	case err != nil:
		return false, fmt.Errorf("look for the payment: %w", errors.Join(err, noChain()))
	case verdict.State == payment.Unknown:
		return false, arrivalUnknown()
	}
	return verdict.State == payment.Unused, nil
}

// errTaken says that an unmatched transfer was claimed, or resolved by an operator, concurrently.
var errTaken = errors.New("the unmatched transfer is taken")

// claimWithUnmatched claims an order with an unmatched transfer. order.ErrNotFound when the payer has none.
func (c *Checkout) claimWithUnmatched(ctx context.Context, a attempt) (claim, error) {
	for {
		transfer, err := c.unmatched(ctx, a)
		if err != nil {
			return claim{}, err
		}
		reserved, err := c.products[a.Kind].Reserve(ctx, a.payer(), *a.offer)
		if err != nil {
			return claim{}, err
		}
		req := c.claimRequest(a, reserved)
		req.Payment = transfer.Claim(req.Payment.ID, req.Order.ID, c.Terms.MaxValidity, c.Now())
		made, err := c.claimUnused(ctx, a, req, transfer)
		if !errors.Is(err, errTaken) {
			return made, err
		}
		// There may be another one. When there is none, the new payment is sent.
	}
}

// claimUnused claims an order with a transfer, unless that may have bought goods or may have been refunded.
func (c *Checkout) claimUnused(
	ctx context.Context, a attempt, req ClaimRequest, transfer payment.Arrived,
) (claim, error) {
	if err := c.checkUnused(ctx, transfer, req.Order); err != nil {
		return claim{}, err
	}
	return c.claimOrder(ctx, a, req)
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
			return keptForPayer(err)
		}
	}
	if c.Unexplained == nil {
		return nil
	}
	unexplained, err := c.Unexplained(ctx, o.Owner)
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

// refunding is the answer for an order whose payment is being, or has been, refunded.
func refunding(o order.Order) error {
	f := fault.New(fault.TermsChanged, o.RefundReason+
		" The payment arrived anyway, and is sent back.").About(string(o.ID))
	if o.Status == order.Refunded {
		return f
	}
	return f.MoneyMoved()
}
