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

// adding is a supplier that adds data in another way.
type adding struct {
	*esimtest.Supplier
	topUp func(ctx context.Context, r esim.TopUpRequest, added int) (esim.Purchase, error)
	added int
}

func (a *adding) TopUp(ctx context.Context, r esim.TopUpRequest) (esim.Purchase, error) {
	a.added++
	if a.topUp != nil {
		return a.topUp(ctx, r, a.added)
	}
	return a.Supplier.TopUp(ctx, r)
}

func TestTrialAddsDataToItsProfile(t *testing.T) {
	const costs money.USDC = 800_000
	const adds, again = "adds data to a profile", "adds it once when asked twice"
	once := careful
	once.Deduplicates = true
	never := careful
	never.Deduplicates = false
	for name, tc := range map[string]struct {
		traits  fulfilment.Traits
		does    func(*adding)
		spend   money.USDC
		seen    []string
		wrong   []string
		skipped []string
		added   int
	}{
		"as its adapter says":       {once, nil, 2 * costs, []string{adds, again}, nil, nil, 2},
		"without what it costs":     {once, nil, 2*costs - 1, nil, nil, []string{adds}, 0},
		"that is never asked twice": {never, nil, 2 * costs, []string{adds}, nil, []string{again}, 1},
		"twice for the same reference": {once, func(a *adding) {
			a.topUp = func(ctx context.Context, r esim.TopUpRequest, added int) (esim.Purchase, error) {
				if added == 2 {
					r.Ref = fulfilment.Ref(uuid.New())
				}
				return a.Supplier.TopUp(ctx, r)
			}
		}, 2 * costs, []string{adds}, []string{again}, nil, 2},
		"to another profile": {once, func(a *adding) {
			a.topUp = func(ctx context.Context, r esim.TopUpRequest, _ int) (esim.Purchase, error) {
				return esim.Purchase{}, &fulfilment.Refusal{Code: esim.RefusedProfile, Message: "no"}
			}
		}, 2 * costs, nil, []string{adds}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			a := &adding{Supplier: esimtest.NewSupplier(true, tc.traits)}
			if tc.does != nil {
				tc.does(a)
			}
			var seen, wrong, skipped []string
			for _, o := range esim.Try(t.Context(), a, tc.traits, tc.spend, time.Minute) {
				switch {
				case o.Err != nil:
					wrong = append(wrong, o.Step)
				case o.Skipped && (o.Step == adds || o.Step == again):
					skipped = append(skipped, o.Step)
				case o.Step == adds || o.Step == again:
					seen = append(seen, o.Step)
				}
			}
			if !slices.Equal(seen, tc.seen) || !slices.Equal(wrong, tc.wrong) || !slices.Equal(skipped, tc.skipped) ||
				a.added != tc.added {
				t.Errorf("seen %q, wrong %q, skipped %q, asked %d times", seen, wrong, skipped, a.added)
			}
		})
	}
}
