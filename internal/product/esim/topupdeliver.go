package esim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
)

// TopupStep is the order at the supplier in a delivery of more data.
const TopupStep = "esim_topup"

var topups = fulfilment.Series{
	Namespace: uuid.MustParse("c1f0a1de-5f0e-5f5b-8a1f-2f6f5d8c7b90"), Name: "topup", Step: TopupStep,
}

// TopupRef is the reference of an attempt at more data at the supplier, by the order's name.
func TopupRef(name string, attempt int) fulfilment.Ref { return topups.Ref(name, attempt) }

// References are the supplier's references of an order's data, one for each attempt at its delivery.
func (t *Topups) References(o order.Order) []order.Reference { return topups.References(o) }

const added = "data added"

// adding is one delivery of more data.
type adding struct {
	*Topups
	target
	order   order.Order
	plan    Plan
	held    Held
	row     Topup
	attempt fulfilment.Attempt
}

// Deliver implements settlement.Product: it takes the next possible step in adding data to an eSIM. It may be called
// any number of times.
func (t *Topups) Deliver(ctx context.Context, l *job.Lease, o order.Order) (order.Progress, error) {
	e := t.Esims
	item, err := TopupItemOf(o)
	if err != nil {
		return order.Progress{}, err
	}
	of, err := e.Store.Order(ctx, item.Esim)
	if errors.Is(err, ErrNotFound) {
		return order.Progress{State: order.Doubtful, Reason: "the order of the eSIM is not there"}, nil
	}
	if err != nil {
		return order.Progress{}, fmt.Errorf("find the eSIM's order: %w", err)
	}
	p, err := e.made(ctx, of)
	if err != nil {
		return order.Progress{}, err
	}
	at, err := e.at(p.Provider)
	if errors.Is(err, errNotConfigured) {
		return e.anyProvider().Elsewhere(p.Provider, o.UpdatedAt), nil
	}
	if at.Topper == nil {
		return order.Progress{State: order.Doubtful, Reason: "the supplier " + p.Provider + " adds no data"}, nil
	}
	plan, err := e.Store.Plan(ctx, item.Plan)
	if errors.Is(err, ErrNotFound) {
		return planLost(), nil
	}
	if err != nil {
		return order.Progress{}, fmt.Errorf("find the plan: %w", err)
	}
	return t.deliver(ctx, l, adding{Topups: t, target: target{p, at}, order: o, plan: plan})
}

func (t *Topups) deliver(ctx context.Context, l *job.Lease, a adding) (order.Progress, error) {
	now, ref := t.Esims.Now(), TopupRef(a.order.Name(), a.order.Delivery)
	a.attempt = fulfilment.Attempt{
		Provider: t.Esims.provider(a.at), Since: a.order.UpdatedAt,
		Evidence: map[string]string{"profile": a.profile.ID.String(), "reference": ref.String()},
		NoTrace:  "the supplier shows no trace of the order",
		TooLong:  "for too long the supplier did not say that the data is there",
	}
	row, err := t.Store.ReserveTopup(ctx, l.Fence(), Topup{
		ID: uuid.Must(uuid.NewV7()), Order: a.order.ID, Profile: a.profile.ID, Plan: a.plan.ID, Provider: a.at.Name,
		Status: Ordered, Ref: ref, CreatedAt: now, UpdatedAt: now,
	})
	if errors.Is(err, ErrCancelling) {
		return a.attempt.Refused(&fulfilment.Refusal{Code: RefusedProfile, Message: "the eSIM is being given back"}), nil
	}
	if err != nil {
		return order.Progress{}, fmt.Errorf("reserve the top-up: %w", err)
	}
	a.row = row
	faultpoint.Reach("extend.reserved")
	switch row.Status {
	case Ready:
		return a.attempt.Delivered(added), nil
	case Failed:
		return order.Progress{
			State: order.Refused, Reason: "the supplier refused the top-up", Evidence: a.attempt.Evidence,
		}, nil
	case Ordered, Cancelled:
	}
	if a.held, err = t.Esims.held(ctx, a.profile); err != nil {
		return order.Progress{}, err
	}
	got, err := fulfilment.Make(ctx, l, t.Esims.provider(a.at), a.call())
	if err != nil {
		return order.Progress{}, fmt.Errorf("top the eSIM up: %w", err)
	}
	switch got.Kind {
	case fulfilment.Known:
		return a.known(ctx, l, got.Record)
	case fulfilment.Refused:
		return a.refuse(ctx, l, got.Refusal)
	case fulfilment.Untraceable:
		return a.attempt.Untraceable(), nil
	case fulfilment.Unknown:
	}
	return a.attempt.Pending(), nil
}

// call is the call to the supplier, which charges us.
func (a adding) call() fulfilment.Call[Purchase] {
	return fulfilment.Call[Purchase]{
		Step: topups.Marker(a.order.Delivery),
		Send: func(ctx context.Context) (Purchase, error) {
			if err := faultpoint.Fail("extend.before_send"); err != nil {
				return Purchase{}, err
			}
			got, err := a.at.Topper.TopUp(ctx, TopUpRequest{
				Request: Request{
					Ref: a.row.Ref, Code: a.plan.Code, MaxCost: a.order.Price.USDC(), Buyer: order.BuyerOf(a.order.Owner),
				},
				Held: a.held,
			})
			return got, errors.Join(err, faultpoint.Fail("extend.after_send"))
		},
		Read: func(ctx context.Context) (Purchase, error) { return a.at.Topper.ToppedUp(ctx, a.held, a.row.Ref) },
	}
}

// known acts on the supplier's record of the top-up.
func (a adding) known(ctx context.Context, l *job.Lease, got Purchase) (order.Progress, error) {
	switch got.State {
	case PurchaseReady:
		if got.Code != a.plan.Code {
			return a.attempt.Doubtful(anotherPlan), nil
		}
	case PurchaseRejected:
		return a.refuse(ctx, l, got.Refusal)
	default:
		return a.attempt.Pending(), nil
	}
	row := a.row
	row.Status, row.Account, row.Cost = Ready, got.ID, max(got.Cost, 0)
	if err := a.Store.CompleteTopup(ctx, l.Fence(), row, row.Postings()); err != nil {
		return order.Progress{}, fmt.Errorf("store the top-up: %w", err)
	}
	a.Esims.conditions.Delete(a.profile.Order)
	faultpoint.Reach("extend.stored")
	return a.attempt.Delivered(added), nil
}

func (a adding) refuse(ctx context.Context, l *job.Lease, no *fulfilment.Refusal) (order.Progress, error) {
	if err := a.Store.FailTopup(ctx, l.Fence(), a.row.ID); err != nil {
		return order.Progress{}, fmt.Errorf("fail the top-up: %w", err)
	}
	a.Esims.topups.Delete(a.profile.Order)
	return a.attempt.Refused(no), nil
}

// Postings implements settlement.Product. The cost is posted when the data is added, independently of its order.
func (t *Topups) Postings(o order.Order) ([]ledger.Posting, error) {
	return []ledger.Posting{ledger.Sold(string(o.ID), o.Price, ledger.EsimRevenue)}, nil
}

// Await waits for the delivery of more data, as Esims.Await does for an eSIM.
func (t *Topups) Await(ctx context.Context, o order.Order, until time.Time) order.Order {
	return t.Esims.await(ctx, o, until, t.Store.TopupOrder)
}

// Found implements checkout.Finder: the supplier has added the order's plan to the eSIM under the order's reference.
func (t *Topups) Found(ctx context.Context, o order.Order) (bool, error) {
	e := t.Esims
	item, err := TopupItemOf(o)
	if err != nil {
		return false, err
	}
	plan, err := e.Store.Plan(ctx, item.Plan)
	if errors.Is(err, ErrNotFound) {
		return false, planGone()
	}
	if err != nil {
		return false, fmt.Errorf("find the plan: %w", err)
	}
	of, err := e.Store.Order(ctx, item.Esim)
	if err != nil {
		return false, fmt.Errorf("find the eSIM's order: %w", err)
	}
	on, err := t.target(ctx, of)
	if err != nil {
		return false, err
	}
	held, err := e.held(ctx, on.profile)
	if err != nil {
		return false, err
	}
	ctx, cancel := fault.Within(ctx, e.timeout(on.at))
	defer cancel()
	got, err := on.at.Topper.ToppedUp(ctx, held, TopupRef(o.Name(), o.Delivery))
	if errors.Is(err, fulfilment.ErrNoRef) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask the supplier: %w", errors.Join(err, supplierDown()))
	}
	return got.Code == plan.Code, nil
}
