package esim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/roamcard/roamcard/internal/limit"
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
	selling, wrong := e.onSale(ctx)
	for _, p := range selling {
		_, err := p.funds.Get(ctx)
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
	selling, short := e.onSale(ctx)
	for _, p := range selling {
		cheapest := slices.IndexFunc(on.plans, func(plan Plan) bool { return plan.Provider == p.Name })
		if cheapest < 0 {
			continue
		}
		has, err := p.funds.Get(ctx)
		if err != nil {
			continue
		}
		why := has.covers(on.plans[cheapest].Cost)
		if why == nil {
			return nil
		}
		short = cmp.Or(short, why)
	}
	return short
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
	has, err := at.funds.Get(ctx)
	if err != nil {
		return fmt.Errorf("read the float: %w", errors.Join(err, supplierDown()))
	}
	return has.covers(plan.Cost)
}

// ask reads the float at a supplier, and what orders have reserved of it.
func (e *Esims) ask(ctx context.Context, p *provider) (funds, error) {
	on, err := e.catalogue(ctx)
	if err != nil {
		return funds{}, err
	}
	plans := slices.DeleteFunc(slices.Clone(on.plans), func(plan Plan) bool { return plan.Provider != p.Name })
	// As of our clock before the call, as for a claim.
	asOf := e.Now().Add(-clockSkew)
	sale := limit.WithUse(ctx, limit.ForSale) // whoever happens to ask: what is read is shared with sales
	for _, plan := range plans[:min(len(plans), probePlans)] {
		stock, err := p.Supplier.Check(sale, plan.Code)
		if errors.Is(err, ErrNoPlan) {
			continue
		}
		if err != nil {
			return funds{}, fmt.Errorf("ask the supplier: %w", err)
		}
		held, err := e.Store.Reserved(ctx, p.resource(), asOf)
		if err != nil {
			return funds{}, fmt.Errorf("sum the reserved float: %w", err)
		}
		has := funds{all: stock.Float, reserved: money.USDC(held), asOf: asOf}
		if dearest := plans[len(plans)-1].Cost; has.free() < dearest {
			unpaid, err := e.Store.Unpaid(ctx, p.resource())
			if err != nil {
				return funds{}, fmt.Errorf("sum what is not paid: %w", err)
			}
			has.unpaid = money.USDC(unpaid)
		}
		return has, nil
	}
	if len(plans) == 0 {
		return funds{}, errors.New("no plan to ask the supplier about")
	}
	// It answers, and no longer sells any of these; the claim asks for the plan itself.
	return funds{all: math.MaxInt64, asOf: asOf}, nil
}
