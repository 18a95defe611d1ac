package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect/v2"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/receipt"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/x402"
)

// Checkout sells: see checkout.Checkout for what each call promises.
type Checkout interface {
	// Buy is a *checkout.Challenge until the purchase is paid; repeated, it gives the same order.
	Buy(ctx context.Context, p checkout.Purchase) (checkout.PaidOrder, error)
	// Create creates an order that is paid later; repeated with its key, it gives the same order.
	Create(ctx context.Context, r checkout.CreateRequest) (checkout.PaidOrder, error)
	// Pay pays an order that exists; repeated, it gives the paid order.
	Pay(ctx context.Context, id order.ID, payment string, at x402.Resource) (checkout.PaidOrder, error)
	// WithReceipt adds the signed receipt of an order that has ended. It never fails.
	WithReceipt(ctx context.Context, paid checkout.PaidOrder) checkout.PaidOrder
}

// Sales is what every service that sells has in common: payment header in, receipt header out.
type Sales struct {
	OrderViews
	Checkout Checkout
	// Extensions are what the challenge of a route says in addition to the terms, by the route's path, and whether it is
	// asked without a key; nil when there is nothing. It may be nil.
	Extensions func(path string, preview bool) map[string]any
	// SignIns reads sign-ins for one request; nil ignores them.
	SignIns RequestSignIns
	// Metrics may be nil.
	Metrics *telemetry.Metrics
}

// resource is what a call pays for: the URL of the route that was called.
func (s Sales) resource(ctx context.Context) x402.Resource {
	return x402.Resource{URL: s.BaseURL + rpcx.Resource(ctx), MimeType: "application/json", ServiceName: "roamcard"}
}

// extensions are what the challenge of this call says in addition to the terms.
func (s Sales) extensions(ctx context.Context, key string) map[string]any {
	if s.Extensions == nil {
		return nil
	}
	path, _, _ := strings.Cut(rpcx.Resource(ctx), "?")
	return s.Extensions(path, key == "")
}

// buy runs the purchase of a method that sells.
func (s Sales) buy(ctx context.Context, kind order.Kind, key string, request any) (checkout.PaidOrder, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return checkout.PaidOrder{}, fmt.Errorf("marshal the request: %w", err)
	}
	call, ok := connect.CallInfoForServerContext(ctx)
	if !ok {
		return checkout.PaidOrder{}, fmt.Errorf("buy outside of a call")
	}
	p := checkout.Purchase{
		Kind: kind, Key: key, Request: body, Payment: x402.PaymentIn(call.RequestHeader()), Resource: s.resource(ctx),
		Extensions: s.extensions(ctx, key),
	}
	if p.SignIn, err = s.signIn(call.RequestHeader(), p); err != nil {
		return checkout.PaidOrder{}, err
	}
	paid, err := s.Checkout.Buy(ctx, p)
	if err != nil {
		if f, ok := fault.As(err); ok && f.Status == http.StatusPaymentRequired {
			s.Metrics.Challenged(ctx, string(kind))
		}
		return checkout.PaidOrder{}, err
	}
	if err := setReceipt(call.ResponseHeader(), paid); err != nil {
		return checkout.PaidOrder{}, err
	}
	return paid, nil
}

// answerTimeout bounds the reads of an answer to a paid request.
const answerTimeout = 10 * time.Second

// answer makes the answer of a paid request, once its order has claimed the payment. It reads in a context of the
// service's own: a caller that has gone, or whose deadline has passed, may still read the answer or get it again. When
// it fails all the same, the payment stays claimed, so the caller is told to repeat the request, and of which order.
func (s Sales) answer(ctx context.Context, id order.ID, make func(context.Context) error) error {
	ctx, cancel := fault.Outlive(ctx, answerTimeout)
	defer cancel()
	if err := make(ctx); err != nil {
		return unshown(id, err)
	}
	return nil
}

// unshown is the answer to a paid request whose order cannot be shown.
func unshown(id order.ID, err error) error {
	unknown := fault.New(fault.SettlementUnknown,
		"The payment was taken, and the order cannot be shown now.").About(string(id)).After(2 * time.Second)
	return fmt.Errorf("answer a paid request: %w", errors.Join(unknown, err))
}

// shown is the message of a paid order, see answer. An order that has ended has its signed receipt there, and in the
// receipt of the payment.
func (s Sales) shown(ctx context.Context, paid checkout.PaidOrder) (m *roamcardv1.Order, err error) {
	call, ok := connect.CallInfoForServerContext(ctx)
	if !ok {
		return nil, fmt.Errorf("show a paid order outside of a call")
	}
	err = s.answer(ctx, paid.Order.ID, func(ctx context.Context) error {
		paid = s.Checkout.WithReceipt(ctx, paid)
		if err := setReceipt(call.ResponseHeader(), paid); err != nil {
			return err
		}
		orders, err := s.orders(ctx, paid)
		if err == nil {
			m = orders[0]
		}
		return err
	})
	if err == nil {
		faultpoint.Reach("answer.ready")
	}
	return m, err
}

// setReceipt adds the receipt of a payment to the answer. Who reads no outcome takes a signed receipt for a proof of
// delivery, so that of a refund is not sent there.
func setReceipt(h *connect.Header, paid checkout.PaidOrder) error {
	settlement := checkout.Receipt(paid.Payment)
	if r := paid.Receipt; r != nil && r.Outcome == receipt.Delivered {
		settlement.Extensions = map[string]any{x402.OfferReceipt: x402.DeclareReceipt(r.JWS)}
	}
	header, err := x402.EncodeSettlement(settlement)
	if err != nil {
		return fmt.Errorf("encode the receipt: %w", err)
	}
	h.Set(x402.HeaderResponse, header)
	return nil
}
