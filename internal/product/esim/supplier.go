package esim

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/secret"
)

// Ref is our own reference for one order at the supplier. It is stored before the first call, stays the
// same across attempts, and is how an unknown outcome is read back.
type Ref uuid.UUID

// String is the 36-character form that is sent.
func (r Ref) String() string { return uuid.UUID(r).String() }

// ErrNoRef says that the supplier knows no order by a reference: authoritative, but only after the
// supplier's horizon has passed since the last send.
var ErrNoRef = errors.New("the supplier knows no such reference")

// ErrNoPlan says that the supplier does not sell a plan, or not any more.
var ErrNoPlan = errors.New("the supplier sells no such plan")

// Refusal is a supplier's definite no: nothing was ordered and nothing ever will be under this
// reference. Every other error of an order means that its outcome is unknown.
type Refusal struct {
	// Code is the neutral reason, see the Refused constants.
	Code string
	// Message is the supplier's own text, for evidence and operators, not for buyers.
	Message string
}

// The neutral refusal codes.
const (
	RefusedStock    = "out_of_stock"
	RefusedPlan     = "plan_gone"
	RefusedPrice    = "price_changed"
	RefusedFloat    = "insufficient_float"
	RefusedRequest  = "request_rejected"
	RefusedUnstated = "rejected"
)

// Error implements error.
func (r *Refusal) Error() string { return "the supplier refused: " + r.Code + ": " + r.Message }

// Supplier sells profiles to us. Ordering carries our reference; the supplier may be asked again with
// the same reference only if it deduplicates, which Traits tells.
type Supplier interface {
	// Listings reads the whole catalogue.
	Listings(ctx context.Context) ([]Listing, error)
	// Check asks what a plan costs now and how much of it there is. ErrNoPlan when it is not sold.
	Check(ctx context.Context, code string) (Stock, error)
	// Order asks for a profile. It may be made later.
	Order(ctx context.Context, r Request) (Purchase, error)
	// Ordered reads an order back by its reference. ErrNoRef when there is none.
	Ordered(ctx context.Context, ref Ref) (Purchase, error)
}

// Traits are a supplier's habits that decide what may be done after an unknown outcome.
type Traits struct {
	// Deduplicates: the same reference sent twice takes effect once.
	Deduplicates bool
	// VisibilityDelay is how long after the last send a reference may still appear. Until it has passed,
	// "no such reference" means unknown.
	VisibilityDelay time.Duration
}

// Listing is a plan as its supplier lists it.
type Listing struct {
	// Code is the supplier's own name for the plan; it never leaves the service.
	Code string
	Name string
	Type Type
	// Countries are ISO 3166-1 alpha-2 codes.
	Countries    []string
	DataMB       int
	ValidityDays int
	Cost         money.USDC
	InStock      bool
}

// Stock is what can be had of a plan now.
type Stock struct {
	Cost money.USDC
	// Units is how many profiles there are; Plenty when they are not counted.
	Units int64
	// Float is the money we have left with the supplier.
	Float money.USDC
}

// Plenty is the number of units of a plan that is not counted.
const Plenty int64 = -1

// Request asks for one profile.
type Request struct {
	Ref  Ref
	Code string
	// MaxCost is the most we pay; a supplier that asks more refuses.
	MaxCost money.USDC
	// Buyer is a note of whom the profile is for, see order.BuyerOf. A supplier that keeps none leaves it out.
	Buyer string
}

// Purchase is an order as its supplier sees it.
type Purchase struct {
	// ID is the supplier's own name for it; it never leaves the service.
	ID    string
	Ref   Ref
	Code  string
	State PurchaseState
	Cost  money.USDC
	// Buyer is the note of the request; empty when the supplier keeps none.
	Buyer string
	// ActivationData is set when the state is PurchaseReady.
	ActivationData *ActivationData
	// Refusal is set when the state is PurchaseRejected.
	Refusal *Refusal
}

// PurchaseState is how an order stands at its supplier.
type PurchaseState string

// The states. A state an adapter does not recognise is PurchasePending: unknown, not failed.
const (
	PurchasePending  PurchaseState = "pending"
	PurchaseReady    PurchaseState = "ready"
	PurchaseRejected PurchaseState = "rejected"
)

// ActivationData is what installs a profile on a device. Whoever has it has the eSIM.
type ActivationData struct {
	// ICCID is the profile's number, MatchingID the code that fetches it from the SM-DP+ server.
	ICCID, SMDPAddress, MatchingID secret.Text
}
