package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/x402"
)

// OrderService creates, pays and reads the orders of a wallet.
type OrderService struct {
	Sales
	Orders Orders
}

// Orders reads the orders of a wallet.
type Orders interface {
	// Order is one of the owner's orders, or an order_not_found.
	Order(ctx context.Context, id order.ID, owner x402.Address) (checkout.PaidOrder, error)
	// Orders is a page of them, newest first, and the id that the next page begins before; empty on the last.
	Orders(ctx context.Context, owner x402.Address, q checkout.Query) (page []checkout.PaidOrder, next order.ID,
		err error)
	// Watch shows an order now, whenever its version passes after, and ends with the order or after the timeout.
	Watch(
		ctx context.Context, id order.ID, owner x402.Address, after int, timeout time.Duration,
		show func(checkout.PaidOrder) error,
	) error
}

// OrderViews shows orders with their payments and with what they delivered.
type OrderViews struct {
	Issued IssuedCards
	// BaseURL is the service's own origin, without a slash at the end. Requests never change it.
	BaseURL string
}

// IssuedCards finds the latest card of each order; an order without one is left out.
type IssuedCards interface {
	Issued(ctx context.Context, orders ...order.ID) (map[order.ID]card.Card, error)
}

const defaultPage = 50

// ListOrders implements roamcardv1connect.OrderServiceHandler.
func (s OrderService) ListOrders(
	ctx context.Context, req *roamcardv1.ListOrdersRequest,
) (*roamcardv1.ListOrdersResponse, error) {
	q := checkout.Query{Active: req.GetStatus() == "active", Before: order.ID(req.GetPageToken()), Limit: defaultPage}
	if req.PageSize != nil {
		q.Limit = int(req.GetPageSize())
	}
	page, next, err := s.Orders.Orders(ctx, rpcx.Wallet(ctx), q)
	if err != nil {
		return nil, err
	}
	orders, err := s.orders(ctx, page...)
	if err != nil {
		return nil, err
	}
	res := &roamcardv1.ListOrdersResponse{Orders: orders}
	if next != "" {
		res.NextPageToken = proto.String(string(next))
	}
	return res, nil
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

func (v OrderViews) orders(ctx context.Context, paid ...checkout.PaidOrder) ([]*roamcardv1.Order, error) {
	var issues []order.ID
	for _, s := range paid {
		if s.Order.Kind == order.CardIssue {
			issues = append(issues, s.Order.ID)
		}
	}
	cards, err := v.Issued.Issued(ctx, issues...)
	if err != nil {
		return nil, err
	}
	out := make([]*roamcardv1.Order, len(paid))
	for i, s := range paid {
		out[i] = orderMessage(s)
		if s.Order.Status == order.PaymentRequired {
			out[i].PayableUrl = proto.String(v.payableURL(s.Order.ID))
		}
		if s.Order.Kind == order.CardIssue {
			issued, ok := cards[s.Order.ID]
			out[i].Issuance = issuance(s.Order, issued, ok)
		}
		if s.Order.Kind == order.ESIM {
			if out[i].Delivery, err = delivery(s.Order); err != nil {
				return nil, err
			}
		}
		if s.Order.Kind == order.CardTopup {
			if out[i].Topup, err = topup(s.Order); err != nil {
				return nil, err
			}
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
	if s.Replayed {
		m.Replayed = proto.Bool(true)
	}
	if r := s.Payment.Receipt; r != nil {
		m.Payment = &roamcardv1.Payment{
			Payer: r.Payer.String(), Network: s.Payment.Network, Asset: s.Payment.Asset.String(),
			Amount:      r.Amount.String(),
			Transaction: r.Transaction.String(), SettledAt: timestamp(r.SettledAt),
		}
	}
	m.Refund = refund(s)
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

// topup shows the state of the credit of an order.
func topup(o order.Order) (*roamcardv1.Topup, error) {
	split, err := card.TopupItem(o)
	if err != nil {
		return nil, err
	}
	m := &roamcardv1.Topup{
		Status: "queued", GrossUsdCents: uint32(split.Gross), LoadFeeUsdCents: uint32(split.Fee),
		CardCreditUsdCents: uint32(split.Credit),
	}
	switch o.Status {
	case order.PaymentRequired, order.Expired:
		m.Status = "unpaid"
	case order.Provisioning:
		m.Status = "pending"
	case order.Fulfilled:
		m.Status = "credited"
	case order.OperatorReview:
		m.Status = "review"
	case order.RefundPending, order.Refunded:
		m.Status = "refused"
	default:
	}
	return m, nil
}

// issuance shows the state of the card of an order, with the terms of the spec's section 3.
func issuance(o order.Order, c card.Card, exists bool) *roamcardv1.Issuance {
	m := &roamcardv1.Issuance{
		Status: "queued", CardIssueFeeUsdCents: uint32(card.Fee),
		ExpectedAvailableAfterIssueUsdCents: uint32(card.Remaining),
	}
	if exists {
		m.Status = "pending"
		m.CardId = proto.String(c.ID.String())
	}
	switch {
	case o.Status == order.PaymentRequired || o.Status == order.Expired:
		m.Status = "unpaid"
	case o.Status == order.OperatorReview:
		m.Status = "review"
	case o.Status == order.RefundPending, o.Status == order.Refunded:
		m.Status = "refused"
	case exists && c.Status == card.Active:
		m.Status = "active"
	}
	return m
}
