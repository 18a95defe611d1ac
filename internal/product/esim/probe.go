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
	// probeTTL is how long an answer of the supplier does for unpaid requests, and that it gave none.
	probeTTL = 2 * time.Second
	// probePlans is how many plans the supplier is asked about until it sells one.
	probePlans = 3
)

// answers fails while the supplier does not answer what a purchase would ask it.
func (e *Esims) answers(ctx context.Context) error {
	_, err := e.free(ctx)
	return err
}

// affordsAny fails while the supplier's float does not cover the cheapest plan. A supplier that does not answer is
// what answers tells.
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

// afford fails while the supplier does not answer, or has less left of our money, beyond what live orders hold,
// than a plan costs.
func (e *Esims) afford(ctx context.Context, cost money.USDC) error {
	free, err := e.free(ctx)
	if err != nil {
		return fmt.Errorf("look at the supplier: %w", errors.Join(err, supplierDown()))
	}
	if free < cost {
		return fault.New(fault.FloatUnavailable, noFloat)
	}
	return nil
}

// free is what is left with the supplier and promised to nobody, as it was a moment ago.
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
			return 0, fmt.Errorf("sum the held float: %w", err)
		}
		return stock.Float - money.USDC(held), nil
	}
	if len(on.plans) == 0 {
		return 0, errors.New("no plan to ask the supplier about")
	}
	// It answers, and sells none of these any more; the claim asks about the plan itself.
	return math.MaxInt64, nil
}
