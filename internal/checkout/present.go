package checkout

import (
	"context"
	"errors"
	"fmt"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// presented reads the payment of a purchase. Without a payment, or with one that its payer did not sign, the error is
// the answer.
func (c *Checkout) presented(ctx context.Context, p Purchase) (attempt, error) {
	if p.Payment == "" {
		return attempt{}, c.reject(ctx, p, nil)
	}
	pay, err := c.Terms.Decode(p.Payment)
	if p.Payment == x402.PaymentV1 {
		// A payment of version 1 cannot be accepted, so the request counts as unpaid.
		return attempt{}, c.undecoded(ctx, p, err)
	}
	if err != nil {
		return attempt{}, c.unproven(ctx, nil, func() error { return c.undecoded(ctx, p, err) })
	}
	faultpoint.Reach("buy.decoded")
	excess, err := c.countPayment(ctx, p, pay.Authorization.From)
	if err != nil {
		return attempt{}, err
	}
	// From here on the payer is who signed: nobody sees an order by naming another's wallet.
	// The chain is asked of a stranger's signature: that leaves of the nodes' quota to those who have paid.
	signed, err := c.Terms.Authentic(limit.WithUse(ctx, limit.ForOwner), pay)
	if err != nil {
		var known bool
		if signed, known, err = c.presentedBefore(ctx, p, pay, err); !known {
			return attempt{}, c.unproven(ctx, excess, func() error { return c.rejected(ctx, p, err) })
		}
	}
	limit.NotUnpaid(ctx)
	return attempt{Purchase: p, signed: signed, identifier: pay.Identifier, excess: excess}, nil
}

// presentedBefore looks for a smart account's payment that does not hold now: it may have claimed the purchase already,
// or the chain may show that it settled, each byte for byte as it comes. Its payer is told what became of it, whoever
// owns the account now. Else the error is why, or that it is not known.
func (c *Checkout) presentedBefore(ctx context.Context, p Purchase, pay x402.Payment, why error) (
	signed payment.Signed, known bool, err error,
) {
	if c.Terms.SmartAccounts == nil || pay.Authorization.To != c.Terms.PayTo {
		return payment.Signed{}, false, why
	}
	pay.Signature = pay.Signature.OfAccount()
	o, err := c.Store.FindByKey(ctx, p.Kind, pay.Authorization.From, p.Key)
	var claimed payment.Payment
	if err == nil {
		claimed, err = c.payment(ctx, o.ID)
	}
	if err != nil && !errors.Is(err, order.ErrNotFound) {
		return payment.Signed{}, false, fmt.Errorf("look the purchase up: %w", errors.Join(err, unknownYet("")))
	}
	if signed, known = claimed.Again(pay); known {
		return signed, true, nil
	}
	if _, rejected := errors.AsType[*payment.Rejection](why); !rejected {
		return payment.Signed{}, false, why
	}
	verdict, err := c.verdict(ctx, pay.Authorization)
	if err != nil {
		return payment.Signed{}, false, err
	}
	switch verdict.State {
	case payment.Unknown:
		return payment.Signed{}, false, unknownYet("")
	case payment.Settled:
		carried, err := c.Terms.SmartAccounts.Carried(ctx, verdict.Receipt.Transaction)
		if err != nil {
			return payment.Signed{}, false, fmt.Errorf("look for what settled: %w", errors.Join(err, unknownYet("")))
		}
		signed, known = carried.Proves(pay)
	}
	return signed, known, why
}

// undecoded answers a payment that is malformed, or of a kind that is not accepted.
func (c *Checkout) undecoded(ctx context.Context, p Purchase, err error) error {
	if bad, ok := errors.AsType[*x402.MalformedError](err); ok {
		return fault.New(fault.PaymentMalformed, bad.Detail)
	}
	if kind, ok := errors.AsType[*x402.PayerKindError](err); ok {
		// No challenge: a client would sign it with the same account, again and again.
		return fault.New(fault.PayerKindNotAccepted, kind.Detail)
	}
	if rejection, ok := errors.AsType[*x402.RejectedError](err); ok {
		return c.reject(ctx, p, &payment.Rejection{Reason: rejection.Reason, Detail: rejection.Detail})
	}
	return fmt.Errorf("decode the payment: %w", err)
}

// isClaimed reports whether the purchase is a claimed order of the payer, whose signature is not checked yet.
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
