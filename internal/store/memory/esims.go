package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/esim"
)

// Esims keeps the catalogue of eSIM plans and the eSIMs sold.
type Esims struct{ *Store }

var (
	_ esim.Store       = Esims{}
	_ esim.TopupStore  = Esims{}
	_ esim.CancelStore = Esims{}
	_ esim.Journal     = SupplierJournal{}
)

// Esims is the part of the store that the eSIM product uses.
func (s *Store) Esims() Esims { return Esims{s} }

// Plans implements esim.Store.
func (e Esims) Plans(ctx context.Context) (plans []esim.Plan, times map[string]time.Time, err error) {
	times = map[string]time.Time{}
	err = e.do(ctx, "esims.plans", func(t *tx) error {
		plans = append([]esim.Plan{}, t.plans.all(func(p *esim.Plan) bool { return p.Live })...)
		for _, s := range t.syncs.rows {
			times[s.provider] = s.at
		}
		return nil
	})
	slices.SortFunc(plans, func(a, b esim.Plan) int {
		if a.Unlimited != b.Unlimited && a.Price == b.Price {
			if a.Unlimited {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(b.DataMB, a.DataMB), cmp.Compare(a.ID, b.ID))
	})
	return plans, times, err
}

// synced is when the plans of a supplier were read last.
type synced struct {
	provider string
	at       time.Time
}

// Plan implements esim.Store.
func (e Esims) Plan(ctx context.Context, id esim.PlanID) (found esim.Plan, err error) {
	err = e.do(ctx, "esims.plan", func(t *tx) error {
		row := t.plans.get(id)
		if row == nil {
			return esim.ErrNotFound
		}
		found = *row
		return nil
	})
	return found, err
}

// PlanNames implements esim.Store.
func (e Esims) PlanNames(ctx context.Context, ids ...esim.PlanID) (map[esim.PlanID]string, error) {
	names := map[esim.PlanID]string{}
	return names, e.do(ctx, "esims.plan_names", func(t *tx) error {
		for _, p := range t.plans.all(func(p *esim.Plan) bool { return slices.Contains(ids, p.ID) }) {
			names[p.ID] = p.Name
		}
		return nil
	})
}

// Replace implements esim.Store.
func (e Esims) Replace(ctx context.Context, provider string, plans []esim.Plan, at time.Time) error {
	at = at.UTC().Truncate(time.Microsecond)
	return e.do(ctx, "esims.replace", func(t *tx) error {
		if row := t.syncs.get(provider); row == nil {
			if _, err := add(t, &t.syncs, "esim_syncs_pkey", provider, synced{provider, at}); err != nil {
				return err
			}
		} else if row.at.After(at) {
			return nil
		} else {
			edit(t, row).at = at
		}
		for _, row := range t.plans.rows {
			if row.Provider == provider && row.Live {
				edit(t, row).Live = false
			}
		}
		for _, p := range plans {
			if err := t.putPlan(provider, p); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *tx) planBy(provider, code string) *esim.Plan {
	return t.plans.first(func(p *esim.Plan) bool { return p.Provider == provider && p.Code == code })
}

// putPlan stores a plan; one that is known keeps its id.
func (t *tx) putPlan(provider string, p esim.Plan) error {
	p.Provider = provider
	if row := t.planBy(provider, p.Code); row != nil {
		p.ID = row.ID
		*edit(t, row) = p
		return nil
	}
	_, err := add(t, &t.plans, "esim_plans_pkey", p.ID, p)
	return err
}

// Withdraw implements esim.Store.
func (e Esims) Withdraw(ctx context.Context, id esim.PlanID) error {
	return e.do(ctx, "esims.withdraw", func(t *tx) error {
		row := t.plans.get(id)
		if row == nil {
			return fmt.Errorf("withdraw plan %s: there is none", id)
		}
		edit(t, row).Live = false
		return nil
	})
}

// Learn implements esim.Store.
func (e Esims) Learn(ctx context.Context, provider string, plans []esim.Plan) (learned []esim.Plan, err error) {
	learned = make([]esim.Plan, len(plans))
	err = e.do(ctx, "esims.learn", func(t *tx) error {
		for i, p := range plans {
			if row := t.planBy(provider, p.Code); row == nil || !row.Live {
				p.Live = false
				if err := t.putPlan(provider, p); err != nil {
					return err
				}
			}
			learned[i] = *t.planBy(provider, p.Code)
		}
		return nil
	})
	return learned, err
}

// Order implements esim.Store.
func (e Esims) Order(ctx context.Context, id order.ID) (order.Order, error) {
	return e.order(ctx, id, esim.Kind)
}

func (e Esims) order(ctx context.Context, id order.ID, kind order.Kind) (found order.Order, err error) {
	err = e.do(ctx, "esims.order", func(t *tx) error {
		row := t.orders.get(id)
		if row == nil || row.Kind != kind {
			return esim.ErrNotFound
		}
		found = *row
		return nil
	})
	return found, err
}

// Watch implements esim.Store.
func (e Esims) Watch(id order.ID) (wake <-chan struct{}, stop func()) { return e.Orders().Watch(id) }

// Profiles implements esim.Store.
func (e Esims) Profiles(ctx context.Context, orders ...order.ID) (map[order.ID]esim.Profile, error) {
	found := map[order.ID]esim.Profile{}
	return found, e.do(ctx, "esims.profiles", func(t *tx) error {
		all := t.profiles.all(func(p *esim.Profile) bool { return slices.Contains(orders, p.Order) })
		slices.SortStableFunc(all, func(a, b esim.Profile) int { return a.CreatedAt.Compare(b.CreatedAt) })
		for _, p := range all { // the latest is last
			found[p.Order] = p
		}
		return nil
	})
}

// Put keeps a profile as it is.
func (e Esims) Put(p esim.Profile) {
	_ = e.do(context.Background(), "esims.put", func(t *tx) error {
		if row := t.profiles.get(p.ID); row != nil {
			*edit(t, row) = p
			return nil
		}
		_, err := add(t, &t.profiles, "esim_profiles_pkey", p.ID, p)
		return err
	})
}

// Reserve implements esim.Store.
func (e Esims) Reserve(ctx context.Context, f job.Fence, p esim.Profile) (got esim.Profile, err error) {
	err = e.fenced(ctx, "esims.reserve", f, func(t *tx) error {
		if err := t.hasOrder(f, p.Order); err != nil {
			return err
		}
		if row := t.profiles.first(func(o *esim.Profile) bool { return o.Ref == p.Ref }); row != nil {
			got = *row
			return nil
		}
		got = p
		p.CreatedAt, p.UpdatedAt, p.Account, p.Cost, p.ActivationData = stored(p.CreatedAt), stored(p.UpdatedAt), "", 0,
			esim.Sealed{}
		_, err := add(t, &t.profiles, "esim_profiles_pkey", p.ID, p)
		return err
	})
	return got, err
}

// hasOrder fails with esim.ErrNotFound unless an order is there, of the owner that a job is of.
func (t *tx) hasOrder(f job.Fence, id order.ID) error {
	if row := t.orders.get(id); row == nil || f.Of != "" && row.Owner.Lower() != f.Of {
		return fmt.Errorf("order %s: %w", id, esim.ErrNotFound)
	}
	return nil
}

// Install implements esim.Store.
func (e Esims) Install(ctx context.Context, f job.Fence, p esim.Profile, postings []ledger.Posting) error {
	return e.fenced(ctx, "esims.install", f, func(t *tx) error {
		row := t.profiles.get(p.ID)
		if row == nil || t.hasOrder(f, row.Order) != nil || row.Status != esim.Ordered {
			return nil
		}
		row = edit(t, row)
		row.Status, row.Account, row.Cost, row.ActivationData, row.UpdatedAt = esim.Ready, p.Account, p.Cost,
			p.ActivationData, t.stamp
		return t.post(f.Of, postings...)
	})
}

// Fail implements esim.Store.
func (e Esims) Fail(ctx context.Context, f job.Fence, id uuid.UUID) error {
	return e.fenced(ctx, "esims.fail", f, func(t *tx) error {
		if row := t.profiles.get(id); row != nil && t.hasOrder(f, row.Order) == nil && row.Status == esim.Ordered {
			row = edit(t, row)
			row.Status, row.UpdatedAt = esim.Failed, t.stamp
		}
		return nil
	})
}

// Foreign implements esim.Store.
func (e Esims) Foreign(ctx context.Context, key string, limit int) (found []esim.Profile, err error) {
	err = e.do(ctx, "esims.foreign", func(t *tx) error {
		found = t.profiles.all(func(p *esim.Profile) bool { return p.Status == esim.Ready && p.ActivationData.Key != key })
		found = found[:min(limit, len(found))]
		return nil
	})
	return found, err
}

// Reseal implements esim.Store.
func (e Esims) Reseal(ctx context.Context, id uuid.UUID, was, is esim.Sealed) error {
	return e.do(ctx, "esims.reseal", func(t *tx) error {
		row := t.profiles.get(id)
		if row != nil && row.ActivationData.Key == was.Key && slices.Equal(row.ActivationData.Box, was.Box) {
			row = edit(t, row)
			row.ActivationData, row.UpdatedAt = is, t.stamp
		}
		return nil
	})
}

// Token implements esim.Store.
func (e Esims) Token(ctx context.Context, id order.ID) (v esim.TokenVersion, ok bool, err error) {
	err = e.do(ctx, "esims.token", func(t *tx) error {
		row := t.tokens.get(id)
		if ok = row != nil; ok {
			v = *row
		}
		return nil
	})
	return v, ok, err
}

// Rotate implements esim.Store.
func (e Esims) Rotate(ctx context.Context, id order.ID, expires time.Time) (v esim.TokenVersion, err error) {
	err = e.do(ctx, "esims.rotate", func(t *tx) error {
		if t.orders.get(id) == nil {
			return fmt.Errorf("rotate the token of order %s: there is none", id)
		}
		v = esim.TokenVersion{Version: 2, ExpiresAt: stored(expires)}
		if row := t.tokens.get(id); row != nil {
			v.Version = row.Version + 1
			*edit(t, row) = v
			return nil
		}
		_, err := add(t, &t.tokens, "esim_tokens_pkey", id, v)
		return err
	})
	return v, err
}

// TopupOrder implements esim.TopupStore.
func (e Esims) TopupOrder(ctx context.Context, id order.ID) (order.Order, error) {
	return e.order(ctx, id, esim.TopupKind)
}

// Topup is the top-up of an order; none is its zero value.
func (e Esims) Topup(id order.ID) (found esim.Topup) {
	_ = e.do(context.Background(), "esims.topup", func(t *tx) error {
		if row := t.topups.first(func(o *esim.Topup) bool { return o.Order == id }); row != nil {
			found = *row
		}
		return nil
	})
	return found
}

// ReserveTopup implements esim.TopupStore.
func (e Esims) ReserveTopup(ctx context.Context, f job.Fence, u esim.Topup) (got esim.Topup, err error) {
	err = e.fenced(ctx, "esims.reserve_topup", f, func(t *tx) error {
		of := t.profiles.get(u.Profile)
		if of == nil || t.hasOrder(f, of.Order) != nil {
			return fmt.Errorf("profile %s: %w", u.Profile, esim.ErrNotFound)
		}
		if row := t.topups.first(func(o *esim.Topup) bool { return o.Ref == u.Ref }); row != nil {
			got = *row
			return nil
		}
		if c, _, found := t.cancelOf(of.Order); of.Status != esim.Ready || found && c.Stage != esim.StageKept {
			return esim.ErrCancelling
		}
		if err := t.hasOrder(f, u.Order); err != nil {
			return err
		}
		got = u
		u.CreatedAt, u.UpdatedAt, u.Account, u.Cost = stored(u.CreatedAt), stored(u.UpdatedAt), "", 0
		_, err := add(t, &t.topups, "esim_topups_pkey", u.ID, u)
		return err
	})
	return got, err
}

// CompleteTopup implements esim.TopupStore.
func (e Esims) CompleteTopup(ctx context.Context, f job.Fence, u esim.Topup, postings []ledger.Posting) error {
	return e.fenced(ctx, "esims.complete_topup", f, func(t *tx) error {
		row := t.topups.get(u.ID)
		if row == nil || t.hasOrder(f, row.Order) != nil || row.Status != esim.Ordered {
			return nil
		}
		row = edit(t, row)
		row.Status, row.Account, row.Cost, row.UpdatedAt = esim.Ready, u.Account, u.Cost, t.stamp
		return t.post(f.Of, postings...)
	})
}

// FailTopup implements esim.TopupStore.
func (e Esims) FailTopup(ctx context.Context, f job.Fence, id uuid.UUID) error {
	return e.fenced(ctx, "esims.fail_topup", f, func(t *tx) error {
		if row := t.topups.get(id); row != nil && t.hasOrder(f, row.Order) == nil && row.Status == esim.Ordered {
			row = edit(t, row)
			row.Status, row.UpdatedAt = esim.Failed, t.stamp
		}
		return nil
	})
}
