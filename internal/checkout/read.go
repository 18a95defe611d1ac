package checkout

import (
	"context"
	"errors"
	"fmt"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/paging"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Order returns one order of a wallet. For another wallet's order the error is order_not_found.
func (c *Checkout) Order(ctx context.Context, id order.ID, owner x402.Address) (PaidOrder, error) {
	o, err := c.Store.Find(ctx, id)
	if errors.Is(err, order.ErrNotFound) || (err == nil && o.Owner != owner) {
		return PaidOrder{}, fault.New(fault.OrderNotFound, "This wallet has no order with this id.")
	}
	if err != nil {
		return PaidOrder{}, fmt.Errorf("read the order: %w", err)
	}
	all, err := c.withPayments(ctx, o)
	if err != nil {
		return PaidOrder{}, err
	}
	if c.mayBePreconfirmed(o) {
		all[0].Preconfirmed = c.Preconfirmed(ctx, all[0].Payment)
	}
	return c.WithReceipt(ctx, all[0]), nil
}

// mayBePreconfirmed reports whether an order's payment is looked for in the block that is being built.
func (c *Checkout) mayBePreconfirmed(o order.Order) bool {
	return c.Preconfirmed != nil && o.Status == order.Settling
}

// Orders lists a wallet's orders, newest first. next is the cursor of the next page, or empty.
func (c *Checkout) Orders(
	ctx context.Context, owner x402.Address, q Query,
) (page []PaidOrder, next order.ID, err error) {
	limit := q.Limit
	q.Limit++
	orders, err := c.Store.Orders(ctx, owner, q)
	if err != nil {
		return nil, "", fmt.Errorf("list the orders: %w", err)
	}
	orders, next = paging.Cut(orders, limit, func(o order.Order) order.ID { return o.ID })
	page, err = c.withPayments(ctx, orders...)
	return page, next, err
}

func (c *Checkout) withPayments(ctx context.Context, orders ...order.Order) ([]PaidOrder, error) {
	ids := make([]order.ID, len(orders))
	for i, o := range orders {
		ids[i] = o.ID
	}
	payments, err := c.Store.Payments(ctx, ids...)
	if err != nil {
		return nil, fmt.Errorf("read the payments: %w", err)
	}
	refunds, err := c.refunds(ctx, orders)
	if err != nil {
		return nil, err
	}
	paid, now := make([]PaidOrder, len(orders)), c.Now()
	for i, o := range orders {
		paid[i] = PaidOrder{Order: o.AsOf(now), Payment: payments[o.ID]}
		if r, ok := refunds[o.ID]; ok {
			paid[i].Refund = &r
		}
	}
	return paid, nil
}

// refunds reads the refunds of the orders whose status says that they may have one.
func (c *Checkout) refunds(ctx context.Context, orders []order.Order) (map[order.ID]payment.Refund, error) {
	var ids []order.ID
	for _, o := range orders {
		switch o.Status {
		case order.RefundPending, order.Refunded:
			ids = append(ids, o.ID)
		default:
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	refunds, err := c.Store.Refunds(ctx, ids...)
	if err != nil {
		return nil, fmt.Errorf("read the refunds: %w", err)
	}
	return refunds, nil
}

// payment reads the payment that decides an order.
func (c *Checkout) payment(ctx context.Context, id order.ID) (payment.Payment, error) {
	found, err := c.Store.Payments(ctx, id)
	if err != nil {
		return payment.Payment{}, err
	}
	p, ok := found[id]
	if !ok {
		return payment.Payment{}, fmt.Errorf("order %s: %w", id, order.ErrNotFound)
	}
	return p, nil
}
