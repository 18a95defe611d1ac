package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/x402"
)

// OrderService creates, pays and reads the orders of a wallet.
type OrderService struct {
	Sales
	Orders Orders
	Links  Links
	Terms  payment.Terms
}

// Links are what orders show to those who have their links, and the tokens of those who paid.
type Links interface {
	// Linked is what any order's link tells, or an order_not_found.
	Linked(ctx context.Context, id order.ID) (checkout.LinkedOrder, error)
	// WatchToken watches an order without a session until it ends.
	WatchToken(o order.Order) (token secret.Text, until time.Time)
}

// Orders reads the orders of a wallet.
type Orders interface {
	// Order is one of the owner's orders, or an order_not_found.
	Order(ctx context.Context, id order.ID, owner x402.Address) (checkout.PaidOrder, error)
	// Orders is a page of them, newest first, and the id that the next page begins before; empty on the last.
	Orders(ctx context.Context, owner x402.Address, q checkout.Query) (page []checkout.PaidOrder, next order.ID,
		err error)
	// Receipts is a page of the receipts of the owner's orders that have ended, newest order first, and the id that the
	// next page begins before; empty on the last.
	Receipts(ctx context.Context, owner x402.Address, q checkout.Query) (page []checkout.SignedReceipt, next order.ID,
		err error)
	// Watch shows an order now, whenever its version passes after, and ends with the order or after the timeout.
	Watch(
		ctx context.Context, id order.ID, owner x402.Address, after int, timeout time.Duration,
		show func(checkout.PaidOrder) error,
	) error
	// WatchAll shows each order now, whenever its version passes the one given, and when it is final. It ends with the
	// last one or after the timeout.
	WatchAll(
		ctx context.Context, owner x402.Address, after map[order.ID]int, timeout time.Duration,
		show func(checkout.PaidOrder) error,
	) error
}

// View adds to the messages of orders of one product what it shows of each.
type View func(ctx context.Context, orders []order.Order, messages []*roamcardv1.Order) error

// OrderViews shows orders with their payments and with what they delivered.
type OrderViews struct {
	// Views are the products' own.
	Views map[order.Kind]View
	// BaseURL is the service's own origin, without a slash at the end. Requests never change it.
	BaseURL string
}

// ListOrders implements roamcardv1connect.OrderServiceHandler.
func (s OrderService) ListOrders(
	ctx context.Context, req *roamcardv1.ListOrdersRequest,
) (*roamcardv1.ListOrdersResponse, error) {
	q := checkout.Query{
		Active: req.GetStatus() == "active", Kind: order.Kind(req.GetKind()), Before: order.ID(req.GetPageToken()),
		Limit: limitOf(req.GetPageSize()),
	}
	page, next, err := s.Orders.Orders(ctx, rpcx.Wallet(ctx), q)
	if err != nil {
		return nil, err
	}
	orders, err := s.orders(ctx, page...)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ListOrdersResponse{Orders: orders, NextPageToken: optionalText(string(next))}, nil
}

// GetOrder implements roamcardv1connect.OrderServiceHandler.
func (s OrderService) GetOrder(
	ctx context.Context, req *roamcardv1.GetOrderRequest,
) (*roamcardv1.GetOrderResponse, error) {
	paid, err := s.Orders.Order(ctx, order.ID(req.GetOrderId()), rpcx.Wallet(ctx))
	if err != nil {
		return nil, err
	}
	orders, err := s.orders(ctx, paid)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.GetOrderResponse{Order: orders[0]}, nil
}

// ListReceipts implements roamcardv1connect.OrderServiceHandler.
func (s OrderService) ListReceipts(
	ctx context.Context, req *roamcardv1.ListReceiptsRequest,
) (*roamcardv1.ListReceiptsResponse, error) {
	q := checkout.Query{Before: order.ID(req.GetPageToken()), Limit: limitOf(req.GetPageSize())}
	page, next, err := s.Orders.Receipts(ctx, rpcx.Wallet(ctx), q)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ListReceiptsResponse{
		Receipts: messages(page, receiptMessage), NextPageToken: optionalText(string(next)),
	}, nil
}

func receiptMessage(r checkout.SignedReceipt) *roamcardv1.SignedReceipt {
	return &roamcardv1.SignedReceipt{
		OrderId: string(r.Order), Outcome: string(r.Outcome), Format: "jws", Signature: r.JWS,
		IssuedAt: timestamp(r.IssuedAt),
	}
}

func (v OrderViews) orders(ctx context.Context, paid ...checkout.PaidOrder) ([]*roamcardv1.Order, error) {
	out := make([]*roamcardv1.Order, len(paid))
	of := map[order.Kind][]int{}
	for i, s := range paid {
		out[i] = orderMessage(s)
		if s.Order.Status == order.PaymentRequired {
			out[i].PayableUrl = proto.String(v.payableURL(s.Order.ID))
		}
		of[s.Order.Kind] = append(of[s.Order.Kind], i)
	}
	for kind, at := range of {
		view, known := v.Views[kind]
		if !known {
			continue
		}
		orders, messages := make([]order.Order, len(at)), make([]*roamcardv1.Order, len(at))
		for n, i := range at {
			orders[n], messages[n] = paid[i].Order, out[i]
		}
		if err := view(ctx, orders, messages); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func orderMessage(s checkout.PaidOrder) *roamcardv1.Order {
	o := s.Order
	m := &roamcardv1.Order{
		OrderId: string(o.ID), OperationId: o.Operation.String(), Kind: string(o.Kind), Status: string(o.Status),
		AmountUsdCents: uint32(o.Price), CreatedAt: timestamp(o.CreatedAt), ExpiresAt: optionalTimestamp(o.ExpiresAt),
	}
	if !o.UpdatedAt.IsZero() {
		m.UpdatedAt = timestamp(o.UpdatedAt)
	}
	if s.Replayed {
		m.Replayed = proto.Bool(true)
	}
	if s.Preconfirmed {
		m.Preconfirmed = proto.Bool(true)
	}
	if r := s.Payment.Receipt; r != nil {
		m.Payment = &roamcardv1.Payment{
			Payer: r.Payer.String(), Network: s.Payment.Network, Asset: s.Payment.Asset.String(),
			Amount:      r.Amount.String(),
			Transaction: r.Transaction.String(), SettledAt: timestamp(r.SettledAt),
		}
	}
	m.Refund = refund(s)
	if s.Receipt != nil {
		m.Receipt = proto.String(s.Receipt.JWS)
	}
	return m
}

// refund shows the refund of an order; pending from the decision on, before it is signed.
func refund(s checkout.PaidOrder) *roamcardv1.Refund {
	m := &roamcardv1.Refund{
		Status: "pending", Amount: s.Payment.Authorization.Value.String(), To: s.Payment.Authorization.From.String(),
	}
	switch s.Order.Status {
	case order.RefundPending:
	case order.Refunded:
		m.Status = "refunded"
		if s.Refund != nil && s.Refund.Receipt != nil {
			m.Transaction = proto.String(s.Refund.Receipt.Transaction.String())
			m.RefundedAt = timestamp(s.Refund.Receipt.SettledAt)
		}
	default:
		return nil
	}
	return m
}
