package checkout

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Pay pays an existing order. It returns a *Challenge while the order is unpaid, then the order with its proven
// payment, for payments of its owner only. A repeat gets the same answer and is never charged. Other callers who have
// the id learn only the price and whether the order can be paid.
func (c *Checkout) Pay(ctx context.Context, id order.ID, paid string, resource x402.Resource) (PaidOrder, error) {
	ctx, span := otel.Tracer("checkout").Start(ctx, "checkout.pay")
	defer span.End()
	ctx, cancel := c.detached(ctx, paid)
	defer cancel()
	o, err := c.Store.Find(ctx, id)
	if errors.Is(err, order.ErrNotFound) {
		return PaidOrder{}, noOrder()
	}
	if err != nil {
		return PaidOrder{}, fmt.Errorf("read the order: %w", err)
	}
	o = o.AsOf(c.Now())
	if o.Resource != "" {
		resource.URL = o.Resource
	}
	p := Purchase{Kind: o.Kind, Key: o.Key, Payment: paid, Resource: resource, of: &o}
	a, err := c.presented(ctx, p)
	if err != nil {
		return PaidOrder{}, err
	}
	a.known = &o
	return c.buy(ctx, a)
}

func notTheOwner() *payment.Rejection {
	return &payment.Rejection{
		Reason: x402.ReasonRequirements, Detail: "Only the wallet that this order was created for can pay it.",
		Code: fault.WrongPayer,
	}
}

// invites returns the reason why no payment is asked for an order, or nil. Without an order the payer is unknown.
func (c *Checkout) invites(ctx context.Context, o *order.Order) error {
	if o == nil {
		return nil
	}
	if o.Status.Paid() {
		return c.alreadyPaid(ctx, *o)
	}
	if err := payable(*o); err != nil {
		return err
	}
	if err := c.screenKnown(ctx, o.Owner); err != nil {
		return err
	}
	if p, ok := c.products[o.Kind].(Inviter); ok {
		return p.Invite(ctx, *o)
	}
	return nil
}

// paidAlready is the refusal of an order that is paid, with its receipt: a client that asks again after it paid looks
// for PAYMENT-RESPONSE, whatever the status.
type paidAlready struct {
	*fault.Fault
	headers http.Header
}

// Headers has PAYMENT-RESPONSE.
func (p paidAlready) Headers() http.Header { return p.headers }

// Unwrap makes it a fault.
func (p paidAlready) Unwrap() error { return p.Fault }

// alreadyPaid refuses to be paid again. The receipt does not name the payer: whoever has the link may ask.
func (c *Checkout) alreadyPaid(ctx context.Context, o order.Order) error {
	said := "The order is paid."
	if o.Status == order.RefundPending || o.Status == order.Refunded {
		said = "The order was paid, and its payment is sent back."
	}
	refused := paidAlready{fault.New(fault.OrderNotPayable, said).About(string(o.ID)), http.Header{}}
	p, err := c.payment(ctx, o.ID)
	if err != nil {
		return fmt.Errorf("read the payment: %w", err)
	}
	receipt := Receipt(p)
	receipt.Payer = ""
	header, err := x402.EncodeSettlement(receipt)
	if err != nil {
		return fmt.Errorf("encode the receipt: %w", err)
	}
	refused.headers.Set(x402.HeaderResponse, header)
	return refused
}

// payable returns the reason why an order that is not paid takes no payment, or nil.
func payable(o order.Order) error {
	switch o.Status {
	case order.PaymentRequired:
		return nil
	case order.Settling:
		return unknownYet(o.ID)
	default:
		return expired(o.ID)
	}
}

func expired(id order.ID) *fault.Fault {
	return fault.New(fault.OrderNotPayable, "The order expired unpaid.").About(string(id))
}
