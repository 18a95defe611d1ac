package card

import (
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
)

// IssuanceStatus is how the issuing of an order's card stands, as its owner is told.
type IssuanceStatus string

// The statuses of issuing. A card that is frozen has been issued: what it is now is the card's own Status.
const (
	IssuanceUnpaid  IssuanceStatus = "unpaid"
	IssuanceQueued  IssuanceStatus = "queued"
	IssuancePending IssuanceStatus = "pending"
	IssuanceActive  IssuanceStatus = "active"
	IssuanceClosed  IssuanceStatus = "closed"
	IssuanceRefused IssuanceStatus = "refused"
	IssuanceReview  IssuanceStatus = "review"
)

// Issuance is what an owner is told about the card of an order.
type Issuance struct {
	Status IssuanceStatus
	// Card is the order's card; nil while there is none, and where an operator has delivered one by hand.
	Card uuid.UUID
	// Fee is withdrawn from the card, or was, and Expected is on the card after that, before its holder spends. What will
	// never be, is no more, or is not known, as of a card that was delivered by hand, is zero.
	Fee, Expected money.Cents
}

// IssuanceOf is how the issuing of an order's card stands, by the order's status and its latest card, if it has one.
// It is total: every stored combination has an answer.
func IssuanceOf(s order.Status, latest *Card) Issuance {
	i := Issuance{Status: issuanceStatus(s, latest), Fee: Fee, Expected: Remaining}
	byHand := s == order.Fulfilled && (latest == nil || latest.Status == Failed)
	if latest != nil && !byHand {
		i.Card = latest.ID
	}
	switch {
	case i.Status == IssuanceRefused, s == order.Expired, byHand:
		i.Fee, i.Expected = 0, 0
	case i.Status == IssuanceClosed:
		i.Expected = 0
	}
	return i
}

func issuanceStatus(s order.Status, latest *Card) IssuanceStatus {
	switch s {
	case order.PaymentRequired, order.Expired:
		return IssuanceUnpaid
	case order.OperatorReview:
		return IssuanceReview
	case order.RefundPending, order.Refunded:
		return IssuanceRefused
	case order.Settling, order.Settled, order.Provisioning, order.Fulfilled:
	}
	if latest != nil {
		switch latest.Status {
		case Pending:
			return IssuancePending
		case Active, Frozen:
			return IssuanceActive
		case Closed:
			return IssuanceClosed
		case Failed: // an earlier attempt's: the next one has no card yet
		}
	}
	if s == order.Fulfilled {
		return IssuanceActive // delivered by hand
	}
	return IssuanceQueued
}
