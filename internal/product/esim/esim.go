// Package esim is the prepaid travel eSIM product: catalogue, sale, delivery, and the activation data sold.
//
//	sync job ─► plans with our prices ─► Offer (price fixed in the quote)
//	                                       │  Reserve: stock and price confirmed with the supplier
//	settled ─► row ORDERED, our reference stored ─► Order at the supplier ─► activation data encrypted, READY
//	                                                                           │
//	                                      owner's session or delivery token ───┘ credentials
package esim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
)

// The bounds of an eSIM's price (spec section 8).
const (
	MinPrice money.Cents = 1
	MaxPrice money.Cents = 25_000
)

// InlineWait is how long a paid request may wait for its eSIM (spec section 8).
const InlineWait = 15 * time.Second

// TokenLifetime is how long a delivery token opens its order (spec section 2.4).
const TokenLifetime = 30 * 24 * time.Hour

// PlanID is the public ID of a plan: "pln_" and random hex. It never changes, and does not identify the supplier.
type PlanID string

// Type is the type of a plan's coverage.
type Type string

// The types.
const (
	Country Type = "country"
	Region  Type = "region"
)

// Plan is a prepaid data plan.
type Plan struct {
	ID   PlanID
	Name string
	Type Type
	// Countries are the ISO 3166-1 alpha-2 codes it works in, upper case and sorted.
	Countries []string
	// DataMB is the data in total; 0 when it is Unlimited. FairUse says what slows an unlimited plan down, if anything.
	DataMB       int
	Unlimited    bool
	FairUse      string
	ValidityDays int
	Price        money.Cents
	// Provider, Code and Cost are the supplier's: its name in the settings, its code of the plan, and what it charges.
	// They never leave the service.
	Provider, Code string
	Cost           money.USDC
	// Live says that the plan is in the supplier's latest catalogue, in stock and within our prices.
	Live bool
}

// cheaper orders plans by price; of two at one price, that with more data comes first.
func cheaper(a, b Plan) int {
	data := func(p Plan) int {
		if p.Unlimited {
			return math.MaxInt
		}
		return p.DataMB
	}
	return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(data(b), data(a)), cmp.Compare(a.ID, b.ID))
}

// Covers reports whether the plan works in a country.
func (p Plan) Covers(country string) bool {
	for _, c := range p.Countries {
		if c == country {
			return true
		}
	}
	return false
}

// Status is the status of a profile.
type Status string

// The statuses.
const (
	// Ordered: our reference is stored, and the supplier may have the order.
	Ordered Status = "ordered"
	// Ready: the activation data is stored.
	Ready Status = "ready"
	// Failed: the supplier refused the order.
	Failed Status = "failed"
	// Cancelled: the supplier has taken a ready profile back, and the activation data is erased.
	Cancelled Status = "cancelled"
)

// Profile is the eSIM of one order, of one attempt at its delivery.
type Profile struct {
	ID    uuid.UUID
	Order order.ID
	Plan  PlanID
	// Provider is the name of the plan's supplier.
	Provider string
	Status   Status
	// Ref is our reference for the supplier's order, stored before the supplier is first called.
	Ref fulfilment.Ref
	// Account is the supplier's ID of the profile; empty until it is known.
	Account string
	// Cost is what the supplier charged; zero until it is known.
	Cost money.USDC
	// ActivationData is the encrypted activation data of a ready profile.
	ActivationData Sealed
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// Postings are the ledger postings of a profile that was made: its cost, if known.
func (p Profile) Postings() []ledger.Posting {
	if p.Cost <= 0 {
		return nil
	}
	return []ledger.Posting{ledger.Supplied(string(p.Order), p.Cost)}
}

// ErrNotFound says that there is no such plan, order or profile.
var ErrNotFound = errors.New("no such eSIM")

// Store keeps the catalogue, the profiles sold and the versions of delivery tokens. A write of a job has the job's
// fence, and fails with job.ErrLeaseLost once another worker has the job.
type Store interface {
	Catalogue
	Installations
	Tokens
	order.Float
	// Order finds an order for an eSIM of any owner. ErrNotFound when there is none.
	Order(ctx context.Context, id order.ID) (order.Order, error)
	// Watch wakes when an order may have changed. Wake-ups may be missed or spurious: poll as well.
	Watch(id order.ID) (wake <-chan struct{}, stop func())
}

// Catalogue keeps the plans.
type Catalogue interface {
	// Plans is the live catalogue of all providers, cheapest first, and the times of their last syncs, by provider.
	Plans(ctx context.Context) (plans []Plan, synced map[string]time.Time, err error)
	// Plan finds a plan, live or not. ErrNotFound when there never was one.
	Plan(ctx context.Context, id PlanID) (Plan, error)
	// PlanNames are the names of plans, live or not; one that never was is left out.
	PlanNames(ctx context.Context, ids ...PlanID) (map[PlanID]string, error)
	// Replace replaces the plans of a provider: existing plans keep their ids, new ones get the id given, and those left
	// out are no longer live.
	Replace(ctx context.Context, provider string, plans []Plan, at time.Time) error
	// Withdraw takes a plan out of the live catalogue until the next Replace.
	Withdraw(ctx context.Context, id PlanID) error
	// Learn stores plans of a provider that its profiles take and returns all of them, in their order, with their ids. One
	// of the live catalogue stays as it is there; any other is not live.
	Learn(ctx context.Context, provider string, plans []Plan) ([]Plan, error)
}

// Installations keep the profiles that are sold.
type Installations interface {
	// Profiles finds the latest profile of each order; an order without one is left out.
	Profiles(ctx context.Context, orders ...order.ID) (map[order.ID]Profile, error)
	// Reserve stores p, unless its order already has a profile with this reference, and returns the stored one.
	Reserve(ctx context.Context, f job.Fence, p Profile) (Profile, error)
	// Install makes an ordered profile ready, with its account, cost and activation data, and adds the postings. For a
	// profile that is not ordered it changes and posts nothing.
	Install(ctx context.Context, f job.Fence, p Profile, postings []ledger.Posting) error
	// Fail makes an ordered profile failed.
	Fail(ctx context.Context, f job.Fence, id uuid.UUID) error
	// Foreign lists up to limit profiles whose activation data is encrypted with another key than the named one.
	Foreign(ctx context.Context, key string, limit int) ([]Profile, error)
	// Reseal replaces a profile's encrypted activation data, if it is still as it was read.
	Reseal(ctx context.Context, id uuid.UUID, was, is Sealed) error
}

// Tokens keep the versions of delivery tokens.
type Tokens interface {
	// Token is the current version of an order's delivery token; ok is false if it was never rotated.
	Token(ctx context.Context, id order.ID) (v TokenVersion, ok bool, err error)
	// Rotate makes the next version of an order's delivery token the current one, and returns it.
	Rotate(ctx context.Context, id order.ID, expires time.Time) (TokenVersion, error)
}

// Item is the item of an order for an eSIM: the plan as it was offered. It is part of signed quotes, which anyone can
// read.
type Item struct {
	Plan PlanID `json:"planId"`
	// DataMB is 0 when the data is Unlimited.
	DataMB       int  `json:"dataMb"`
	Unlimited    bool `json:"unlimited,omitempty"`
	ValidityDays int  `json:"validityDays"`
}

// itemOf is the item of an order for a plan.
func itemOf(p Plan) Item {
	return Item{Plan: p.ID, DataMB: p.DataMB, Unlimited: p.Unlimited, ValidityDays: p.ValidityDays}
}

// ItemOf decodes the item of an order.
func ItemOf(o order.Order) (Item, error) { return readItem(o.Item) }

func readItem(raw json.RawMessage) (Item, error) {
	var i Item
	if err := json.Unmarshal(raw, &i); err != nil {
		return Item{}, fmt.Errorf("read the eSIM's item: %w", err)
	}
	return i, nil
}

func marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("esim: marshal %T: %v", v, err))
	}
	return b
}

// OrderStep is the order at the supplier in a delivery.
const OrderStep = "esim"

var orders = fulfilment.Series{
	Namespace: uuid.MustParse("0b0d6e0e-3c54-5a9d-8f4e-6f1d2f6c9a41"), Name: "order", Step: OrderStep,
}

// OrderRef is the reference of an attempt at an eSIM at the supplier, by the order's name.
func OrderRef(name string, attempt int) fulfilment.Ref { return orders.Ref(name, attempt) }

// References are the supplier's references of an order's eSIM, one for each attempt at its delivery.
func (e *Esims) References(o order.Order) []order.Reference { return orders.References(o) }
