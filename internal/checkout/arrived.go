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

// ArrivedStore keeps transfers to the payee that no order has claimed. They are claimed by the payment of a Placement,
// once: it has the transfer's authorization, which is unique. Placed.Claim is Reused when another order or an operator
// was first.
type ArrivedStore interface {
	// Arrive keeps a transfer that the chain has shown, before anything is said about it. Keeping it again only changes
	// where it stands.
	Arrive(ctx context.Context, a payment.Arrived) error
	// Unmatched finds the oldest transfer of a payer and a value that was made by an authorization, that no order has
	// claimed, whatever became of the order, and about which no operator has decided. It may have been read from one
	// node only, and need not be there. order.ErrNotFound when there is none.
	Unmatched(ctx context.Context, q UnmatchedQuery) (payment.Arrived, error)
}

// UnmatchedQuery asks for money that arrived.
type UnmatchedQuery struct {
	Network             string
	Asset, PayTo, Payer x402.Address
	Value               money.USDC
	// Except are the nonces of authorizations that are not meant.
	Except []x402.Hash
}

// Finder is a Product that can tell what its provider has of a purchase.
type Finder interface {
	// Found reports whether the provider has, or is at, the goods of an order, by the reference that the order gives it.
	// The error says that the provider did not tell.
	Found(ctx context.Context, o order.Order) (bool, error)
}

// moved answers a payment whose money arrived and that no order has: to its proven payer with the order, to anyone else
// with how to prove it, since the payment itself is public by now. The money is kept as arrived before anything is
// said.
func (c *Checkout) moved(
	ctx context.Context, p Purchase, pay payment.Signed, known *order.Order, refused error, at payment.Receipt,
) (PaidOrder, error) {
	a := payment.Arrived{Network: c.Terms.Network, Asset: c.Terms.Asset, Authorization: pay.Authorization, Receipt: at}
	if err := c.Store.Arrive(ctx, a); err != nil {
		return PaidOrder{}, fmt.Errorf("keep what arrived: %w", errors.Join(err, unknownYet("")))
	}
	c.Log.WarnContext(ctx, "money arrived without us", slog.String("kind", string(p.Kind)),
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
		return PaidOrder{}, kept(err)
	}
	if !owner || offer.Price.USDC() != a.Authorization.Value {
		return PaidOrder{}, kept(fault.New(fault.TermsChanged, "The payment arrived, and it is not what is asked for here."))
	}
	if !c.proven(ctx, p, pay) {
		if err != nil {
			return PaidOrder{}, kept(err)
		}
		return PaidOrder{}, c.unclaimed(p, offer)
	}
	var admission order.Claim
	if err == nil {
		admission, err = c.products[p.Kind].Reserve(ctx, a.Authorization.From, offer)
	}
	placement := c.claimRequest(p, pay, offer, admission, known)
	placement.Payment.ArrivedAt = &at.SettledAt
	if f, ok := fault.As(err); ok && f.Status == http.StatusConflict {
		placement.Order.Item = offer.Item
		return c.giveBack(ctx, p, pay, placement, a, f)
	}
	if err != nil {
		return PaidOrder{}, err
	}
	sold, err := c.adopt(ctx, p, pay, placement, a)
	sold.ProvenCaller = false // a session shows its secrets, what is public does not
	return sold, err
}

// kept is an error about money that arrived and stays where it is, for its payer's next purchase or an operator.
// Another payment would be a second one.
func kept(err error) error {
	f, ok := fault.As(err)
	if !ok || f.Status != http.StatusConflict {
		return err
	}
	return fault.New(fault.TermsChanged, f.Detail+" The payment arrived all the same, and is kept for its payer.").Moved()
}

// unclaimed asks whoever sent a payment whose money arrived to prove that it is theirs, by another one.
func (c *Checkout) unclaimed(p Purchase, offer order.Offer) error {
	detail := "The money of this payment has arrived. It is public by now and proves nobody: sign another payment of " +
		offer.Price.String() + " USD and repeat the request. It is not sent; the money that arrived pays."
	return c.demand(p, offer, string(fault.PaymentUnclaimed), fault.New(fault.PaymentUnclaimed, detail), nil)
}

// derivedAttempts is how many dead authorizations of one purchase a client of ours has at most.
const derivedAttempts = 16

// proven reports whether whoever sent a spent authorization is its payer: a session says so, or the nonce was derived,
// as our clients do, from this very purchase and its key, which is not public.
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

// owed finds money of the payer's that arrived and pays for an offer, for a payer who is proven by a payment that
// nobody has seen. That one is never sent. What was read may be the word of one node of two, so the chain is asked
// again, and nothing is claimed with money that it does not show now. order.ErrNotFound when there is none.
func (c *Checkout) owed(ctx context.Context, pay payment.Signed, offer order.Offer) (payment.Arrived, error) {
	q := UnmatchedQuery{
		Network: c.Terms.Network, Asset: c.Terms.Asset, PayTo: c.Terms.PayTo, Payer: pay.Authorization.From,
		Value: offer.Price.USDC(),
	}
	a, err := c.Store.Unmatched(ctx, q)
	if err != nil {
		return a, fmt.Errorf("look for money that arrived: %w", err)
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
				return a, fmt.Errorf("read when the money arrived: %w", errors.Join(err, noChain()))
			}
		}
		verdict, err := c.shown(ctx, a)
		switch {
		case err != nil:
			return a, err
		case verdict.State == payment.Settled:
			return a, nil
		case verdict.State != payment.Void:
			return a, unshown()
		}
		c.Log.WarnContext(ctx, "money that arrived is not there", slog.String("payer", pay.Authorization.From.String()),
			slog.String("transaction", a.Receipt.Transaction.String()), slog.String("reason", verdict.Reason))
		q.Except = append(q.Except, a.Authorization.Nonce)
		if a, err = c.Store.Unmatched(ctx, q); err != nil {
			return a, fmt.Errorf("look for more money that arrived: %w", err)
		}
	}
}

// shown asks the chain whether it shows money that arrived.
func (c *Checkout) shown(ctx context.Context, a payment.Arrived) (payment.Verdict, error) {
	if c.Shown == nil {
		return payment.Verdict{State: payment.Settled}, nil
	}
	a.Authorization = a.Bounded(c.Terms.MaxValidity)
	return c.untilClear(ctx, func(ctx context.Context) (payment.Verdict, error) { return c.Shown(ctx, a) })
}

// unshown is the answer while nobody can tell whether money arrived: nodes differ about it, or a reorganisation took it
// out and it may come back.
func unshown() error {
	return fault.New(fault.SettlementUnknown, "A payment of this wallet has arrived, and too few nodes of the chain show "+
		"it now. Nothing was claimed or sent; repeat the same request with the same payment.").After(5 * time.Second)
}

func (c *Checkout) blockTime(ctx context.Context, number uint64) (time.Time, error) {
	if c.BlockTime == nil {
		return c.Now().Add(-24 * time.Hour).UTC(), nil
	}
	return c.BlockTime(ctx, number)
}

// unseen reports that an authorization is known to nobody but its payer: no order has it, and the chain does not.
func (c *Checkout) unseen(ctx context.Context, pay payment.Signed) (bool, error) {
	claimed, err := c.Store.Claimed(ctx, c.Terms.Network, c.Terms.Asset, pay.Authorization)
	if err != nil || claimed {
		return false, err
	}
	verdict, err := c.Chain.Verdict(ctx, pay.Authorization, payment.LookedForSince(c.Now()))
	return err == nil && verdict.State == payment.Unused, err
}

// errTaken says that money which arrived was claimed, or resolved by an operator, at the same moment.
var errTaken = errors.New("the money that arrived is taken")

// spend buys with money that arrived. order.ErrNotFound when there is none that this payment proves.
func (c *Checkout) spend(
	ctx context.Context, p Purchase, pay payment.Signed, known *order.Order, offer order.Offer,
) (PaidOrder, error) {
	for {
		a, err := c.owed(ctx, pay, offer)
		if err != nil {
			return PaidOrder{}, err
		}
		admission, err := c.products[p.Kind].Reserve(ctx, pay.Authorization.From, offer)
		if err != nil {
			return c.unlessKnown(ctx, p, pay, err)
		}
		placement := c.claimRequest(p, pay, offer, admission, known)
		placement.Payment = a.Claim(placement.Payment.ID, placement.Order.ID, c.Terms.MaxValidity, c.Now())
		sold, err := c.adopt(ctx, p, pay, placement, a)
		if !errors.Is(err, errTaken) {
			return sold, err
		}
		// There may be more of it. When there is not, the payment at hand is sent.
	}
}

// adopt places an order that money which arrived pays for, unless that may have bought goods already, or may have gone
// back.
func (c *Checkout) adopt(
	ctx context.Context, p Purchase, pay payment.Signed, placement ClaimRequest, a payment.Arrived,
) (PaidOrder, error) {
	if err := c.stillOurs(ctx, a, placement.Order); err != nil {
		return PaidOrder{}, err
	}
	sold, err := c.claimOrder(ctx, p, pay, placement)
	sold.Replayed = err == nil
	return sold, err
}

// stillOurs makes sure that money which arrived was neither sent back nor spent on goods by books that we have lost.
func (c *Checkout) stillOurs(ctx context.Context, a payment.Arrived, o order.Order) error {
	if err := c.unreturned(ctx, a); err != nil {
		return err
	}
	return c.unspent(ctx, o)
}

// unspent makes sure that money which arrived has not bought something that our books have lost: then the order has to
// be the one that it bought, which its provider knows by the order's reference. Otherwise a person decides.
func (c *Checkout) unspent(ctx context.Context, o order.Order) error {
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

// unreturned makes sure that money which arrived was not sent back by books that we have lost.
func (c *Checkout) unreturned(ctx context.Context, a payment.Arrived) error {
	if c.Returned == nil {
		return nil
	}
	returned, err := c.Returned(ctx, a)
	if err != nil {
		return fmt.Errorf("look for what was sent back: %w", errors.Join(err, noChain()))
	}
	if returned {
		return forOperator("it may have been sent back")
	}
	return nil
}

// forOperator is the answer to a purchase that waits until an operator has decided about money that arrived.
func forOperator(why string) error {
	return fault.New(fault.SettlementUnknown, "The payment arrived, and "+why+
		". An operator looks into it; nothing was sent.").After(time.Minute)
}

// giveBack brings the money of a payment back that arrived for what cannot be sold any more: an order is claimed with
// it, and refunded.
func (c *Checkout) giveBack(
	ctx context.Context, p Purchase, pay payment.Signed, placement ClaimRequest, a payment.Arrived, why *fault.Fault,
) (PaidOrder, error) {
	placement.Order.Returned = why.Detail
	if err := c.stillOurs(ctx, a, placement.Order); err != nil {
		return PaidOrder{}, err
	}
	placed, err := c.Store.Claim(ctx, placement)
	if err != nil {
		return PaidOrder{}, fmt.Errorf("place the order: %w", errors.Join(err, unknownYet("")))
	}
	switch placed.Claim {
	case Repeated:
		return c.repeat(ctx, p, pay, placed.Order)
	case Reused:
		return PaidOrder{}, authorizationReused()
	case Fresh:
	}
	// The buyer is answered at once: the money goes back whatever becomes of the job's first attempt.
	c.Runner.Adopt(placed.Job, c.Settlement.Begin(placed.Order, placement.Payment, make(chan payment.Decided, 1)))
	return PaidOrder{}, returning(placed.Order)
}

// returning says that an order's payment goes back to its payer, or has gone.
func returning(o order.Order) error {
	f := fault.New(fault.TermsChanged, o.Returned+
		" The payment arrived all the same, and is sent back.").About(string(o.ID))
	if o.Status == order.Refunded {
		return f
	}
	return f.Moved()
}
