package esim_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/esim/esimtest"
)

// unexpected is a supplier that does something else than its adapter takes for granted.
type unexpected struct {
	esim.Supplier
	order func(ctx context.Context, r esim.Request, ordered int) (esim.Purchase, error)
	check func(context.Context, string) (esim.Stock, error)

	ordered int
}

func (u *unexpected) Order(ctx context.Context, r esim.Request) (esim.Purchase, error) {
	u.ordered++
	if u.order != nil {
		return u.order(ctx, r, u.ordered)
	}
	return u.Supplier.Order(ctx, r)
}

func (u *unexpected) Check(ctx context.Context, code string) (esim.Stock, error) {
	if u.check != nil {
		return u.check(ctx, code)
	}
	return u.Supplier.Check(ctx, code)
}

func TestTrialFindsWhatSuppliersDoOtherwise(t *testing.T) {
	const costs money.USDC = 800_000
	for name, tc := range map[string]struct {
		does    func(*unexpected)
		spend   money.USDC
		wrong   []string
		orders  int
		skipped []string
	}{
		"as its adapter says": {spend: costs, orders: 3},
		"nothing to spend":    {spend: costs - 1, orders: 1, skipped: []string{"orders a profile"}},
		"a second profile for the same reference": {func(u *unexpected) {
			u.order = func(ctx context.Context, r esim.Request, ordered int) (esim.Purchase, error) {
				if ordered == 3 {
					r.Ref = fulfilment.Ref(uuid.New())
				}
				return u.Supplier.Order(ctx, r)
			}
		}, costs, []string{"orders once when asked twice"}, 3, nil},
		"no guard of the price": {func(u *unexpected) {
			u.order = func(ctx context.Context, r esim.Request, _ int) (esim.Purchase, error) {
				r.MaxCost = costs
				return u.Supplier.Order(ctx, r)
			}
		}, 0, []string{"refuses an order for less than it costs"}, 1, []string{"orders a profile"}},
		"every plan is sold": {func(u *unexpected) {
			u.check = func(context.Context, string) (esim.Stock, error) { return esim.Stock{Cost: costs}, nil }
		}, 0, []string{"knows no plan that there is not"}, 1, []string{"orders a profile"}},
		"another price than in the catalogue": {func(u *unexpected) {
			u.check = func(context.Context, string) (esim.Stock, error) { return esim.Stock{Cost: 1}, nil }
		}, costs, []string{"checks a plan"}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unexpected{Supplier: esimtest.NewSupplier(true, careful)}
			if tc.does != nil {
				tc.does(u)
			}
			wrong := map[string]bool{}
			var skipped []string
			for _, o := range esim.Try(t.Context(), u, careful, tc.spend, time.Minute) {
				if o.Err != nil {
					wrong[o.Step] = true
					t.Logf("%s: %v", o.Step, o.Err)
				}
				if o.Skipped {
					skipped = append(skipped, o.Step)
				}
			}
			if diff := cmp.Diff(tc.wrong, slices.Sorted(maps.Keys(wrong))); diff != "" {
				t.Errorf("the steps that found something (-want +got):\n%s", diff)
			}
			if u.ordered != tc.orders || !slices.Equal(skipped, tc.skipped) {
				t.Errorf("%d orders, skipped %q", u.ordered, skipped)
			}
		})
	}
}
