package topup

import (
	"fmt"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
)

// CreditStatus is how the crediting of a card stands, as its owner is told.
type CreditStatus string

// The statuses of crediting.
const (
	CreditUnpaid   CreditStatus = "unpaid"
	CreditQueued   CreditStatus = "queued"
	CreditPending  CreditStatus = "pending"
	CreditCredited CreditStatus = "credited"
	CreditRefused  CreditStatus = "refused"
	CreditReview   CreditStatus = "review"
)

// Credit is what an owner is told about the credit of an order.
type Credit struct {
	Status CreditStatus
	// Gross is the order's price, Fee what of it is kept, and Amount what the card is credited with. What is refunded, or
	// was never paid in time, has neither fee nor credit.
	Gross, Fee, Amount money.Cents
}

// CreditOf is how the crediting of a top-up order stands. It is total: every stored status has an answer.
func CreditOf(o order.Order) (Credit, error) {
	split, err := ItemOf(o)
	if err != nil {
		return Credit{}, err
	}
	c := Credit{Gross: split.Gross, Fee: split.Fee, Amount: split.Credit}
	switch o.Status {
	case order.PaymentRequired:
		c.Status = CreditUnpaid
	case order.Expired:
		c.Status, c.Fee, c.Amount = CreditUnpaid, 0, 0
	case order.Settling, order.Settled:
		c.Status = CreditQueued
	case order.Provisioning:
		c.Status = CreditPending
	case order.Fulfilled:
		c.Status = CreditCredited
	case order.OperatorReview:
		c.Status = CreditReview
	case order.RefundPending, order.Refunded:
		c.Status, c.Fee, c.Amount = CreditRefused, 0, 0
	default:
		return Credit{}, fmt.Errorf("order %s has the unknown status %q", o.ID, o.Status)
	}
	return c, nil
}
