package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/x402"
)

// payableURL is where an order is paid.
func (v OrderViews) payableURL(id order.ID) string {
	return v.BaseURL + order.PayPath(id)
}

// create creates an order of the signed-in wallet, under its Idempotency-Key if it sent one.
func (s Sales) create(ctx context.Context, n checkout.CreateRequest, request any) (*roamcardv1.Order, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("marshal the request: %w", err)
	}
	call, ok := connect.CallInfoForServerContext(ctx)
	if !ok {
		return nil, fmt.Errorf("create an order outside of a call")
	}
	n.Owner, n.Request, n.Key = rpcx.Wallet(ctx), body, call.RequestHeader().Get(rpcx.HeaderIdempotencyKey)
	paid, err := s.Checkout.Create(ctx, n)
	if err != nil {
		return nil, err
	}
	orders, err := s.orders(ctx, paid)
	if err != nil {
		return nil, err
	}
	return orders[0], nil
}

// pay pays an order that exists. The answer has the token that watches it.
func (s OrderService) pay(
	ctx context.Context, id order.ID, header string, resource x402.Resource,
) (*roamcardv1.PayOrderResponse, error) {
	paid, err := s.Checkout.Pay(ctx, id, header, resource)
	if err != nil {
		return nil, err
	}
	o, err := s.shown(ctx, paid)
	if err != nil {
		return nil, err
	}
	token, until := s.Links.WatchToken(paid.Order)
	return &roamcardv1.PayOrderResponse{
		Order: o, WatchToken: token.Reveal(), WatchTokenExpiresAt: timestamp(until),
	}, nil
}

// GetPayableOrder implements roamcardv1connect.OrderServiceHandler.
func (s OrderService) GetPayableOrder(
	ctx context.Context, req *roamcardv1.GetPayableOrderRequest,
) (*roamcardv1.GetPayableOrderResponse, error) {
	linked, err := s.Links.Linked(ctx, order.ID(req.GetOrderId()))
	if err != nil {
		return nil, err
	}
	o := linked.Order
	m := &roamcardv1.PayableOrder{
		OrderId: string(o.ID), Kind: string(o.Kind), Status: string(o.Status), Description: linked.About,
		AmountUsdCents: uint32(o.Price), Amount: o.Price.USDC().String(), Network: s.Terms.Network,
		Asset: s.Terms.Asset.String(), PayTo: s.Terms.PayTo.String(), Owner: masked(o.Owner),
		ExpiresAt: optionalTimestamp(o.ExpiresAt), UpdatedAt: timestamp(o.UpdatedAt), Preconfirmed: linked.Preconfirmed,
	}
	if o.Status == order.PaymentRequired {
		m.PayableUrl = proto.String(s.payableURL(o.ID))
	}
	return &roamcardv1.GetPayableOrderResponse{Order: m}, nil
}

// masked is enough of an address for its holder to know it.
func masked(a x402.Address) string {
	text := a.String()
	return text[:6] + "…" + text[len(text)-4:]
}

// PayOrder implements roamcardv1connect.OrderServiceHandler.
func (s OrderService) PayOrder(
	ctx context.Context, req *roamcardv1.PayOrderRequest,
) (*roamcardv1.PayOrderResponse, error) {
	call, ok := connect.CallInfoForServerContext(ctx)
	if !ok {
		return nil, fmt.Errorf("pay outside of a call")
	}
	return s.pay(ctx, order.ID(req.GetOrderId()), x402.PaymentIn(call.RequestHeader()), s.resource(ctx))
}

// SubmitPayment implements roamcardv1connect.OrderServiceHandler.
func (s OrderService) SubmitPayment(
	ctx context.Context, req *roamcardv1.SubmitPaymentRequest,
) (*roamcardv1.SubmitPaymentResponse, error) {
	mine, err := s.Orders.Order(ctx, order.ID(req.GetOrderId()), rpcx.Wallet(ctx))
	if err != nil {
		return nil, err
	}
	resource := s.resource(ctx)
	resource.URL = s.payableURL(mine.Order.ID)
	paid, err := s.pay(ctx, mine.Order.ID, req.GetPaymentSignature(), resource)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.SubmitPaymentResponse{
		Order: paid.GetOrder(), WatchToken: paid.GetWatchToken(), WatchTokenExpiresAt: paid.GetWatchTokenExpiresAt(),
	}, nil
}

// ownURL checks that a URL is absolute and on the service's own origin; empty stays empty.
func (v OrderViews) ownURL(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.Fragment != "" || u.Scheme+"://"+u.Host != v.BaseURL {
		return "", rpcx.Invalid("resource", "resource.origin",
			"must be an absolute URL that starts with "+v.BaseURL+"/")
	}
	return u.String(), nil
}
