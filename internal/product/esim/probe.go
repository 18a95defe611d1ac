package esim

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// answers fails while the supplier does not answer the call that a purchase makes.
func (e *Esims) answers(ctx context.Context) error {
	_, err := e.free(ctx)
	return err
}

// affordsAny fails while the supplier's float does not cover the cheapest plan. It does not fail when the supplier does
// not answer, which answers reports.
func (e *Esims) affordsAny(ctx context.Context) error {
	on, err := e.catalogue(ctx)
	if err != nil || len(on.plans) == 0 {
		return err
	}
	if free, err := e.free(ctx); err == nil && free < on.plans[0].Cost {
		return fault.New(fault.FloatUnavailable, noFloat)
	}
	return nil
}

// afford fails while the supplier does not answer, or the unreserved float is smaller than a plan's cost.
func (e *Esims) afford(ctx context.Context, cost money.USDC) error {
	free, err := e.free(ctx)
	if err != nil {
		return fmt.Errorf("read the float: %w", errors.Join(err, supplierDown()))
	}
	if free < cost {
		return fault.New(fault.FloatUnavailable, noFloat)
	}
	return nil
}

// free is the unreserved float at the supplier, cached.
func (e *Esims) free(ctx context.Context) (money.USDC, error) { return e.probe.Get(ctx) }

func (e *Esims) ask(ctx context.Context) (money.USDC, error) {
	on, err := e.catalogue(ctx)
	if err != nil {
		return 0, err
	}
	// As of our clock before the call, as for a claim.
	asOf := e.Now().Add(-clockSkew)
	for _, plan := range on.plans[:min(len(on.plans), probePlans)] {
		stock, err := e.Supplier.Check(ctx, plan.Code)
		if errors.Is(err, ErrNoPlan) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("ask the supplier: %w", err)
		}
		held, err := e.Store.Reserved(ctx, floatResource, asOf)
		if err != nil {
			return 0, fmt.Errorf("sum the reserved float: %w", err)
		}
		return stock.Float - money.USDC(held), nil
	}
	if len(on.plans) == 0 {
		return 0, errors.New("no plan to ask the supplier about")
	}
	// It answers, and no longer sells any of these; the claim asks for the plan itself.
	return math.MaxInt64, nil
}
