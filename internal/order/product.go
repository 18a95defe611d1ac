package order

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
)

// Offer is what a product would sell, at which price. It is frozen in a signed quote, so that the
// payment for it is honoured as it was offered.
type Offer struct {
	Price money.Cents
	// Item is what delivery needs. It becomes the order's.
	Item json.RawMessage
	// Description names the thing in the challenge, in at most 200 characters.
	Description string
}

// OfferRequest asks a product for an offer.
type OfferRequest struct {
	// Key is the caller's idempotency key; empty for a preview.
	Key string
	// Body is the product's part of the request in canonical JSON.
	Body json.RawMessage
	// Quoted is an earlier offer that is asked for again; nil asks for a new one.
	Quoted *Offer
}

// Claim is what an order is claimed with, once its buyer is known.
type Claim struct {
	// Item becomes the order's: the offer's, with what only the buyer decides.
	Item json.RawMessage
	// Reservations are what the order takes of what is scarce.
	Reservations []Reservation
	// Provider is over whom it is sold, by the name in the settings: its kill switch closes the claim, too. Empty when no
	// provider decides about it.
	Provider string
}

// Progress is how far a delivery has come.
type Progress struct {
	State ProgressState
	// After is when to look again, for Waiting.
	After time.Duration
	// Reason says why, for Refused and Doubtful.
	Reason string
	// Evidence goes on the order's timeline. Never a secret.
	Evidence map[string]string
}

// ProgressState is the kind of a progress.
type ProgressState int

// The progress states.
const (
	// Waiting: the provider works on it; look again.
	Waiting ProgressState = iota
	// Delivered: the buyer has the goods.
	Delivered
	// Refused: the provider proved that it will never deliver.
	Refused
	// Doubtful: the provider can prove neither; a person decides.
	Doubtful
)

// Shortage says that a reservation could not be made.
type Shortage struct{ Reservation Reservation }

// Error implements error.
func (s *Shortage) Error() string { return "not enough of " + s.Reservation.Resource }

// leastUnsettled is how many purchases like the one at hand an owner may always have on their way: a small float, of
// which a share would be less than one purchase, can still be sold.
const leastUnsettled = 4

// UnsettledLimit is how much of a limit an owner's orders may reserve while they are not paid: a share of it in
// percent, and at least some purchases of so many units. Zero, which is no bound, without a share.
func UnsettledLimit(limit, units int64, percent int) int64 {
	if percent <= 0 || percent >= 100 {
		return 0
	}
	return max(limit/100*int64(percent)+limit%100*int64(percent)/100, leastUnsettled*units)
}

// Awaited is s when the units would be there if nothing were reserved for payments that are not settled yet. They may
// be there in a moment: payments settle, or what was reserved for them is released.
func (s *Shortage) Awaited() *Shortage {
	h := s.Reservation
	h.Refusal, h.Detail = fault.FloatReserved, awaited
	return &Shortage{Reservation: h}
}

const awaited = "What there is is reserved for payments that are not settled yet. Nothing was claimed; repeat the " +
	"same request in a moment."

// Awaited is what a buyer is told before the terms, when a Shortage would be Awaited.
func Awaited() *fault.Fault { return fault.New(fault.FloatReserved, awaited).After(2 * time.Second) }

// ErrSuspended says that what an order reserves of a float was released while it was not paid. It has to be reserved
// again before the order is delivered.
var ErrSuspended = errors.New("the order's reservation of a float was released before it was paid")

// Fault is what the buyer is told about the shortage.
func (s *Shortage) Fault() *fault.Fault {
	return fault.New(s.Reservation.Refusal, s.Reservation.Detail)
}
