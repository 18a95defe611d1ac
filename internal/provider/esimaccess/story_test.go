package esimaccess_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/esimaccess"
	"github.com/roamcard/roamcard/internal/provider/esimaccess/esimaccessfake"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/store/memory"
	"github.com/roamcard/roamcard/internal/x402"
)

// shop sells the vendor's eSIMs, on a virtual clock and without a network.
type shop struct {
	*testing.T
	*esim.Esims
	fake  *esimaccessfake.Server
	store memory.Esims
	made  *fulfilmenttest.Deliveries
	// tried are the orders that left us; lose says whether one is lost before it arrives, or its answer after it.
	tried int
	lose  func(after bool) bool
}

// RoundTrip implements http.RoundTripper.
func (s *shop) RoundTrip(r *http.Request) (*http.Response, error) {
	ordering := strings.HasSuffix(r.URL.Path, "/esim/order")
	if ordering {
		s.tried++
	}
	if ordering && s.lose(false) {
		return nil, context.DeadlineExceeded
	}
	answer, err := (&direct{Handler: s.fake}).RoundTrip(r)
	if ordering && s.lose(true) {
		return nil, context.DeadlineExceeded
	}
	return answer, err
}

// restarting is a supplier whose process restarts before it reads an order.
type restarting struct {
	*esimaccess.Supplier
	dial func() *esimaccess.Supplier
}

func (r restarting) Ordered(ctx context.Context, ref fulfilment.Ref) (esim.Purchase, error) {
	return r.dial().Ordered(ctx, ref)
}

func (s *shop) dial() *esimaccess.Supplier {
	s.Helper()
	supplier, err := esimaccess.Dial(esimaccess.Config{
		URL: "https://esimaccess.example", HTTP: &http.Client{Transport: s},
		AccessCode: secret.New(esimaccessfake.DevAccessCode), Secret: secret.New(esimaccessfake.DevSecret),
	})
	if err != nil {
		s.Fatal(err)
	}
	return supplier
}

// story runs a test with a worker in a bubble of time of its own.
func story(t *testing.T, cfg esimaccessfake.Config, restarts bool, tell func(s *shop)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &shop{
			T: t, fake: esimaccessfake.New(cfg), made: fulfilmenttest.NewDeliveries(),
			lose: func(bool) bool { return false },
		}
		s.store = s.made.Store.Esims()
		var supplier esim.Supplier = s.dial()
		if restarts {
			supplier = restarting{s.dial(), s.dial}
		}
		keys, err := esim.ParseKeyring(secret.New("k1:" + strings.Repeat("01", 32)))
		if err != nil {
			t.Fatal(err)
		}
		s.Esims = esim.New(esim.Config{
			Store: s.store, Providers: []esim.Provider{{Supplier: supplier, Traits: s.dial().Traits()}}, Keys: keys,
			TokenKey: make([]byte, 32),
			Log:      slog.New(slog.DiscardHandler), Now: time.Now, MarginBPS: 2500, StaleAfter: time.Hour,
			Poll:        3 * time.Second,
			CallTimeout: 5 * time.Second, Deadline: time.Hour, Waiters: 10,
		})
		s.made.Deliver = func(ctx context.Context, l *job.Lease, o order.Order) (order.Progress, error) {
			return s.Deliver(ctx, l, o)
		}
		if o, err := s.ReadCatalogues(t.Context()); err != nil || o.Status != job.Succeeded {
			t.Fatalf("sync: %+v, %v", o, err)
		}
		s.made.Work(t, nil, func() { tell(s) })
	})
}

// paid lets an order for the cheapest plan be delivered.
func (s *shop) paid() order.Order {
	s.Helper()
	offer, err := s.Offer(s.Context(), order.OfferRequest{Body: []byte(`{}`)})
	if err != nil {
		s.Fatal(err)
	}
	now := time.Now()
	o := order.Order{
		ID: order.NewID(now), Kind: esim.Kind, Status: order.Provisioning, Owner: x402.Address{0: 0xaa, 19: 1},
		Price: offer.Price, Item: offer.Item, CreatedAt: now, UpdatedAt: now,
	}
	s.store.Orders().Put(o)
	s.made.Begin(s.T, o)
	return o
}

// want wants a delivery to have ended in a state, after so many orders that left us and that the vendor has.
func (s *shop) want(o order.Order, state order.ProgressState, tried, made int) {
	s.Helper()
	if got := s.made.Of(o.ID); got.State != state || s.tried != tried || len(s.fake.Orders()) != made {
		s.Errorf("the delivery is %+v after %d orders of which the vendor has %d; want %v, %d, %d",
			got, s.tried, len(s.fake.Orders()), state, tried, made)
	}
}

// Profiles are allocated up to half a minute after they are ordered.
const slow = 25 * time.Second

func TestPaidOrderBecomesAnESIM(t *testing.T) {
	for name, cfg := range map[string]esimaccessfake.Config{
		"listed at once":           {AllocateAfter: slow},
		"listed when it allocated": {AllocateAfter: slow, HideAllocating: true},
	} {
		for again, restarts := range map[string]bool{"": false, ", after restarts": true} {
			t.Run(name+again, func(t *testing.T) {
				story(t, cfg, restarts, func(s *shop) {
					o := s.paid()
					fulfilmenttest.Pass(2 * time.Second)
					s.want(o, s.made.Of("").State, 1, 1)
					fulfilmenttest.Pass(2 * time.Minute)
					s.want(o, order.Delivered, 1, 1)
					profiles, err := s.store.Profiles(t.Context(), o.ID)
					bought := s.fake.Orders()[0]
					if p := profiles[o.ID]; err != nil || p.Account != bought.ProfileNo || int64(p.Cost) != bought.Price*100 {
						t.Errorf("%+v, %v of %+v", p, err, bought)
					}
				})
			})
		}
	}
}

func TestOrderWhoseAnswerIsLostIsReadBack(t *testing.T) {
	for name, cfg := range map[string]esimaccessfake.Config{
		"listed at once":           {AllocateAfter: slow},
		"listed when it allocated": {AllocateAfter: slow, HideAllocating: true},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, cfg, false, func(s *shop) {
				s.lose = func(after bool) bool { return after }
				o := s.paid()
				fulfilmenttest.Pass(2 * time.Minute)
				s.want(o, order.Delivered, 1, 1)
			})
		})
	}
}

// Nobody can tell an order that never arrived from one that is late. It is not sent again: a person looks.
func TestOrderThatLeavesNoTraceIsLeftToAPerson(t *testing.T) {
	story(t, esimaccessfake.Config{}, false, func(s *shop) {
		s.lose = func(after bool) bool { return !after }
		o := s.paid()
		fulfilmenttest.Pass(4 * time.Minute)
		s.want(o, s.made.Of("").State, 1, 0)
		fulfilmenttest.Pass(time.Hour)
		s.want(o, order.Doubtful, 1, 0)
	})
}

func TestRefusedOrderIsOver(t *testing.T) {
	story(t, esimaccessfake.Config{}, false, func(s *shop) {
		for _, p := range esimaccessfake.Catalogue() {
			s.fake.Change(p.Code, func(p *esimaccessfake.Package) { p.SoldOut = true })
		}
		o := s.paid()
		fulfilmenttest.Pass(time.Hour)
		s.want(o, order.Refused, 1, 0)
		if at := s.made.Of(o.ID); at.Reason != esim.RefusedStock {
			t.Errorf("refused with %+v", at)
		}
	})
}
