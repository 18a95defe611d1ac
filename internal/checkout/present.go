package checkout

import (
	"context"
	"errors"
	"fmt"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/testing/faultpoint"
	"github.com/roamcard/roamcard/internal/x402"
)

// A request that brings a payment is counted by where it comes from before its signature is looked at, because
// wallets cost nothing; by its payer once that is known; and as an unpaid one when the payment is not authentic.
// What asks for an order that is claimed is counted nowhere: an answer that is owed is given however often it is
// asked for.

// presented reads the payment that came with a purchase. Without one, or with one that nobody signed, the
// error is the answer. excess is as in admit.
func (c *Checkout) presented(ctx context.Context, p Purchase) (signed payment.Signed, excess, err error) {
	if p.Payment == "" {
		return signed, nil, c.reject(ctx, p, nil)
	}
	pay, err := x402.DecodePayment(p.Payment)
	if p.Payment == x402.PaymentV1 {
		// Nothing was presented that could be a payment here, so the request is counted as the unpaid one it is.
		return signed, nil, c.undecoded(ctx, p, err)
	}
	if err != nil {
		return signed, nil, c.unproven(ctx, nil, func() error { return c.undecoded(ctx, p, err) })
	}
	faultpoint.Reach("buy.decoded")
	if excess, err = c.countPayment(ctx, p, pay.Authorization.From); err != nil {
		return signed, nil, err
	}
	// From here on the payer is who signed: nobody learns of an order by naming another's wallet.
	if signed, err = c.Terms.Authentic(pay); err != nil {
		return signed, nil, c.unproven(ctx, excess, func() error { return c.rejected(ctx, p, err) })
	}
	limit.NotUnpaid(ctx)
	return signed, excess, nil
}

// undecoded answers what cannot be read as a payment, or is one of a kind that is not taken.
func (c *Checkout) undecoded(ctx context.Context, p Purchase, err error) error {
	if bad, ok := errors.AsType[*x402.MalformedError](err); ok {
		return fault.New(fault.PaymentMalformed, bad.Detail)
	}
	if no, ok := errors.AsType[*x402.RejectedError](err); ok {
		return c.reject(ctx, p, &payment.Rejection{Reason: no.Reason, Detail: no.Detail})
	}
	return fmt.Errorf("decode the payment: %w", err)
}

// countPayment counts a payment that is presented by its address. When there were too many of them the error is a
// Refusal, unless the payment names a purchase that is claimed. In that case only excess is the Refusal, and the
// answer as long as the payment is not authentic.
func (c *Checkout) countPayment(ctx context.Context, p Purchase, payer x402.Address) (excess, err error) {
	if _, _, excess = c.Limits.Take(limit.PaidAddress, limit.Address(ctx)); excess == nil {
		return nil, nil
	}
	claimed, err := c.isClaimed(ctx, p, payer)
	if err == nil && !claimed {
		limit.NotUnpaid(ctx)
		err = excess
	}
	return excess, err
}

// isClaimed says that somebody, who names this payer, asks for an order that is claimed.
func (c *Checkout) isClaimed(ctx context.Context, p Purchase, payer x402.Address) (bool, error) {
	if p.of != nil {
		return p.of.Status != order.PaymentRequired && p.of.Owner == payer, nil
	}
	known, err := c.Store.FindByKey(ctx, p.Kind, payer, p.Key)
	if errors.Is(err, order.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look the purchase up: %w", err)
	}
	return known.Status != order.PaymentRequired, nil
}

// unproven is the answer to a payment that is not authentic, unless there were too many of them.
func (c *Checkout) unproven(ctx context.Context, excess error, answer func() error) error {
	if excess != nil {
		return excess
	}
	if err := c.Limits.Unproven(ctx); err != nil {
		return err
	}
	return answer()
}
