package esim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
)

const (
	// probeTTL is how long the supplier's answer, or the lack of one, is cached for unpaid requests.
	probeTTL = 2 * time.Second
	// probePlans is the largest number of plans that one probe asks for, until the supplier sells one.
	probePlans = 3
)

// answers fails while no supplier answers the call that a purchase makes.
func (e *Esims) answers(ctx context.Context) error {
	var wrong error
	for _, p := range e.onSale(ctx) {
		_, err := e.free(ctx, p)
		if err == nil {
			return nil
		}
		wrong = cmp.Or(wrong, err)
	}
	return wrong
}

// affordsAny fails while the float at no supplier covers its cheapest plan. It does not fail when the suppliers do not
// answer, which answers reports.
func (e *Esims) affordsAny(ctx context.Context) error {
	on, err := e.catalogue(ctx)
	if err != nil {
		return err
	}
	short := false
	for _, p := range e.onSale(ctx) {
		cheapest := slices.IndexFunc(on.plans, func(plan Plan) bool { return plan.Provider == p.Name })
		if cheapest < 0 {
			continue
		}
		free, err := e.free(ctx, p)
		if err == nil && free >= on.plans[cheapest].Cost {
			return nil
		}
		short = short || err == nil
	}
	if short {
		return fault.New(fault.FloatUnavailable, noFloat)
	}
	return nil
}

// afford fails while the supplier of a plan does not answer, or the unreserved float is smaller than the plan's cost.
func (e *Esims) afford(ctx context.Context, plan Plan) error {
	at, err := e.at(plan.Provider)
	if err != nil {
		return err
	}
	if err := e.sold(ctx, at); err != nil {
		return err
	}
	free, err := e.free(ctx, at)
	if err != nil {
		return fmt.Errorf("read the float: %w", errors.Join(err, supplierDown()))
	}
	if free < plan.Cost {
		return fault.New(fault.FloatUnavailable, noFloat)
	}
	return nil
}

// free is the unreserved float at a supplier, cached.
func (e *Esims) free(ctx context.Context, p *provider) (money.USDC, error) { return p.free.Get(ctx) }

func (e *Esims) ask(ctx context.Context, p *provider) (money.USDC, error) {
	on, err := e.catalogue(ctx)
	if err != nil {
		return 0, err
	}
	plans := slices.DeleteFunc(slices.Clone(on.plans), func(plan Plan) bool { return plan.Provider != p.Name })
	// As of our clock before the call, as for a claim.
	asOf := e.Now().Add(-clockSkew)
	for _, plan := range plans[:min(len(plans), probePlans)] {
		stock, err := p.Supplier.Check(ctx, plan.Code)
		if errors.Is(err, ErrNoPlan) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("ask the supplier: %w", err)
		}
		held, err := e.Store.Reserved(ctx, p.resource(), asOf)
		if err != nil {
			return 0, fmt.Errorf("sum the reserved float: %w", err)
		}
		return stock.Float - money.USDC(held), nil
	}
	if len(plans) == 0 {
		return 0, errors.New("no plan to ask the supplier about")
	}
	// It answers, and no longer sells any of these; the claim asks for the plan itself.
	return math.MaxInt64, nil
}
