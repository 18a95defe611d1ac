package esim_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/esim/esimtest"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/store/memory"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	callTimeout     = 5 * time.Second
	visibilityDelay = time.Minute
	deadline        = time.Hour
	stale           = 15 * time.Minute
)

var owner = x402.Address{0: 0xaa, 19: 1}

// careful is a supplier that shows a reference late, and deduplicates.
var careful = fulfilment.Traits{Deduplicates: true, VisibilityDelay: visibilityDelay}

// shop is the eSIM product over a supplier, a store and a queue in memory, on a virtual clock.
type shop struct {
	*testing.T
	*esim.Esims
	supplier *esimtest.Supplier
	store    memory.Esims
	// made are the deliveries.
	made *fulfilmenttest.Deliveries
}

// ended is how a delivery ended; it is Waiting until then.
func (s *shop) ended(id order.ID) order.Progress { return s.made.Of(id) }

// story runs a test with a worker in a bubble of time of its own, its catalogue synced.
func story(t *testing.T, traits fulfilment.Traits, tell func(s *shop)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, traits)
		s.made.Work(t, nil, func() { tell(s) })
	})
}

func newShop(t *testing.T, traits fulfilment.Traits, changes ...func(*esim.Provider)) *shop {
	t.Helper()
	s := &shop{
		T: t, supplier: esimtest.NewSupplier(true, traits), made: fulfilmenttest.NewDeliveries(),
	}
	s.store = s.made.Store.Esims()
	over := esim.Provider{
		Supplier: s.supplier, Traits: traits, Capabilities: s.supplier.Capabilities(), Controls: s.supplier,
		Canceller: s.supplier, Topper: s.supplier,
	}
	for _, change := range changes {
		change(&over)
	}
	s.Esims = esim.New(esim.Config{
		Store: s.store, Providers: []esim.Provider{over},
		Keys: keyring(t, "k1:"+strings.Repeat("01", 32)), TokenKey: make([]byte, 32),
		Log: slog.New(slog.DiscardHandler), Now: time.Now, MarginBPS: 2500, StaleAfter: stale,
		Workers: working(nil), Poll: time.Second, CallTimeout: callTimeout, Deadline: deadline, Waiters: 100,
	})
	s.made.Deliver = func(ctx context.Context, l *job.Lease, o order.Order) (order.Progress, error) {
		return s.Deliver(ctx, l, o)
	}
	s.sync()
	return s
}

func keyring(t *testing.T, text string) esim.Keyring {
	t.Helper()
	k, err := esim.ParseKeyring(secret.New(text))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (s *shop) sync() {
	s.Helper()
	if o, err := s.ReadCatalogues(s.Context()); err != nil || o.Status != job.Succeeded {
		s.Fatalf("sync: %+v, %v", o, err)
	}
}

// syncsLater expects that a catalogue could not be read, and that the job does it again.
func (s *shop) syncsLater() {
	s.Helper()
	if o, err := s.ReadCatalogues(s.Context()); err != nil || o.Status != job.Queued || o.Reason == "" {
		s.Fatalf("sync: %+v, %v", o, err)
	}
}

// hold reserves a part of the supplier's float for others.
func (s *shop) hold(units money.USDC, paid bool) { s.store.Hold("float/esim", int64(units), paid) }

// working is a check for workers that ends as it is told.
func working(err error) availability.Check {
	return availability.Check{Name: "workers", Run: func(context.Context) error { return err }}
}

// shown is how a check of the ready route ends.
func (s *shop) shown(name string) error {
	s.Helper()
	for _, r := range s.Availability().Ready(s.Context()) {
		if r.Name == name {
			return r.Err
		}
	}
	s.Fatalf("the ready route shows no %s", name)
	return nil
}

// offered is what the product offers for a request, if it can be sold now.
func (s *shop) offered(request string, quoted *order.Offer) (order.Offer, error) {
	if err := s.Availability().Open(s.Context()); err != nil {
		return order.Offer{}, err
	}
	return s.Offer(s.Context(), order.OfferRequest{Body: []byte(request), Quoted: quoted})
}

// paid lets an order for the cheapest plan be delivered.
func (s *shop) paid() order.Order {
	s.Helper()
	o := s.undelivered()
	s.made.Begin(s.T, o)
	return o
}

// undelivered is a paid order for the cheapest plan whose delivery has not begun.
func (s *shop) undelivered() order.Order {
	s.Helper()
	offer, err := s.offered(`{}`, nil)
	if err != nil {
		s.Fatal(err)
	}
	now := time.Now()
	o := order.Order{
		ID: order.NewID(now), Kind: esim.Kind, Status: order.Provisioning, Owner: owner, Price: offer.Price, Item: offer.Item,
		CreatedAt: now, UpdatedAt: now,
	}
	s.store.Orders().Put(o)
	return o
}

// pass lets time go by until everybody waits.
func (s *shop) pass(d time.Duration) { fulfilmenttest.Pass(d) }

// profile is the one of an order.
func (s *shop) profile(id order.ID) esim.Profile {
	s.Helper()
	found, err := s.store.Profiles(s.Context(), id)
	if err != nil || found[id].Order != id {
		s.Fatalf("the profile of %s: %+v, %v", id, found, err)
	}
	return found[id]
}

func (s *shop) now(o order.Order) order.Order {
	s.Helper()
	got, err := s.store.Order(s.Context(), o.ID)
	if err != nil {
		s.Fatal(err)
	}
	return got
}

func names(modes []fulfilmenttest.Mode) []string {
	all := make([]string, len(modes))
	for i, m := range modes {
		all[i] = fmt.Sprint(m)
	}
	return all
}
