package rpc

import (
	"context"
	"time"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// watchFor ends a stream before the edge's write timeout does.
const watchFor = 30 * time.Second

// WatchOrder implements roamcardv1connect.OrderServiceHandler.
func (s OrderService) WatchOrder(
	ctx context.Context, req *roamcardv1.WatchOrderRequest, out roamcardv1connect.OrderServiceWatchOrderServerStream,
) error {
	if only := rpcx.Caller(ctx).Order; only != "" && only != req.GetOrderId() {
		return fault.New(fault.OrderNotFound, "This token watches another order.")
	}
	return s.Orders.Watch(ctx, order.ID(req.GetOrderId()), rpcx.Wallet(ctx), int(req.GetAfter()), watchFor,
		func(at checkout.PaidOrder) error {
			orders, err := s.orders(ctx, at)
			if err != nil {
				return err
			}
			return out.Send(&roamcardv1.WatchOrderResponse{Order: orders[0], Cursor: uint32(at.Order.Version)})
		})
}

// WatchOrders implements roamcardv1connect.OrderServiceHandler.
func (s OrderService) WatchOrders(
	ctx context.Context, req *roamcardv1.WatchOrdersRequest, out roamcardv1connect.OrderServiceWatchOrdersServerStream,
) error {
	after := make(map[order.ID]int, len(req.GetOrders()))
	for _, o := range req.GetOrders() {
		id := order.ID(o.GetOrderId())
		if _, twice := after[id]; twice {
			return rpcx.Invalid("orders", "repeated.unique", "must name each order once")
		}
		after[id] = int(o.GetAfter())
	}
	return s.Orders.WatchAll(ctx, rpcx.Wallet(ctx), after, watchFor, func(at checkout.PaidOrder) error {
		orders, err := s.orders(ctx, at)
		if err != nil {
			return err
		}
		return out.Send(&roamcardv1.WatchOrdersResponse{Order: orders[0], Cursor: uint32(at.Order.Version)})
	})
}
