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

// refuse answers a paid request that claimed nothing. Before a payer is told that paying again is safe, the chain is
// asked for the verdict on this payment: it may have been sent by someone else, or for an order that we have lost.
// Money that it shows as arrived claims the order after all.
func (c *Checkout) refuse(ctx context.Context, a attempt, why error) (claim, error) {
	rejection, rejected := errors.AsType[*payment.Rejection](why)
	refused := why
	switch {
	case rejected && a.offer != nil:
		refused = c.challenge(a.Purchase, *a.offer, rejection)
	case rejected:
		refused = c.reject(ctx, a.Purchase, rejection)
	}
	f, ok := fault.As(refused)
	late := a.known != nil && a.known.Status == order.Expired
	if !ok || !f.SafeToPayAgain && !late {
		return claim{}, refused
	}
	claimed, err := c.Store.Claimed(ctx, c.Terms.Network, c.Terms.Asset, a.signed.Authorization)
	if err != nil {
		return claim{}, fmt.Errorf("look the authorization up: %w", err)
	}
	if claimed {
		return claim{}, c.claimedBefore(ctx, a, refused)
	}
	verdict, err := c.verdict(ctx, a.signed.Authorization)
	switch {
	case err != nil:
		return claim{}, err
	case verdict.State == payment.Settled:
		return c.arrived(ctx, a, refused, *verdict.Receipt)
	case verdict.State == payment.Void:
		return claim{}, c.void(refused, a.signed, verdict.Reason)
	case verdict.State == payment.Unused && (!rejected || rejection.Reason != x402.ReasonNonceUsed):
		return claim{}, refused
	}
	// The authorization is used and no node shows its transfer, or it has expired at a block that may be reorganised.
	return claim{}, unknownYet("")
}

// refuseCounted refuses a payment that cannot claim the order. It counts as unproven, because refusing it asks the
// chain.
func (c *Checkout) refuseCounted(ctx context.Context, a attempt, why error) (made claim, err error) {
	err = c.unproven(ctx, a.excess, func() error {
		made, err = c.refuse(ctx, a, why)
		return err
	})
	return made, err
}

// claimedBefore answers a payment that an order has claimed: this order, in an earlier attempt, or another one.
func (c *Checkout) claimedBefore(ctx context.Context, a attempt, refused error) error {
	if a.known != nil && a.known.ExpiresAt == nil {
		own, err := c.payment(ctx, a.known.ID)
		if err != nil && !errors.Is(err, order.ErrNotFound) {
			return fmt.Errorf("read the payment: %w", err)
		}
		if err == nil && own.Authorization.Nonce == a.signed.Authorization.Nonce && own.Status == payment.Dead {
			return refused // the chain proved it dead when it was marked so
		}
	}
	if a.offer != nil && a.offer.Price.USDC() != a.signed.Authorization.Value {
		return refused // it paid for something else
	}
	return authorizationReused()
}

// void adds the reason why the payment is void to a refusal. An expired payment needs none.
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

// pollInterval is the interval at which the chain is asked for a verdict.
const pollInterval = 250 * time.Millisecond

// verdict asks the chain for the verdict on an authorization that no order has claimed.
func (c *Checkout) verdict(ctx context.Context, a x402.Authorization) (payment.Verdict, error) {
	return c.pollVerdict(ctx, func(ctx context.Context) (payment.Verdict, error) {
		return c.Chain.Verdict(ctx, a, c.searchFrom(a))
	})
}

// pollVerdict polls the chain until the verdict is known or the timeout has passed: a node may lag, and the block that
// decides may not be safe yet. After the timeout the state is Unknown. The error is fit to show.
func (c *Checkout) pollVerdict(
	ctx context.Context, ask func(context.Context) (payment.Verdict, error),
) (payment.Verdict, error) {
	const timeout = 4 * time.Second
	asking, cancel := fault.Within(ctx, cmp.Or(c.VerdictTimeout, timeout))
	defer cancel()
	var lastErr error
	for {
		verdict, err := ask(asking)
		if err == nil && verdict.State != payment.Unknown {
			return verdict, nil
		}
		if asking.Err() == nil {
			lastErr = err // an error of the timeout itself would hide the cause
		}
		select {
		case <-time.After(pollInterval):
			continue
		case <-asking.Done():
		}
		if lastErr != nil {
			return payment.Verdict{}, fmt.Errorf("look for the payment: %w", errors.Join(lastErr, noChain()))
		}
		return payment.Verdict{}, nil
	}
}

// searchFrom is the earliest time at which an acceptable authorization can have been used: its validity is bounded by
// Terms.MaxValidity.
func (c *Checkout) searchFrom(a x402.Authorization) time.Time {
	end := c.Now()
	if before := int64(a.ValidBefore); before > 0 && before < end.Unix() {
		end = time.Unix(before, 0)
	}
	since := end.Add(-c.Terms.MaxValidity)
	if after := time.Unix(int64(min(a.ValidAfter, a.ValidBefore)), 0); after.After(since) && after.Before(end) {
		since = after
	}
	return payment.SearchFrom(since)
}
