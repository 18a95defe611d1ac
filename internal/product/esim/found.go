package esim

import (
	"context"
	"errors"
	"fmt"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/order"
)

// Found implements checkout.Finder: the supplier has an order under the order's reference, for the same plan. Of a plan
// that was lost with a database nobody can say it.
func (e *Esims) Found(ctx context.Context, o order.Order) (bool, error) {
	item, err := ItemOf(o)
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
	at, err := e.at(plan.Provider)
	if err != nil {
		return false, err
	}
	ctx, cancel := fault.Within(ctx, e.timeout(at))
	defer cancel()
	got, err := at.Supplier.Ordered(ctx, OrderRef(o.Name(), o.Delivery))
	if errors.Is(err, fulfilment.ErrNoRef) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask the supplier: %w", errors.Join(err, supplierDown()))
	}
	return got.Code == plan.Code, nil
}
