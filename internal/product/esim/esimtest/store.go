package esimtest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/esim"
)

// Store keeps catalogue and profiles in memory. It is an esim.Store that accepts every fence.
type Store struct {
	mu       sync.Mutex
	plans    []esim.Plan
	synced   map[string]time.Time // by provider
	orders   map[order.ID]order.Order
	profiles map[order.ID]esim.Profile
	tokens   map[order.ID]esim.TokenVersion
	watchers map[order.ID]map[chan struct{}]bool
	reserved int64
	unpaid   int64
	topups   map[order.ID]esim.Topup
	// Posted are the postings of top-ups.
	Posted []ledger.Posting
	// Cancelling are the profiles that are being given back.
	Cancelling map[uuid.UUID]bool
}

var (
	_ esim.Store      = (*Store)(nil)
	_ esim.TopupStore = (*Store)(nil)
)

// NewStore makes an empty store.
func NewStore() *Store {
	return &Store{
		orders: map[order.ID]order.Order{}, profiles: map[order.ID]esim.Profile{}, tokens: map[order.ID]esim.TokenVersion{},
		watchers: map[order.ID]map[chan struct{}]bool{}, synced: map[string]time.Time{},
		topups: map[order.ID]esim.Topup{}, Cancelling: map[uuid.UUID]bool{},
	}
}

// SetReserved is what live orders reserve from now on, of whatever resource.
func (s *Store) SetReserved(units int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved = units
}

// SetUnpaid is how much of that is not paid.
func (s *Store) SetUnpaid(units int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unpaid = units
}

// Unpaid implements esim.Store.
func (s *Store) Unpaid(context.Context, string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unpaid, nil
}

// Reserved implements esim.Store.
func (s *Store) Reserved(context.Context, string, time.Time) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reserved, nil
}

// PutProfile keeps a profile as it is.
func (s *Store) PutProfile(p esim.Profile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.profiles[p.Order] = p
}

// Put keeps an order as it is, and wakes those who watch it.
func (s *Store) Put(o order.Order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders[o.ID] = o
	for ch := range s.watchers[o.ID] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// Plans implements esim.Store.
func (s *Store) Plans(context.Context) ([]esim.Plan, map[string]time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var live []esim.Plan
	for _, p := range s.plans {
		if p.Live {
			live = append(live, p)
		}
	}
	slices.SortFunc(live, func(a, b esim.Plan) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(b.DataMB, a.DataMB), cmp.Compare(a.ID, b.ID))
	})
	return live, maps.Clone(s.synced), nil
}

// Plan implements esim.Store.
func (s *Store) Plan(_ context.Context, id esim.PlanID) (esim.Plan, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.plans, func(p esim.Plan) bool { return p.ID == id }); i >= 0 {
		return s.plans[i], nil
	}
	return esim.Plan{}, esim.ErrNotFound
}

// PlanNames implements esim.Store.
func (s *Store) PlanNames(_ context.Context, ids ...esim.PlanID) (map[esim.PlanID]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := map[esim.PlanID]string{}
	for _, p := range s.plans {
		if slices.Contains(ids, p.ID) {
			names[p.ID] = p.Name
		}
	}
	return names, nil
}

// Replace implements esim.Store.
func (s *Store) Replace(_ context.Context, provider string, plans []esim.Plan, at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Before(s.synced[provider]) {
		return nil
	}
	s.synced[provider] = at
	for i := range s.plans {
		s.plans[i].Live = s.plans[i].Live && s.plans[i].Provider != provider
	}
	for _, p := range plans {
		p.Provider = provider
		if i := slices.IndexFunc(s.plans, func(known esim.Plan) bool {
			return known.Provider == provider && known.Code == p.Code
		}); i >= 0 {
			p.ID = s.plans[i].ID
			s.plans[i] = p
		} else {
			s.plans = append(s.plans, p)
		}
	}
	return nil
}

// Withdraw implements esim.Store.
func (s *Store) Withdraw(_ context.Context, id esim.PlanID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.plans {
		if s.plans[i].ID == id {
			s.plans[i].Live = false
		}
	}
	return nil
}

// Order implements esim.Store.
func (s *Store) Order(_ context.Context, id order.ID) (order.Order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.orders[id]
	if !ok || o.Kind != esim.Kind {
		return order.Order{}, esim.ErrNotFound
	}
	return o, nil
}

// Watch implements esim.Store.
func (s *Store) Watch(id order.ID) (wake <-chan struct{}, stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := make(chan struct{}, 1)
	if s.watchers[id] == nil {
		s.watchers[id] = map[chan struct{}]bool{}
	}
	s.watchers[id][ch] = true
	return ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers[id], ch)
	}
}

// Profiles implements esim.Store.
func (s *Store) Profiles(_ context.Context, orders ...order.ID) (map[order.ID]esim.Profile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[order.ID]esim.Profile{}
	for _, id := range orders {
		if p, ok := s.profiles[id]; ok {
			found[id] = p
		}
	}
	return found, nil
}

// Reserve implements esim.Store.
func (s *Store) Reserve(_ context.Context, _ job.Fence, p esim.Profile) (esim.Profile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.profiles[p.Order]; ok && known.Ref == p.Ref {
		return known, nil
	}
	s.profiles[p.Order] = p
	return p, nil
}

// Install implements esim.Store.
func (s *Store) Install(_ context.Context, _ job.Fence, p esim.Profile, _ []ledger.Posting) error {
	s.leavesOrdered(p.ID, func(known *esim.Profile) {
		known.Status, known.Account, known.Cost, known.ActivationData = esim.Ready, p.Account, p.Cost, p.ActivationData
	})
	return nil
}

// Fail implements esim.Store.
func (s *Store) Fail(_ context.Context, _ job.Fence, id uuid.UUID) error {
	s.leavesOrdered(id, func(known *esim.Profile) { known.Status = esim.Failed })
	return nil
}

func (s *Store) leavesOrdered(id uuid.UUID, change func(*esim.Profile)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, p := range s.profiles {
		if p.ID == id && p.Status == esim.Ordered {
			change(&p)
			s.profiles[key] = p
		}
	}
}

// Foreign implements esim.Store.
func (s *Store) Foreign(_ context.Context, key string, limit int) ([]esim.Profile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []esim.Profile
	for _, p := range s.profiles {
		if p.Status == esim.Ready && p.ActivationData.Key != key && len(found) < limit {
			found = append(found, p)
		}
	}
	return found, nil
}

// Reseal implements esim.Store.
func (s *Store) Reseal(_ context.Context, id uuid.UUID, was, is esim.Sealed) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, p := range s.profiles {
		if p.ID == id && p.ActivationData.Key == was.Key && slices.Equal(p.ActivationData.Box, was.Box) {
			p.ActivationData = is
			s.profiles[key] = p
		}
	}
	return nil
}

// Token implements esim.Store.
func (s *Store) Token(_ context.Context, id order.ID) (v esim.TokenVersion, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok = s.tokens[id]
	return v, ok, nil
}

// Rotate implements esim.Store.
func (s *Store) Rotate(_ context.Context, id order.ID, expires time.Time) (esim.TokenVersion, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := esim.TokenVersion{Version: max(s.tokens[id].Version, 1) + 1, ExpiresAt: expires}
	s.tokens[id] = v
	return v, nil
}
