package esim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/jitter"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
)

// planLost is the progress of an order that was claimed by who had read its plan before the database was put back.
func planLost() order.Progress {
	return order.Progress{State: order.Doubtful, Reason: "the plan is not there"}
}

// Deliver implements settlement.Product: it takes the next possible step in the delivery of an eSIM. It may be called
// any number of times.
func (e *Esims) Deliver(ctx context.Context, l *job.Lease, o order.Order) (order.Progress, error) {
	item, err := ItemOf(o)
	if err != nil {
		return order.Progress{}, err
	}
	plan, err := e.Store.Plan(ctx, item.Plan)
	if errors.Is(err, ErrNotFound) {
		return planLost(), nil
	}
	if err != nil {
		return order.Progress{}, fmt.Errorf("find the plan: %w", err)
	}
	at, err := e.at(plan.Provider)
	if errors.Is(err, errNotConfigured) {
		return e.anyProvider().Elsewhere(plan.Provider, o.UpdatedAt), nil
	}
	now := e.Now()
	p, err := e.Store.Reserve(ctx, l.Fence(), Profile{
		ID: uuid.Must(uuid.NewV7()), Order: o.ID, Plan: plan.ID, Provider: at.Name, Status: Ordered,
		Ref:       OrderRef(o.Name(), o.Delivery),
		CreatedAt: now, UpdatedAt: now,
	})
	if err != nil {
		return order.Progress{}, fmt.Errorf("reserve the profile: %w", err)
	}
	faultpoint.Reach("esim.reserved")
	attempt := e.attempt(at, o, p)
	switch p.Status {
	case Ready, Cancelled:
		return attempt.Delivered(ready), nil
	case Failed:
		return order.Progress{
			State: order.Refused, Reason: "the supplier refused the eSIM", Evidence: attempt.Evidence,
		}, nil
	case Ordered:
	}
	got, err := fulfilment.Make(ctx, l, e.provider(at), ordering(at, o, p, plan))
	if err != nil {
		return order.Progress{}, fmt.Errorf("order the eSIM: %w", err)
	}
	switch got.Kind {
	case fulfilment.Known:
		return e.ordered(ctx, l, attempt, p, plan, got.Record)
	case fulfilment.Refused:
		return e.refuse(ctx, l, attempt, p, got.Refusal)
	case fulfilment.Untraceable:
		return attempt.Untraceable(), nil
	case fulfilment.Unknown:
	}
	return attempt.Pending(), nil
}

// ordering is the call to the supplier, which charges us.
func ordering(at *provider, o order.Order, p Profile, plan Plan) fulfilment.Call[Purchase] {
	return fulfilment.Call[Purchase]{
		Step: orders.Marker(o.Delivery),
		Send: func(ctx context.Context) (Purchase, error) {
			if err := faultpoint.Fail("supplier.before_order"); err != nil {
				return Purchase{}, err
			}
			got, err := at.Supplier.Order(ctx, Request{
				Ref: p.Ref, Code: plan.Code, MaxCost: o.Price.USDC(), Buyer: order.BuyerOf(o.Owner),
			})
			return got, errors.Join(err, faultpoint.Fail("supplier.after_order"))
		},
		Read: func(ctx context.Context) (Purchase, error) { return at.Supplier.Ordered(ctx, p.Ref) },
	}
}

// ordered acts on the supplier's record of the order.
func (e *Esims) ordered(
	ctx context.Context, l *job.Lease, attempt fulfilment.Attempt, p Profile, plan Plan, got Purchase,
) (order.Progress, error) {
	switch got.State {
	case PurchaseReady:
		if got.Code != plan.Code {
			return attempt.Doubtful(anotherPlan), nil
		}
		return e.install(ctx, l, attempt, p, got)
	case PurchaseRejected:
		return e.refuse(ctx, l, attempt, p, got.Refusal)
	case PurchasePending:
	}
	return attempt.Pending(), nil
}

// anotherPlan is a purchase that was made before, for an order of the same key that asked for another plan and was
// lost.
const anotherPlan = "the supplier has another plan under this reference"

// install stores the encrypted activation data, which completes the delivery.
func (e *Esims) install(
	ctx context.Context, l *job.Lease, attempt fulfilment.Attempt, p Profile, got Purchase,
) (order.Progress, error) {
	sealed, err := e.Keys.Seal(p.Order, *got.ActivationData)
	if err != nil {
		return order.Progress{}, err
	}
	p.Status, p.Account, p.Cost, p.ActivationData = Ready, got.ID, max(got.Cost, 0), sealed
	if err := e.Store.Install(ctx, l.Fence(), p, p.Postings()); err != nil {
		return order.Progress{}, fmt.Errorf("store the eSIM: %w", err)
	}
	faultpoint.Reach("esim.installed")
	return attempt.Delivered(ready), nil
}

// Postings implements settlement.Product. The cost is posted when the eSIM is made, independently of its order.
func (e *Esims) Postings(o order.Order) ([]ledger.Posting, error) {
	return []ledger.Posting{ledger.Sold(string(o.ID), o.Price, ledger.EsimRevenue)}, nil
}

const ready = "eSIM ready"

// attempt is the current attempt at the delivery of a profile.
func (e *Esims) attempt(at *provider, o order.Order, p Profile) fulfilment.Attempt {
	return fulfilment.Attempt{
		Provider: e.provider(at), Since: o.UpdatedAt,
		Evidence: map[string]string{"profile": p.ID.String(), "reference": p.Ref.String()},
		NoTrace:  "the supplier shows no trace of the order",
		TooLong:  "for too long the supplier did not say that the eSIM is there",
	}
}

func (e *Esims) refuse(
	ctx context.Context, l *job.Lease, attempt fulfilment.Attempt, p Profile, refusal *fulfilment.Refusal,
) (order.Progress, error) {
	if err := e.Store.Fail(ctx, l.Fence(), p.ID); err != nil {
		return order.Progress{}, fmt.Errorf("fail the profile: %w", err)
	}
	return attempt.Refused(refusal), nil
}

// Await waits until an order's delivery has ended, or until a time, and returns the order as it is then. It holds no
// database connection. When enough calls wait for this order, or for any, it returns at once. The delivery does not
// depend on it.
func (e *Esims) Await(ctx context.Context, o order.Order, until time.Time) order.Order {
	return e.await(ctx, o, until, e.Store.Order)
}

func (e *Esims) await(
	ctx context.Context, o order.Order, until time.Time, read func(context.Context, order.ID) (order.Order, error),
) order.Order {
	if !o.Status.Open() {
		return o
	}
	leave, err := e.Limits.Enter(limit.Waiting, string(o.ID))
	if err != nil {
		return o
	}
	defer leave()
	select {
	case e.waiting <- struct{}{}:
		defer func() { <-e.waiting }()
	default:
		return o
	}
	began, outcome := e.Now(), "ended"
	o = e.watch(ctx, o, until, read)
	switch {
	case o.Status == order.Fulfilled:
		outcome = "delivered"
	case o.Status.Open():
		outcome = "pending"
	}
	e.Metrics.Waited(ctx, outcome, e.Now().Sub(began))
	return o
}

func (e *Esims) watch(
	ctx context.Context, o order.Order, until time.Time, read func(context.Context, order.ID) (order.Order, error),
) order.Order {
	wake, stop := e.Store.Watch(o.ID)
	defer stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for looked := false; ; looked = true {
		select {
		case <-wake:
		case <-timer.C:
			// At the end the order is not read again: a change would have woken us, and thousands may end at once.
			if looked && !e.Now().Before(until) {
				return o
			}
		case <-ctx.Done():
			return o
		}
		// A failed read does not matter: the payment is proven, and the next read may succeed.
		if now, err := read(ctx, o.ID); err == nil {
			o = now
		}
		left := until.Sub(e.Now())
		if left <= 0 || !o.Status.Open() {
			return o
		}
		timer.Reset(min(left, lookEvery/2+jitter.Below(lookEvery)))
	}
}

// lookEvery is the average polling interval of a waiting request.
const lookEvery = 5 * time.Second
