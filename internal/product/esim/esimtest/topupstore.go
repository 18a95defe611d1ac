package esimtest

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/esim"
)

// Learn implements esim.Store.
func (s *Store) Learn(_ context.Context, provider string, plans []esim.Plan) ([]esim.Plan, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	learned := make([]esim.Plan, len(plans))
	for i, p := range plans {
		p.Provider, p.Live = provider, false
		at := slices.IndexFunc(s.plans, func(known esim.Plan) bool {
			return known.Provider == provider && known.Code == p.Code
		})
		switch {
		case at < 0:
			s.plans = append(s.plans, p)
		case s.plans[at].Live:
			p = s.plans[at]
		default:
			p.ID = s.plans[at].ID
			s.plans[at] = p
		}
		learned[i] = p
	}
	return learned, nil
}

// TopupOrder implements esim.TopupStore.
func (s *Store) TopupOrder(_ context.Context, id order.ID) (order.Order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.orders[id]
	if !ok || o.Kind != esim.TopupKind {
		return order.Order{}, esim.ErrNotFound
	}
	return o, nil
}

// Topup is the top-up of an order.
func (s *Store) Topup(id order.ID) esim.Topup {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.topups[id]
}

// ReserveTopup implements esim.TopupStore.
func (s *Store) ReserveTopup(_ context.Context, _ job.Fence, t esim.Topup) (esim.Topup, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.topups[t.Order]; ok && known.Ref == t.Ref {
		return known, nil
	}
	if s.Cancelling[t.Profile] {
		return esim.Topup{}, esim.ErrCancelling
	}
	s.topups[t.Order] = t
	return t, nil
}

// CompleteTopup implements esim.TopupStore.
func (s *Store) CompleteTopup(_ context.Context, _ job.Fence, t esim.Topup, postings []ledger.Posting) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.topups[t.Order]; known.ID == t.ID && known.Status == esim.Ordered {
		s.topups[t.Order], s.Posted = t, append(s.Posted, postings...)
	}
	return nil
}

// FailTopup implements esim.TopupStore.
func (s *Store) FailTopup(_ context.Context, _ job.Fence, id uuid.UUID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, t := range s.topups {
		if t.ID == id && t.Status == esim.Ordered {
			t.Status = esim.Failed
			s.topups[key] = t
		}
	}
	return nil
}

func profilesPlansGetIDs(t *testing.T, h StoreHarness) {
	ctx := t.Context()
	listed, extra := plan("pln_a", "a", 300), plan("pln_t", "TOPUP_a", 200)
	if err := h.Store.Replace(ctx, supplier, []esim.Plan{listed}, start); err != nil {
		t.Fatal(err)
	}
	known := plan("pln_other", "a", 900)
	got, err := h.Store.Learn(ctx, supplier, []esim.Plan{extra, known})
	extra.Live = false
	if diff := cmp.Diff([]esim.Plan{extra, listed}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	costlier := plan("pln_u", "TOPUP_a", 250)
	got, err = h.Store.Learn(ctx, supplier, []esim.Plan{costlier})
	costlier.ID, costlier.Live = "pln_t", false
	if diff := cmp.Diff([]esim.Plan{costlier}, got); err != nil || diff != "" {
		t.Errorf("learned again: %v (-want +got):\n%s", err, diff)
	}
	if plans, _, err := h.Store.Plans(ctx); err != nil || len(plans) != 1 || plans[0].ID != listed.ID {
		t.Errorf("the catalogue is %+v, %v", plans, err)
	}
	if found, err := h.Store.Plan(ctx, "pln_t"); err != nil || found.Code != "TOPUP_a" {
		t.Errorf("found %+v, %v", found, err)
	}
	if none, err := h.Store.Learn(ctx, supplier, nil); err != nil || len(none) != 0 {
		t.Errorf("nothing is learned as %+v, %v", none, err)
	}
}
