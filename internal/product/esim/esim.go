// Package esim is the prepaid travel eSIM product: catalogue, sale, delivery, and the installation material sold.
//
//	sync job ─► plans with our prices ─► Offer (price frozen in the quote)
//	                                       │  Admit: stock and price confirmed with the supplier
//	settled ─► row ORDERED, our reference kept ─► Order at the supplier ─► material sealed, READY
//	                                                                         │
//	                                    owner's session or delivery token ───┘ credentials
package esim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
)

// What an eSIM may cost (spec section 8).
const (
	MinPrice money.Cents = 1
	MaxPrice money.Cents = 25_000
)

// InlineWait is how long a paid request may wait for its eSIM (spec section 8).
const InlineWait = 15 * time.Second

// TokenLifetime is how long a delivery token opens its order (spec section 2.4).
const TokenLifetime = 30 * 24 * time.Hour

// PlanID names a plan to the outside: "pln_" and random hex. It stays with the plan for good and tells
// nothing of the supplier.
type PlanID string

// Type is what a plan covers.
type Type string

// The types.
const (
	Country Type = "country"
	Region  Type = "region"
)

// Plan is something that can be bought.
type Plan struct {
	ID   PlanID
	Name string
	Type Type
	// Countries are the ISO 3166-1 alpha-2 codes it works in, upper case and sorted.
	Countries    []string
	DataMB       int
	ValidityDays int
	Price        money.Cents
	// Code and Cost are the supplier's; they never leave the service.
	Code string
	Cost money.USDC
	// Live says that the plan is in the supplier's latest catalogue, in stock and within our prices.
	Live bool
}

// Covers says whether the plan works in a country.
func (p Plan) Covers(country string) bool {
	for _, c := range p.Countries {
		if c == country {
			return true
		}
	}
	return false
}

// Status is how a profile stands.
type Status string

// The statuses.
const (
	// Ordered: our reference is kept, the supplier may know it.
	Ordered Status = "ordered"
	// Ready: the installation material is here.
	Ready Status = "ready"
	// Failed: the supplier refused for good.
	Failed Status = "failed"
)

// Profile is the eSIM of one order, of one attempt at its delivery.
type Profile struct {
	ID     uuid.UUID
	Order  order.ID
	Plan   PlanID
	Status Status
	// Ref is our reference for the supplier's order, kept before the supplier is first called.
	Ref fulfilment.Ref
	// Account is the supplier's name for what it made; empty until it is known.
	Account string
	// Cost is what the supplier charged; zero while that is not known.
	Cost money.USDC
	// ActivationData is the sealed installation material of a ready profile.
	ActivationData Sealed
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// Postings are what the ledger gets when the profile is ready: its cost, where that is known.
func (p Profile) Postings() []ledger.Posting {
	if p.Cost <= 0 {
		return nil
	}
	return []ledger.Posting{ledger.Supplied(string(p.Order), p.Cost)}
}

// ErrNotFound says that there is no such plan, order or profile.
var ErrNotFound = errors.New("no such eSIM")

// Store keeps the catalogue, the profiles sold and the versions of delivery tokens. A write made for a
// job carries its fence and does nothing, with job.ErrLeaseLost, once another worker has the job.
type Store interface {
	// Plans is the live catalogue, the cheapest first, and when it was last in step with the supplier;
	// the zero time when it never was.
	Plans(ctx context.Context) ([]Plan, time.Time, error)
	// Plan finds a plan, also one that is not live. ErrNotFound when there never was one.
	Plan(ctx context.Context, id PlanID) (Plan, error)
	// Replace makes plans the catalogue as of a time: known ones keep their ids, those left out are not
	// live any more. A plan's id is the one to use if it is new.
	Replace(ctx context.Context, plans []Plan, at time.Time) error
	// Withdraw takes a plan out of the live catalogue until the next Replace.
	Withdraw(ctx context.Context, id PlanID) error

	// Order finds an order for an eSIM, whoever owns it. ErrNotFound when there is none.
	Order(ctx context.Context, id order.ID) (order.Order, error)
	// Watch wakes when an order may have changed. Wake-ups may be missed or idle: look again anyway.
	Watch(id order.ID) (wake <-chan struct{}, stop func())
	// Profiles finds the profiles of orders, of each the latest; an order without one is left out.
	Profiles(ctx context.Context, orders ...order.ID) (map[order.ID]Profile, error)
	// Reserve stores p unless its order has a profile under this reference already, and returns that one.
	Reserve(ctx context.Context, f job.Fence, p Profile) (Profile, error)
	// Install makes an ordered profile ready, with its account, cost and material, and with what that posts. One that is
	// not ordered stays as it is, and nothing is posted.
	Install(ctx context.Context, f job.Fence, p Profile, postings []ledger.Posting) error
	// Fail makes an ordered profile failed.
	Fail(ctx context.Context, f job.Fence, id uuid.UUID) error

	// Reserved is how much of a resource live orders hold.
	Reserved(ctx context.Context, resource string, asOf time.Time) (int64, error)

	// Foreign lists up to limit profiles whose material is sealed with another key than the named one.
	Foreign(ctx context.Context, key string, limit int) ([]Profile, error)
	// Reseal replaces a profile's material, unless it is not sealed as it was read any more.
	Reseal(ctx context.Context, id uuid.UUID, was, is Sealed) error

	// Token is the live version of an order's delivery token; ok is false while it was never rotated.
	Token(ctx context.Context, id order.ID) (v TokenVersion, ok bool, err error)
	// Rotate makes the next version of an order's delivery token the live one, and returns it.
	Rotate(ctx context.Context, id order.ID, expires time.Time) (TokenVersion, error)
}

// Item is what an order for an eSIM remembers: the plan as it was offered. It is part of signed quotes,
// which anyone can read.
type Item struct {
	Plan         PlanID `json:"planId"`
	DataMB       int    `json:"dataMb"`
	ValidityDays int    `json:"validityDays"`
}

// ItemOf reads what an order remembers.
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

// References are what the supplier knows an order's eSIM by, one for each attempt at its delivery.
func (e *Esims) References(o order.Order) []order.Reference { return orders.References(o) }
