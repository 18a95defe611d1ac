package checkout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// refuse answers a paid request that nothing was claimed for. Before a payer may be told that another payment is safe,
// the chain is asked what became of this one: its money may have moved without us, or by an order that we have lost.
// offer is nil when there was none.
func (c *Checkout) refuse(
	ctx context.Context, p Purchase, pay payment.Signed, known *order.Order, offer *order.Offer, why error,
) (PaidOrder, error) {
	no, rejected := errors.AsType[*payment.Rejection](why)
	refused := why
	switch {
	case rejected && offer != nil:
		refused = c.challenge(p, *offer, no)
	case rejected:
		refused = c.reject(ctx, p, no)
	}
	f, ok := fault.As(refused)
	late := known != nil && known.Status == order.Expired
	if !ok || !f.SafeToPayAgain && !late {
		return c.unlessKnown(ctx, p, pay, refused)
	}
	claimed, err := c.Store.Claimed(ctx, c.Terms.Network, c.Terms.Asset, pay.Authorization)
	if err != nil {
		return PaidOrder{}, fmt.Errorf("look the authorization up: %w", err)
	}
	if claimed {
		return c.unlessKnown(ctx, p, pay, c.claimedBefore(ctx, pay, known, offer, refused))
	}
	verdict, err := c.look(ctx, pay.Authorization)
	switch {
	case err != nil:
		return c.unlessKnown(ctx, p, pay, err)
	case verdict.State == payment.Settled:
		return c.moved(ctx, p, pay, known, refused, *verdict.Receipt)
	case verdict.State == payment.Void:
		return c.unlessKnown(ctx, p, pay, c.void(refused, pay, verdict.Reason))
	case verdict.State == payment.Unused && (!rejected || no.Reason != x402.ReasonNonceUsed):
		return c.unlessKnown(ctx, p, pay, refused)
	}
	// It is used, or was until a moment ago, and no node shows what for; or its time is over at a block that may go.
	return c.unlessKnown(ctx, p, pay, unknownYet(""))
}

// unlessKnown returns err, unless the purchase has been placed meanwhile by a copy of the request.
func (c *Checkout) unlessKnown(ctx context.Context, p Purchase, pay payment.Signed, err error) (PaidOrder, error) {
	known, lookup := c.Store.FindByKey(ctx, p.Kind, pay.Authorization.From, p.Key)
	switch {
	case lookup == nil && known.Status != order.PaymentRequired:
		return c.repeat(ctx, p, pay, known)
	case lookup != nil && !errors.Is(lookup, order.ErrNotFound):
		return PaidOrder{}, fmt.Errorf("look the purchase up again: %w", lookup)
	}
	return PaidOrder{}, err
}

// claimedBefore answers a payment that an order of ours has: this one, if it is another attempt of it, or another one.
func (c *Checkout) claimedBefore(
	ctx context.Context, pay payment.Signed, known *order.Order, offer *order.Offer, refused error,
) error {
	if known != nil && known.ExpiresAt == nil {
		own, err := c.payment(ctx, known.ID)
		if err != nil && !errors.Is(err, order.ErrNotFound) {
			return fmt.Errorf("read the payment: %w", err)
		}
		if err == nil && own.Authorization.Nonce == pay.Authorization.Nonce && own.Status == payment.Dead {
			return refused // proven when it was given up
		}
	}
	if offer != nil && offer.Price.USDC() != pay.Authorization.Value {
		return refused // it pays for something else, and this was not paid
	}
	return authorizationReused()
}

// void says with a refusal what the payment was void for. That it expired shows in itself.
func (c *Checkout) void(refused error, pay payment.Signed, reason string) error {
	challenge, ok := errors.AsType[*Challenge](refused)
	if !ok || reason == payment.ReasonExpired {
		return refused
	}
	receipt, err := x402.EncodeSettlement(x402.Settlement{
		Network: c.Terms.Network, Payer: pay.Authorization.From.String(), Amount: pay.Authorization.Value.String(),
		ErrorReason: reason,
	})
	if err != nil {
		return fmt.Errorf("encode the proof: %w", err)
	}
	challenge.headers.Set(x402.HeaderResponse, receipt)
	return refused
}

// lookAgain is the pause between two looks for what became of a payment.
const lookAgain = 250 * time.Millisecond

// look finds out what became of an authorization that no order has claimed.
func (c *Checkout) look(ctx context.Context, a x402.Authorization) (payment.Verdict, error) {
	return c.untilClear(ctx, func(ctx context.Context) (payment.Verdict, error) {
		return c.Chain.Verdict(ctx, a, c.lookSince(a))
	})
}

// untilClear asks the chain, and again for a while: a node may lag behind, and a block that shows the end may not be
// safe yet. Unknown says that it did not become clear. The error is fit to show.
func (c *Checkout) untilClear(
	ctx context.Context, ask func(context.Context) (payment.Verdict, error),
) (payment.Verdict, error) {
	const timeout = 4 * time.Second
	asking, cancel := context.WithTimeout(ctx, cmp.Or(c.Look, timeout))
	defer cancel()
	var silent error
	for {
		verdict, err := ask(asking)
		if err == nil && verdict.State != payment.Unknown {
			return verdict, nil
		}
		if asking.Err() == nil {
			silent = err // a question that was cut off says less than the one before it
		}
		select {
		case <-time.After(lookAgain):
			continue
		case <-asking.Done():
		}
		if silent != nil {
			return payment.Verdict{}, fmt.Errorf("look for the payment: %w", errors.Join(silent, noChain()))
		}
		return payment.Verdict{}, nil
	}
}

// lookSince is when the transfer of an authorization can have been made at the earliest: it was not signed longer
// before its end than we accept, or it is not ours to explain.
func (c *Checkout) lookSince(a x402.Authorization) time.Time {
	end := c.Now()
	if before := int64(a.ValidBefore); before > 0 && before < end.Unix() {
		end = time.Unix(before, 0)
	}
	since := end.Add(-c.Terms.MaxValidity)
	if after := time.Unix(int64(min(a.ValidAfter, a.ValidBefore)), 0); after.After(since) && after.Before(end) {
		since = after
	}
	return payment.LookedForSince(since)
}
