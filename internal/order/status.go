package order

import (
	"fmt"
	"slices"
)

// Status is how far an order has come.
type Status string

// The statuses.
const (
	PaymentRequired Status = "payment_required"
	Settling        Status = "settling"
	Settled         Status = "settled"
	Provisioning    Status = "provisioning"
	Fulfilled       Status = "fulfilled"
	Expired         Status = "expired"
	RefundPending   Status = "refund_pending"
	Refunded        Status = "refunded"
	OperatorReview  Status = "operator_review"
)

// moves is every legal step. Nothing else in the program changes a status.
//
//	payment_required -> settling -> settled -> provisioning -> fulfilled
//	       |               |            \            \-> refund_pending -> refunded
//	    expired      payment_required    \-> operator_review (from any state after settling)
//	                 (authorization dead)
var moves = map[Status][]Status{
	PaymentRequired: {Settling, Expired},
	Settling:        {Settled, PaymentRequired},
	Settled:         {Provisioning, RefundPending, OperatorReview},
	Provisioning:    {Fulfilled, RefundPending, OperatorReview},
	RefundPending:   {Refunded, OperatorReview},
	// Left by an operator's act alone.
	OperatorReview: {Provisioning, Fulfilled, RefundPending},
}

// Statuses lists every status.
func Statuses() []Status {
	return []Status{PaymentRequired, Settling, Settled, Provisioning, Fulfilled, Expired, RefundPending, Refunded,
		OperatorReview}
}

// Final reports that nothing moves an order in this status any more.
func (s Status) Final() bool { return len(moves[s]) == 0 }

// Open reports that the delivery of an order in this status may be under way.
func (s Status) Open() bool { return s == Settled || s == Provisioning }

// Paid reports that the payment of an order in this status is proven.
func (s Status) Paid() bool {
	switch s {
	case Settled, Provisioning, Fulfilled, RefundPending, Refunded, OperatorReview:
		return true
	case PaymentRequired, Settling, Expired:
	}
	return false
}

// Check refuses a move that is not in the table, and a move out of operator_review that no operator made.
func (m Move) Check() error {
	if !slices.Contains(moves[m.From], m.To) {
		return fmt.Errorf("order %s: no move from %s to %s", m.Order, m.From, m.To)
	}
	if m.From == OperatorReview && !byOperator(m.Actor) {
		return fmt.Errorf("order %s: only an operator leaves %s", m.Order, m.From)
	}
	return nil
}

func byOperator(actor string) bool {
	const prefix = "operator:"
	return len(actor) > len(prefix) && actor[:len(prefix)] == prefix
}
