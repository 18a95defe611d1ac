package roamcard

import (
	"slices"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// OrderKind is what an order is for.
type OrderKind string

// The kinds.
const (
	KindCard  OrderKind = "card_issue"
	KindTopUp OrderKind = "card_topup"
	KindESIM  OrderKind = "esim"
	// KindESIMTopUp is more data for an eSIM.
	KindESIMTopUp OrderKind = "esim_topup"
)

// OrderStatus is how far an order has come.
type OrderStatus string

// The statuses of orders.
const (
	OrderPaymentRequired OrderStatus = "payment_required"
	OrderSettling        OrderStatus = "settling"
	OrderSettled         OrderStatus = "settled"
	OrderProvisioning    OrderStatus = "provisioning"
	OrderFulfilled       OrderStatus = "fulfilled"
	OrderExpired         OrderStatus = "expired"
	OrderRefundPending   OrderStatus = "refund_pending"
	OrderRefunded        OrderStatus = "refunded"
	OrderOperatorReview  OrderStatus = "operator_review"
)

// Final says that the order changes no more by itself.
func (s OrderStatus) Final() bool {
	return slices.Contains([]OrderStatus{OrderFulfilled, OrderRefunded, OrderExpired, OrderOperatorReview}, s)
}

// StepStatus is how the issuing of a card stands, or the crediting of one.
type StepStatus string

// The statuses of both; a card becomes active and may be closed later, and credit credited.
const (
	StepUnpaid   StepStatus = "unpaid"
	StepQueued   StepStatus = "queued"
	StepPending  StepStatus = "pending"
	StepActive   StepStatus = "active"
	StepClosed   StepStatus = "closed"
	StepCredited StepStatus = "credited"
	StepRefused  StepStatus = "refused"
	StepReview   StepStatus = "review"
)

// DeliveryStatus is how the delivery of an eSIM stands.
type DeliveryStatus string

// The statuses of deliveries.
const (
	DeliveryUnpaid        DeliveryStatus = "unpaid"
	DeliveryPending       DeliveryStatus = "pending"
	DeliveryFulfilled     DeliveryStatus = "fulfilled"
	DeliveryCancelled     DeliveryStatus = "cancelled"
	DeliveryReview        DeliveryStatus = "review"
	DeliveryRefundPending DeliveryStatus = "refund_pending"
	DeliveryRefunded      DeliveryStatus = "refunded"
)

// CardStatus is how a card stands.
type CardStatus string

// The statuses of cards.
const (
	CardPending CardStatus = "PENDING"
	CardActive  CardStatus = "ACTIVE"
	CardFrozen  CardStatus = "FROZEN"
	CardClosed  CardStatus = "CLOSED"
	CardFailed  CardStatus = "FAILED"
)

// KindOf is what an order is for.
func KindOf(o *roamcardv1.Order) OrderKind { return OrderKind(o.GetKind()) }

// StatusOf is how far an order has come.
func StatusOf(o *roamcardv1.Order) OrderStatus { return OrderStatus(o.GetStatus()) }

// IssuanceOf is how the issuing of an order's card stands; empty for other orders.
func IssuanceOf(o *roamcardv1.Order) StepStatus { return StepStatus(o.GetIssuance().GetStatus()) }

// TopUpOf is how the credit of an order stands; empty for other orders.
func TopUpOf(o *roamcardv1.Order) StepStatus { return StepStatus(o.GetTopup().GetStatus()) }

// DeliveryOf is how an order's eSIM stands; empty for other orders.
func DeliveryOf(o *roamcardv1.Order) DeliveryStatus {
	return DeliveryStatus(o.GetDelivery().GetStatus())
}

// ESIMTopUpOf is how the data stands that an order buys for an eSIM; empty for other orders.
func ESIMTopUpOf(o *roamcardv1.Order) DeliveryStatus {
	return DeliveryStatus(o.GetEsimTopup().GetStatus())
}

// CardStatusOf is how a card stands.
func CardStatusOf(c *roamcardv1.Card) CardStatus { return CardStatus(c.GetStatus()) }
