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

// presented reads the payment that came with a purchase. Without one, or with one that nobody signed, the
// error is the answer. excess is as in countPayment.
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
