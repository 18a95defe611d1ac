package checkout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Challenge is the error of a purchase that has to be paid, or paid again: a 402 with the terms.
type Challenge struct {
	fault   *fault.Fault
	headers http.Header
	signIn  signInOffer
}

// Error implements error.
func (c *Challenge) Error() string { return c.fault.Error() }

// Unwrap makes the challenge a fault.
func (c *Challenge) Unwrap() error { return c.fault }

// Headers are the payment headers of the answer: PAYMENT-REQUIRED, and PAYMENT-RESPONSE when a payment
// that was claimed is proven dead.
func (c *Challenge) Headers() http.Header { return c.headers }

func (c *Checkout) rejected(ctx context.Context, p Purchase, err error) error {
	if rejection, ok := errors.AsType[*payment.Rejection](err); ok {
		return c.reject(ctx, p, rejection)
	}
	if _, kind := errors.AsType[*x402.PayerKindError](err); kind {
		return c.undecoded(ctx, p, err)
	}
	if _, told := fault.As(err); told {
		return err
	}
	return errors.Join(err, noChain())
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

// challenge states the terms of an offer. A rejection adds why the payment was not accepted; to an account of a kind
// that cannot pay nothing is offered: it could sign again and again.
func (c *Checkout) challenge(p Purchase, o order.Offer, rejection *payment.Rejection) error {
	if rejection != nil && rejection.Code == fault.PayerKindNotAccepted {
		return fault.New(rejection.Code, rejection.Detail)
	}
	if rejection != nil {
		return c.newChallenge(p, o, rejection.Reason,
			fault.New(cmp.Or(rejection.Code, fault.PaymentRejected), rejection.Detail), nil)
	}
	unpaid := func() error {
		return c.newChallenge(p, o, "Payment required", fault.New(fault.PaymentRequired, spendCapNote(o)), nil)
	}
	if p.of != nil {
		return unpaid()
	}
	return ownNonce(c.unpaid.get(c.Now().Unix(),
		challengeKey{p.Kind, p.fingerprint(), p.Resource, o.Price, string(o.Item), o.Description, p.Key == ""}, unpaid))
}

// deadChallenge is the challenge after a claimed payment is proven dead: paying again is safe.
func (c *Checkout) deadChallenge(p Purchase, o order.Offer, dead payment.Payment) error {
	f := fault.Newf(fault.PaymentRejected,
		"The payment can never arrive (%s). Sign a new one with the same idempotencyKey.", dead.DeadReason)
	receipt := Receipt(dead)
	return c.newChallenge(p, o, dead.DeadReason, f.About(string(dead.Order)), &receipt)
}

func (c *Checkout) newChallenge(
	p Purchase, o order.Offer, reason string, f *fault.Fault, failed *x402.Settlement,
) error {
	resource := p.Resource
	resource.Description = o.Description
	extra := map[string]any{x402.ExtraPaymentFlow: x402.FlowUpfront}
	if p.of == nil { // an order stores its price, so it needs no quote; and its item is visible to its owner only
		extra["quoteId"] = c.quotes.sign(p.Kind, p.fingerprint(), o)
	}
	asked := c.Terms.Requirements(o.Price.USDC(), extra)
	extensions, signIn := c.extensions(p)
	var err error
	if p.of != nil || p.Key != "" { // a preview cannot be paid
		if extensions, err = c.withOffer(extensions, p, o, asked); err != nil {
			return err
		}
	}
	required, err := x402.EncodeRequired(x402.PaymentRequired{
		Extensions:  extensions,
		X402Version: x402.Version,
		Error:       reason,
		Resource:    resource,
		Accepts:     []x402.Requirements{asked},
	})
	if err == nil && signIn.renew != nil {
		signIn.required, err = x402.NewRequiredTemplate(required, signIn.nonce)
	}
	ch := &Challenge{fault: f, headers: http.Header{}, signIn: signIn}
	ch.headers.Set(x402.HeaderRequired, required)
	if failed != nil {
		receipt, failedErr := x402.EncodeSettlement(*failed)
		ch.headers.Set(x402.HeaderResponse, receipt)
		err = errors.Join(err, failedErr)
	}
	if err != nil {
		return fmt.Errorf("encode the challenge: %w", err)
	}
	return ch
}

// spendCapNote tells users of the reference clients, which refuse to pay more than a dollar, how to raise their limit.
func spendCapNote(o order.Offer) string {
	pay := fmt.Sprintf("Pay %s USD in USDC and repeat the request with %s.", o.Price, x402.HeaderSignature)
	if o.Price <= 100 {
		return pay
	}
	return pay + fmt.Sprintf(" The reference clients refuse more than $1 unless told: in TypeScript spendControls: { "+
		"maxAmountPerPayment: \"$%[1]s\" }, "+
		"in Python client.set_spend_controls({\"max_amount_per_payment\": \"$%[1]s\"}).", o.Price)
}
