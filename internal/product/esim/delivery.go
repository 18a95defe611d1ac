package esim

import (
	"context"
	"fmt"

	"github.com/roamcard/roamcard/internal/order"
)

// DeliveryStatus is how the delivery of an eSIM stands, or of data for one, as its owner is told.
type DeliveryStatus string

// The statuses of deliveries. Only an eSIM is ever cancelled: one with more data is not given back.
const (
	DeliveryUnpaid        DeliveryStatus = "unpaid"
	DeliveryPending       DeliveryStatus = "pending"
	DeliveryFulfilled     DeliveryStatus = "fulfilled"
	DeliveryCancelled     DeliveryStatus = "cancelled"
	DeliveryReview        DeliveryStatus = "review"
	DeliveryRefundPending DeliveryStatus = "refund_pending"
	DeliveryRefunded      DeliveryStatus = "refunded"
)

// DeliveryOf is how the delivery of an order stands, by its status and that of its latest profile; empty without one,
// and for an order for more data. It is total: every stored combination has an answer.
func DeliveryOf(s order.Status, profile Status) DeliveryStatus {
	switch s {
	case order.PaymentRequired, order.Expired:
		return DeliveryUnpaid
	case order.OperatorReview:
		return DeliveryReview
	case order.RefundPending:
		return DeliveryRefundPending
	case order.Refunded:
		return DeliveryRefunded
	case order.Fulfilled:
		if profile == Cancelled {
			return DeliveryCancelled
		}
		return DeliveryFulfilled
	case order.Settling, order.Settled, order.Provisioning:
	}
	return DeliveryPending
}

// Deliveries are how the deliveries of some orders stand.
func (e *Esims) Deliveries(ctx context.Context, orders ...order.Order) (map[order.ID]DeliveryStatus, error) {
	var delivered []order.ID // only these can have been given back
	for _, o := range orders {
		if o.Status == order.Fulfilled {
			delivered = append(delivered, o.ID)
		}
	}
	var profiles map[order.ID]Profile
	if len(delivered) > 0 {
		var err error
		if profiles, err = e.Store.Profiles(ctx, delivered...); err != nil {
			return nil, fmt.Errorf("find the profiles: %w", err)
		}
	}
	stand := make(map[order.ID]DeliveryStatus, len(orders))
	for _, o := range orders {
		stand[o.ID] = DeliveryOf(o.Status, profiles[o.ID].Status)
	}
	return stand, nil
}
