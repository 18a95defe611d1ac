package esim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
)

// Try asks a supplier for what costs nothing, and orders its cheapest plan when that costs at most spend. Where the
// supplier adds data to profiles, it adds the cheapest to that one for what is left of spend. It compares what the
// supplier does with what eSIMs are sold by. What it buys is paid for and given to nobody.
func Try(
	ctx context.Context, at Supplier, traits fulfilment.Traits, spend money.USDC, callTimeout time.Duration,
) []fulfilment.Observed {
	t := &trial{
		Trial:    fulfilment.Trial{CallTimeout: callTimeout, Deadline: traits.VisibilityDelay + 2*time.Minute},
		supplier: at, once: traits.Deduplicates,
	}
	if t.catalogue(ctx) {
		t.unknown(ctx)
		t.guarded(ctx)
		if t.stock.Cost > spend {
			t.Skip("orders a profile", fmt.Sprintf("it costs %s; give --spend to buy one", t.stock.Cost.Dollars()))
		} else if t.order(ctx) {
			t.orderAgain(ctx)
			t.extend(ctx, spend-t.bought.Cost)
		}
	}
	return t.Found
}

// trial is one trial of a supplier.
type trial struct {
	fulfilment.Trial
	supplier Supplier
	// once: the supplier deduplicates. Nothing is sent twice to another.
	once    bool
	stock   Stock
	request Request
	bought  Purchase
}

// catalogue chooses the cheapest plan that is in stock.
func (t *trial) catalogue(ctx context.Context) bool {
	listed, err := fulfilment.TrialCall(ctx, &t.Trial, t.supplier.Listings)
	if !t.Saw("lists plans", fmt.Sprintf("%d plans", len(listed)), err) {
		return false
	}
	cheapest := cheapest(listed)
	if cheapest == nil {
		return t.Saw("checks a plan", "", errors.New("no plan is in stock"))
	}
	t.request = Request{Ref: fulfilment.NewTrialRef(), Code: cheapest.Code}
	t.stock, err = fulfilment.TrialCall(ctx, &t.Trial, func(ctx context.Context) (Stock, error) {
		return t.supplier.Check(ctx, cheapest.Code)
	})
	t.request.MaxCost = t.stock.Cost
	if err == nil && t.stock.Cost != cheapest.Cost {
		err = fmt.Errorf("it costs %s, and %s in the catalogue", t.stock.Cost.Dollars(), cheapest.Cost.Dollars())
	}
	return t.Saw("checks a plan", fmt.Sprintf("%s costs %s", cheapest.Code, t.stock.Cost.Dollars()), err)
}

// cheapest is the cheapest plan that is in stock; nil without one.
func cheapest(listed []Listing) (found *Listing) {
	for i, l := range listed {
		if l.InStock && (found == nil || l.Cost < found.Cost) {
			found = &listed[i]
		}
	}
	return found
}

// unknown asks for a plan that there is not, and for a reference that nothing was sent under.
func (t *trial) unknown(ctx context.Context) {
	_, err := fulfilment.TrialCall(ctx, &t.Trial, func(ctx context.Context) (Stock, error) {
		return t.supplier.Check(ctx, "roamcard-no-such-plan")
	})
	t.SawAbsent("knows no plan that there is not", "no such plan", err, ErrNoPlan)
	_, err = fulfilment.TrialCall(ctx, &t.Trial, func(ctx context.Context) (Purchase, error) {
		return t.supplier.Ordered(ctx, fulfilment.NewTrialRef())
	})
	t.SawAbsent("knows no reference that was not sent", "no such reference", err, fulfilment.ErrNoRef)
}

// guarded orders for less than a plan costs, which must not be made.
func (t *trial) guarded(ctx context.Context) {
	const step = "refuses an order for less than it costs"
	cheap := Request{Ref: fulfilment.NewTrialRef(), Code: t.request.Code, MaxCost: 1}
	made, err := t.send(ctx, cheap)
	no, refused := errors.AsType[*fulfilment.Refusal](err)
	switch {
	case refused:
		t.Saw(step, "as "+no.Code, nil)
	case err == nil && made.State == PurchaseRejected:
		t.Saw(step, "as "+made.Refusal.Stated().Code, nil)
	case err == nil:
		t.Saw(step, "", errors.New("it takes the order"))
	case errors.Is(err, fulfilment.ErrNotSent):
		t.Saw(step, "it is not sent", nil)
	default:
		t.Saw(step, "", fmt.Errorf("it is not clear whether it takes the order: %w", err))
	}
}

func (t *trial) send(ctx context.Context, r Request) (Purchase, error) {
	return fulfilment.TrialCall(ctx, &t.Trial, func(ctx context.Context) (Purchase, error) {
		return t.supplier.Order(ctx, r)
	})
}

func (t *trial) order(ctx context.Context) bool {
	const step = "orders a profile"
	if _, err := t.send(ctx, t.request); err != nil {
		return t.Saw(step, "", err)
	}
	read := func(ctx context.Context) (Purchase, error) { return t.supplier.Ordered(ctx, t.request.Ref) }
	got, took, err := fulfilment.TrialWait(ctx, &t.Trial, read,
		func(p Purchase) bool { return p.State != PurchasePending })
	switch {
	case err != nil:
	case got.State == PurchaseRejected:
		err = got.Refusal.Stated()
	case got.Cost != t.stock.Cost:
		err = fmt.Errorf("it took %s for what costs %s", got.Cost.Dollars(), t.stock.Cost.Dollars())
	case got.ActivationData == nil:
		err = errors.New("it has no activation data")
	}
	t.bought = got
	return t.Saw(step, fmt.Sprintf("found by its reference, ready after %s", took), err)
}

// orderAgain sends the reference of the order again, as it is sent after an answer that was lost.
func (t *trial) orderAgain(ctx context.Context) {
	const step = "orders once when asked twice"
	if !t.once {
		t.Skip(step, "it does not deduplicate, and is never asked twice")
		return
	}
	again, err := t.send(ctx, t.request)
	if err == nil && again.ID != t.bought.ID {
		err = errors.New("it makes a second order")
	}
	t.Saw(step, "the same order", err)
}

// extend adds the cheapest data that the profile takes, for at most so much.
func (t *trial) extend(ctx context.Context, spend money.USDC) {
	const step = "adds data to a profile"
	at, adds := t.supplier.(Topper)
	if !adds {
		return
	}
	held := Held{ID: t.bought.ID, Code: t.request.Code, ICCID: t.bought.ActivationData.ICCID, Cost: t.bought.Cost}
	stock, r, err := t.addable(ctx, at, held)
	switch {
	case err != nil:
		t.Saw(step, "", err)
		return
	case r.Code == "":
		t.Skip(step, "the profile takes no plan")
		return
	case stock.Cost > spend:
		t.Skip(step, fmt.Sprintf("it costs %s more; give --spend to buy it", stock.Cost.Dollars()))
		return
	}
	add := func(ctx context.Context) (Purchase, error) { return at.TopUp(ctx, r) }
	read := func(ctx context.Context) (Purchase, error) { return at.ToppedUp(ctx, held, r.Ref) }
	if _, err := fulfilment.TrialCall(ctx, &t.Trial, add); err != nil {
		t.Saw(step, "", err)
		return
	}
	got, took, err := fulfilment.TrialWait(ctx, &t.Trial, read,
		func(p Purchase) bool { return p.State != PurchasePending })
	switch {
	case err != nil:
	case got.State == PurchaseRejected:
		err = got.Refusal.Stated()
	case got.Cost != stock.Cost:
		err = fmt.Errorf("it took %s for what costs %s", got.Cost.Dollars(), stock.Cost.Dollars())
	}
	if t.Saw(step, fmt.Sprintf("found by its reference after %s", took), err) {
		t.extendAgain(ctx, add, got)
	}
}

// addable is what it costs to add the cheapest plan to a profile, and the request for it; without a code when the
// profile takes none.
func (t *trial) addable(ctx context.Context, at Topper, held Held) (stock Stock, r TopUpRequest, err error) {
	listed, err := fulfilment.TrialCall(ctx, &t.Trial, func(ctx context.Context) ([]Listing, error) {
		return at.Topups(ctx, held)
	})
	cheapest := cheapest(listed)
	if err != nil || cheapest == nil {
		return Stock{}, TopUpRequest{}, err
	}
	stock, err = fulfilment.TrialCall(ctx, &t.Trial, func(ctx context.Context) (Stock, error) {
		return at.CheckTopup(ctx, held, cheapest.Code)
	})
	if err == nil && stock.Cost != cheapest.Cost {
		err = fmt.Errorf("it costs %s, and %s in the list", stock.Cost.Dollars(), cheapest.Cost.Dollars())
	}
	return stock, TopUpRequest{
		Request: Request{Ref: fulfilment.NewTrialRef(), Code: cheapest.Code, MaxCost: stock.Cost}, Held: held,
	}, err
}

// extendAgain sends the reference of what was added again, as it is sent after an answer that was lost.
func (t *trial) extendAgain(
	ctx context.Context, add func(context.Context) (Purchase, error), added Purchase,
) {
	const step = "adds it once when asked twice"
	if !t.once {
		t.Skip(step, "it does not deduplicate, and is never asked twice")
		return
	}
	again, err := fulfilment.TrialCall(ctx, &t.Trial, add)
	if err == nil && again.ID != added.ID {
		err = errors.New("it adds the data twice")
	}
	t.Saw(step, "the same data", err)
}
