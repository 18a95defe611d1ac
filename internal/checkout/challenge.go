package checkout

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Challenge is the error of a purchase that has to be paid, or paid anew: a 402 with the terms.
type Challenge struct {
	fault   *fault.Fault
	headers http.Header
}

// Error implements error.
func (c *Challenge) Error() string { return c.fault.Error() }

// Unwrap makes the challenge a fault.
func (c *Challenge) Unwrap() error { return c.fault }

// Headers are the payment headers of the answer: PAYMENT-REQUIRED, and PAYMENT-RESPONSE when a payment
// that was claimed is proven dead.
func (c *Challenge) Headers() http.Header { return c.headers }

// challenge states the terms of an offer. A rejection says why the payment at hand did not do.
func (c *Checkout) challenge(p Purchase, o order.Offer, no *payment.Rejection) error {
	if no != nil {
		return c.demand(p, o, no.Reason, fault.New(fault.PaymentRejected, no.Detail), nil)
	}
	unpaid := func() error {
		return c.demand(p, o, "Payment required", fault.New(fault.PaymentRequired, spendCapNote(o)), nil)
	}
	if p.of != nil {
		return unpaid()
	}
	return c.unpaid.remember(c.Now().Unix(),
		question{p.Kind, p.fingerprint(), p.Resource, o.Price, string(o.Item), o.Description}, unpaid)
}

// died is the challenge after a claimed payment is proven dead: a new one is safe.
func (c *Checkout) died(p Purchase, o order.Offer, dead payment.Payment) error {
	f := fault.Newf(fault.PaymentRejected,
		"The payment can never arrive (%s). Sign a new one with the same idempotencyKey.", dead.DeadReason)
	receipt := Receipt(dead)
	return c.demand(p, o, dead.DeadReason, f.About(string(dead.Order)), &receipt)
}

func (c *Checkout) demand(p Purchase, o order.Offer, reason string, f *fault.Fault, failed *x402.Settlement) error {
	resource := p.Resource
	resource.Description = o.Description
	// An order keeps its price itself, and what it is made of is its owner's business.
	var extra map[string]any
	if p.of == nil {
		extra = map[string]any{"quoteId": c.quotes.sign(p.Kind, p.fingerprint(), o)}
	}
	required, err := x402.EncodeRequired(x402.PaymentRequired{
		Extensions:  p.Extensions,
		X402Version: x402.Version,
		Error:       reason,
		Resource:    resource,
		Accepts:     []x402.Requirements{c.Terms.Requirements(o.Price.USDC(), extra)},
	})
	ch := &Challenge{fault: f, headers: http.Header{}}
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

// spendCapNote helps clients of the reference implementations, which refuse more than a dollar.
func spendCapNote(o order.Offer) string {
	pay := fmt.Sprintf("Pay %s USD in USDC and repeat the request with %s.", o.Price, x402.HeaderSignature)
	if o.Price <= 100 {
		return pay
	}
	return pay + fmt.Sprintf(" The reference clients refuse more than $1 unless told: in TypeScript spendControls: { "+
		"maxAmountPerPayment: \"$%[1]s\" }, "+
		"in Python client.set_spend_controls({\"max_amount_per_payment\": \"$%[1]s\"}).", o.Price)
}
