package esim

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/secret"
)

// Capabilities are what a supplier does for owners of delivered profiles. A supplier declares them; the service follows
// them.
type Capabilities struct {
	// Status: owners may read how their profile stands. Usage: they may read how much of its data is used; it needs
	// Status.
	Status, Usage bool
	// Cancel: a profile that no device has can be given back, for what the supplier credits; it needs Status.
	Cancel bool
	// Topup: owners may buy more data for a profile; it needs Status.
	Topup bool
}

// Controls are what an owner learns of a delivered profile at its supplier, as far as Capabilities say so.
type Controls interface {
	// State reads how a profile stands. It changes nothing, and says nothing that installs it.
	State(ctx context.Context, h Held) (State, error)
}

// EventNamer is a Controls whose supplier sends events.
type EventNamer interface {
	// EventName is what events about a profile call it: always the same, and nothing that tells its number.
	EventName(h Held) string
}

// Canceller takes profiles back, where Capabilities have Cancel.
type Canceller interface {
	// Cancel gives a profile that no device has back, and says what the supplier has credited for it, which is at most
	// what it charged. A profile that is cancelled is cancelled again, with the same credit. A *fulfilment.Refusal with
	// RefusedInstalled says that the supplier does not take it back, and nothing happened. Any other error leaves the
	// outcome unknown; calling again is safe.
	Cancel(ctx context.Context, h Held) (credit money.USDC, err error)
}

// Topper adds data to profiles, where Capabilities have Topup.
type Topper interface {
	// Topups lists the plans that a profile takes now, by the codes that TopUp takes; none when it takes no more.
	Topups(ctx context.Context, h Held) ([]Listing, error)
	// CheckTopup reads the current cost and stock of a plan for a profile. ErrNoPlan when the profile does not take it.
	CheckTopup(ctx context.Context, h Held, code string) (Stock, error)
	// TopUp asks for a plan to be added to a profile, which may happen later. As Supplier.Order, it is a call as package
	// fulfilment makes it. The purchase has no activation data.
	TopUp(ctx context.Context, r TopUpRequest) (Purchase, error)
	// ToppedUp reads such a purchase back by its reference. fulfilment.ErrNoRef when there is none.
	ToppedUp(ctx context.Context, h Held, ref fulfilment.Ref) (Purchase, error)
}

// TopUpRequest asks for one plan to be added to a profile.
type TopUpRequest struct {
	Request
	Held Held
}

// Held is a delivered profile, as its supplier knows it.
type Held struct {
	// ID is the supplier's ID of the purchase, and Code that of its plan.
	ID, Code string
	ICCID    secret.Text
	// Cost is what the supplier charged.
	Cost money.USDC
}

// State is how a profile stands at its supplier.
type State struct {
	Status ProfileStatus
	// Usage is nil when the supplier does not say how much data is used.
	Usage *Usage
	// ExpiresAt is when the profile cannot be used any more, as far as is known: before its installation, when it has to
	// be installed. Zero when it is not known.
	ExpiresAt time.Time
}

// Usage is how much data of a profile is used, in bytes.
type Usage struct {
	Used int64
	// Total is zero when the data is unlimited.
	Total int64
	// MeasuredAt is when the supplier measured it; zero when it does not say. Suppliers may be hours behind.
	MeasuredAt time.Time
}

// ProfileStatus is the status of a profile at its supplier.
type ProfileStatus string

// The statuses. What an adapter does not recognise is ProfileUnknown.
const (
	ProfileNotInstalled ProfileStatus = "not_installed"
	ProfileInstalled    ProfileStatus = "installed"
	ProfileActive       ProfileStatus = "active"
	ProfileUsedUp       ProfileStatus = "used_up"
	ProfileExpired      ProfileStatus = "expired"
	ProfileCancelled    ProfileStatus = "cancelled"
	ProfileUnknown      ProfileStatus = "unknown"
)

// ProfileStatuses lists every status.
func ProfileStatuses() []ProfileStatus {
	return []ProfileStatus{
		ProfileNotInstalled, ProfileInstalled, ProfileActive, ProfileUsedUp, ProfileExpired, ProfileCancelled, ProfileUnknown,
	}
}

// Condition is how the profile of an order stands.
type Condition struct {
	State
	// ReadAt is when the supplier was asked.
	ReadAt time.Time
}

// ConditionTTL is how long a condition is cached.
const ConditionTTL = time.Minute

const (
	// conditionErrorTTL is how long the lack of an answer is cached.
	conditionErrorTTL = 10 * time.Second
	// maxConditions bounds the cached conditions of a process, and maxReads its calls at one time: purchases share the
	// supplier's rate limit.
	maxConditions = 4096
	maxReads      = 2
)

// Condition reads how the profile of an order stands. The caller checks who may see it. However often it is called, the
// supplier is asked at most once in ConditionTTL about an order by each process.
func (e *Esims) Condition(ctx context.Context, o order.Order) (Condition, error) {
	p, err := e.made(ctx, o)
	switch {
	case err != nil:
		return Condition{}, err
	case p.Status == Cancelled:
		return Condition{State: State{Status: ProfileCancelled}, ReadAt: p.UpdatedAt}, nil
	}
	at, err := e.at(p.Provider)
	if err != nil {
		return Condition{}, err
	}
	if !at.Capabilities.Status || at.Controls == nil {
		return Condition{}, controlMissing()
	}
	c, err := e.conditions.GetOrPut(o.ID, func() *availability.Memo[Condition] {
		return availability.NewMemo(availability.MemoConfig[Condition]{
			Read: func(ctx context.Context) (Condition, error) { return e.readCondition(ctx, at, p) },
			TTL:  ConditionTTL, ErrorTTL: conditionErrorTTL, Timeout: e.timeout(at), Now: e.Now,
		})
	}).Get(ctx)
	if err != nil {
		return Condition{}, fmt.Errorf("read the profile's state: %w", err)
	}
	return c, nil
}

func (e *Esims) readCondition(ctx context.Context, at *provider, p Profile) (Condition, error) {
	select {
	case e.reading <- struct{}{}:
		defer func() { <-e.reading }()
	case <-ctx.Done():
		return Condition{}, supplierDown()
	}
	held, err := e.held(ctx, p)
	if err != nil {
		return Condition{}, err
	}
	if n, ok := at.Controls.(EventNamer); ok {
		e.named.Put(path.Join(at.Name, n.EventName(held)), p.Order)
	}
	asked := e.Now().UTC()
	state, err := at.Controls.State(ctx, held)
	if err != nil {
		return Condition{}, fmt.Errorf("ask the supplier: %w", errors.Join(err, supplierDown()))
	}
	if !at.Capabilities.Usage {
		state.Usage = nil
	}
	return Condition{State: state, ReadAt: asked}, nil
}

// Refresh makes the profiles be read again that a supplier's event names, by this process. The others do so within
// ConditionTTL.
func (e *Esims) Refresh(provider string, names []string) {
	for _, name := range names {
		if id, known := e.named.Get(path.Join(provider, name)); known {
			e.conditions.Delete(id)
			e.topups.Delete(id)
		}
	}
}

// held is a ready profile, as its supplier knows it.
func (e *Esims) held(ctx context.Context, p Profile) (Held, error) {
	plan, err := e.Store.Plan(ctx, p.Plan)
	if err != nil {
		return Held{}, fmt.Errorf("find the plan: %w", err)
	}
	m, err := e.Keys.Open(p.Order, p.ActivationData)
	if err != nil {
		return Held{}, err
	}
	return Held{ID: p.Account, Code: plan.Code, ICCID: m.ICCID, Cost: p.Cost}, nil
}

// delivered finds the ready profile of a fulfilled order. One that was given back is an esim_cancelled.
func (e *Esims) delivered(ctx context.Context, o order.Order) (Profile, error) {
	p, err := e.made(ctx, o)
	if err == nil && p.Status == Cancelled {
		err = fault.New(fault.EsimCancelled, "The eSIM was cancelled.").About(string(o.ID))
	}
	return p, err
}

// made finds the profile of a fulfilled order, ready or given back.
func (e *Esims) made(ctx context.Context, o order.Order) (Profile, error) {
	notYet := fault.New(fault.OrderNotFulfilled,
		"The eSIM is not ready yet. Follow the order until it is fulfilled.").About(string(o.ID))
	switch o.Status {
	case order.Fulfilled:
	case order.Refunded, order.Expired:
		return Profile{}, fault.Newf(fault.OrderNotFulfilled, "The order is %s and has no eSIM.", o.Status).
			About(string(o.ID)).Final()
	case order.RefundPending:
		return Profile{}, fault.New(fault.OrderNotFulfilled, "The order has no eSIM. Its payment is being sent back.").
			About(string(o.ID))
	default:
		return Profile{}, notYet
	}
	found, err := e.Store.Profiles(ctx, o.ID)
	if err != nil {
		return Profile{}, fmt.Errorf("find the profile: %w", err)
	}
	p, ok := found[o.ID]
	if !ok || p.Status != Ready && p.Status != Cancelled {
		return Profile{}, fault.New(fault.OrderNotFulfilled, "The order was delivered by hand: its eSIM is not known here.").
			About(string(o.ID)).Final()
	}
	return p, nil
}

func controlMissing() *fault.Fault {
	return fault.New(fault.EsimControlMissing, "The supplier of the service's eSIMs does not offer this.")
}
