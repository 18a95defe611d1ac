package esim

import (
	"context"
	"errors"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/secret"
)

// ErrNoPlan says that the supplier does not sell a plan.
var ErrNoPlan = errors.New("the supplier sells no such plan")

// The neutral codes of a supplier's refusals, next to those of every provider.
const (
	RefusedStock = "out_of_stock"
	RefusedPlan  = "plan_gone"
	RefusedPrice = "price_changed"
	// RefusedInstalled is the refusal to take back a profile that a device has, or had.
	RefusedInstalled = "profile_installed"
	// RefusedProfile is the refusal to add data to a profile that takes none.
	RefusedProfile = "profile_finished"
)

// Supplier sells profiles to us. Order is a call as package fulfilment makes it: it has our reference, and a refusal is
// a *fulfilment.Refusal.
type Supplier interface {
	// Listings reads the whole catalogue.
	Listings(ctx context.Context) ([]Listing, error)
	// Check reads the current cost and stock of a plan. ErrNoPlan when it is not sold.
	Check(ctx context.Context, code string) (Stock, error)
	// Order asks for a profile. It may be made later.
	Order(ctx context.Context, r Request) (Purchase, error)
	// Ordered reads an order back by its reference. fulfilment.ErrNoRef when there is none.
	Ordered(ctx context.Context, ref fulfilment.Ref) (Purchase, error)
}

// Listing is a plan in the supplier's catalogue.
type Listing struct {
	// Code is the supplier's code of the plan; it never leaves the service.
	Code string
	Name string
	Type Type
	// Countries are ISO 3166-1 alpha-2 codes.
	Countries []string
	// DataMB is the plan's data in total; 0 when it is Unlimited.
	DataMB    int
	Unlimited bool
	// FairUse is the supplier's text on what slows an unlimited plan down; empty when it states none.
	FairUse      string
	ValidityDays int
	Cost         money.USDC
	InStock      bool
}

// Stock is the current cost and availability of a plan.
type Stock struct {
	Cost money.USDC
	// Units is how many profiles there are; Plenty when they are not counted.
	Units int64
	// Float is our prepaid balance at the supplier.
	Float money.USDC
}

// Plenty is the number of units of a plan that is not counted.
const Plenty int64 = -1

// Request asks for one profile.
type Request struct {
	Ref  fulfilment.Ref
	Code string
	// MaxCost is the largest acceptable cost; the supplier refuses the order if it costs more.
	MaxCost money.USDC
	// Buyer is a note that identifies the buyer, see order.BuyerOf. A supplier that stores no notes ignores it.
	Buyer string
}

// Purchase is an order as its supplier sees it.
type Purchase struct {
	// ID is the supplier's ID of the order; it never leaves the service. A pending purchase may have none yet.
	ID    string
	Ref   fulfilment.Ref
	Code  string
	State PurchaseState
	Cost  money.USDC
	// Buyer is the note of the request; empty when the supplier stores none.
	Buyer string
	// ActivationData is set when the state is PurchaseReady.
	ActivationData *ActivationData
	// Refusal is set when the state is PurchaseRejected.
	Refusal *fulfilment.Refusal
	// Onto is the supplier's ID of the purchase whose profile this one was added to; empty when it made a profile.
	Onto string
}

// PurchaseState is the state of an order at its supplier.
type PurchaseState string

// The states. A state an adapter does not recognise is PurchasePending: unknown, not failed.
const (
	PurchasePending  PurchaseState = "pending"
	PurchaseReady    PurchaseState = "ready"
	PurchaseRejected PurchaseState = "rejected"
)

// ActivationData installs a profile on a device. Anyone who has it can use the eSIM.
type ActivationData struct {
	// ICCID is the profile's number, MatchingID the code that downloads it from the SM-DP+ server.
	ICCID, SMDPAddress, MatchingID secret.Text
	// OID is the SM-DP+ server's object identifier, which a device compares with its certificate; zero for most profiles.
	OID secret.Text
}

// Equal reports whether two are the same, in constant time for each part.
func (m ActivationData) Equal(other ActivationData) bool {
	return m.ICCID.Equal(other.ICCID) && m.SMDPAddress.Equal(other.SMDPAddress) &&
		m.MatchingID.Equal(other.MatchingID) && m.OID.Equal(other.OID)
}
