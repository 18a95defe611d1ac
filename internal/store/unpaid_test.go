package store_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// clocked opens a store on a database, whose clock runs as far ahead as the test says.
func clocked(t *testing.T, url string) (*store.Store, *atomic.Int64) {
	t.Helper()
	var ahead atomic.Int64
	s, err := store.Open(t.Context(),
		store.Config{URL: url, Products: storetest.Products(), MaxConns: 8, Now: func() time.Time {
			return time.Now().Add(time.Duration(ahead.Load()))
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, &ahead
}

// unpaid is an order of a key that can be paid for an hour.
func unpaid(key string, change ...func(*order.Order)) order.Order {
	o := claimRequest(key).Order
	until := o.CreatedAt.Add(time.Hour)
	o.ExpiresAt = &until
	for _, f := range change {
		f(&o)
	}
	return o
}

func opened(t *testing.T, s *store.Store, o order.Order, alone bool) order.Order {
	t.Helper()
	got, err := s.Orders().Create(t.Context(), o, checkout.Bounds{ReuseUnpaid: alone})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return got
}

// paying is a first payment for an unpaid order.
func paying(o order.Order) checkout.ClaimRequest {
	return claimRequest(o.Key, func(p *checkout.ClaimRequest) {
		p.Order, p.Payment.Order, p.Existing = o, o.ID, true
		p.Reservations = []order.Reservation{float(time.Now())}
	})
}

func expire(t *testing.T, s *store.Store, limit int) int {
	t.Helper()
	n, err := s.Orders().Expire(t.Context(), limit)
	if err != nil {
		t.Fatalf("expire: %v", err)
	}
	return n
}

// unclaimed checks that a payment left no trace.
func unclaimed(t *testing.T, s *store.Store, p checkout.ClaimRequest) {
	t.Helper()
	if found, err := s.Orders().Payments(t.Context(), p.Order.ID); err != nil || len(found) != 0 {
		t.Errorf("payments %v, %v", found, err)
	}
	if _, found, err := s.Jobs().Find(t.Context(), settlement.Fulfilling, p.Payment.ID.String()); err != nil || found {
		t.Errorf("a job is there: %t, %v", found, err)
	}
	if held, err := s.Cards().Reserved(t.Context(), "float", time.Now().Add(time.Minute)); err != nil || held != 0 {
		t.Errorf("holds %d, %v", held, err)
	}
}

func TestUnpaidOrderIsPaidInTimeAndThenKept(t *testing.T) {
	s, ahead := clocked(t, storetest.URL(t))
	o := opened(t, s, unpaid("k"), false)
	if o.Status != order.PaymentRequired || o.ExpiresAt == nil {
		t.Fatalf("opened %+v", o)
	}
	p := paying(o)
	if got := claim(t, s, p); got.Claim != checkout.Fresh || got.Order.ExpiresAt != nil || got.Order.Version != 2 {
		t.Fatalf("claimed %+v", got)
	}
	ahead.Store(int64(2 * time.Hour))
	if n := expire(t, s, 10); n != 0 {
		t.Errorf("%d orders expired", n)
	}
	// Nor does it expire when its payment turns out dead, however much later.
	fence := claimOf(t, s, p)
	dead := p.Payment
	dead.Status, dead.DeadReason = payment.Dead, payment.ReasonExpired
	if err := errOf(s.Orders().MarkDead(t.Context(), fence, dead,
		move(p, order.Settling, order.PaymentRequired))); err != nil {
		t.Fatal(err)
	}
	if n := expire(t, s, 10); n != 0 {
		t.Errorf("%d orders expired after a dead payment", n)
	}
	found, err := s.Orders().Find(t.Context(), o.ID)
	if err != nil || found.Status != order.PaymentRequired || found.ExpiresAt != nil {
		t.Fatalf("order %+v, %v", found, err)
	}
	if got := claim(t, s, paying(found)); got.Claim != checkout.Fresh {
		t.Errorf("the next payment: %+v", got)
	}
}

func claimOf(t *testing.T, s *store.Store, p checkout.ClaimRequest) job.Fence {
	t.Helper()
	row, found, err := s.Jobs().Find(t.Context(), settlement.Fulfilling, p.Payment.ID.String())
	if err != nil || !found {
		t.Fatalf("the job: %t, %v", found, err)
	}
	return row.Fence()
}

func TestExpiredOrderTakesNoPayment(t *testing.T) {
	for name, recorded := range map[string]bool{"before it is recorded": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			s, ahead := clocked(t, storetest.URL(t))
			p := paying(opened(t, s, unpaid("k"), false))
			ahead.Store(int64(time.Hour + time.Second))
			if recorded {
				if n := expire(t, s, 10); n != 1 {
					t.Fatalf("%d orders expired", n)
				}
			}
			got := claim(t, s, p)
			if got.Claim != checkout.Repeated || got.Order.ID != p.Order.ID || (got.Order.Status == order.Expired) != recorded {
				t.Errorf("claimed %+v", got)
			}
			unclaimed(t, s, p)
		})
	}
}

// TestPaymentAndExpiryHaveOneWinner lets two processes whose clocks differ do both at once.
func TestPaymentAndExpiryHaveOneWinner(t *testing.T) {
	url := storetest.URL(t)
	early, _ := clocked(t, url)
	late, ahead := clocked(t, url)
	ahead.Store(int64(2 * time.Hour))
	paid := 0
	for round := range 40 {
		p := paying(opened(t, early, unpaid(fmt.Sprint(round)), false))
		p.Reservations = nil
		var claimed checkout.ClaimResult
		var moved int
		var errs [2]error
		var both sync.WaitGroup
		both.Go(func() { claimed, errs[0] = early.Orders().Claim(t.Context(), p) })
		both.Go(func() { moved, errs[1] = late.Orders().Expire(t.Context(), 10) })
		both.Wait()
		if errs[0] != nil || errs[1] != nil {
			t.Fatal(errs)
		}
		won := claimed.Claim == checkout.Fresh
		if won {
			paid++
		}
		found, err := early.Orders().Find(t.Context(), p.Order.ID)
		if err != nil || won == (moved == 1) || won != (found.Status == order.Settling) ||
			won == (found.Status == order.Expired) {
			t.Fatalf("round %d: claim %d, %d expired, order %s, %v", round, claimed.Claim, moved, found.Status, err)
		}
		if !won {
			unclaimed(t, early, p)
		}
	}
	t.Logf("%d of 40 were paid", paid)
}

func TestUnpaidOrdersExpireInBatchesWithATimeline(t *testing.T) {
	url := storetest.URL(t)
	s, ahead := clocked(t, url)
	for i := range 5 {
		opened(t, s, unpaid(fmt.Sprint(i)), false)
	}
	later := opened(t, s,
		unpaid("later", func(o *order.Order) { until := o.CreatedAt.Add(3 * time.Hour); o.ExpiresAt = &until }), false)
	ahead.Store(int64(2 * time.Hour))
	for _, want := range []int{2, 2, 1, 0} {
		if n := expire(t, s, 2); n != want {
			t.Errorf("%d expired, want %d", n, want)
		}
	}
	if found, err := s.Orders().Find(t.Context(), later.ID); err != nil || found.Status != order.PaymentRequired {
		t.Errorf("order %s, %v", found.Status, err)
	}
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(t.Context()) })
	var n int
	if err := db.QueryRow(t.Context(),
		`SELECT count(*) FROM orders o JOIN timeline m ON m.order_id = o.id AND m.owner = o.owner
			AND m.version = o.version
		WHERE o.status = 'expired' AND o.version = 2 AND m.from_status = 'payment_required'
			AND m.to_status = 'expired' AND m.actor = 'worker'`).Scan(&n); err != nil || n != 5 {
		t.Errorf("%d moves on the timeline, %v", n, err)
	}
}

func TestKeyCreatesOneOrder(t *testing.T) {
	s := storetest.New(t)
	for _, alone := range []bool{false, true} {
		ids := raceToOpen(t, s, 8, alone, func(i int) order.Order {
			if alone {
				return unpaid(order.Keyless(order.ID(fmt.Sprint("ord_", i))))
			}
			return unpaid("k", func(o *order.Order) { o.Kind = topup.Kind })
		})
		if len(ids) != 1 {
			t.Errorf("alone %t: %d orders", alone, len(ids))
		}
	}
	// Orders with keys of their own are many, and so are those without, when they may be.
	ids := raceToOpen(t, s, 4, false, func(i int) order.Order { return unpaid(fmt.Sprint("own-", i)) })
	if len(ids) != 4 {
		t.Errorf("%d orders of four keys", len(ids))
	}
}

func raceToOpen(t *testing.T, s *store.Store, n int, alone bool, make func(i int) order.Order) map[order.ID]bool {
	t.Helper()
	var mu sync.Mutex
	ids := map[order.ID]bool{}
	var all sync.WaitGroup
	for i := range n {
		o := make(i)
		all.Go(func() {
			got, err := s.Orders().Create(t.Context(), o, checkout.Bounds{ReuseUnpaid: alone})
			if err != nil {
				t.Errorf("open: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			ids[got.ID] = true
		})
	}
	all.Wait()
	return ids
}

func TestOrderIsCreatedAnewOnceTheLastOneIsOver(t *testing.T) {
	s, ahead := clocked(t, storetest.URL(t))
	first := opened(t, s, unpaid("a"), true)
	if again := opened(t, s, unpaid("b"), true); again.ID != first.ID {
		t.Errorf("a second order %s in addition to %s", again.ID, first.ID)
	}
	claim(t, s, paying(first))
	second := opened(t, s, unpaid("c"), true)
	ahead.Store(int64(2 * time.Hour))
	third := opened(t, s,
		unpaid("d", func(o *order.Order) { until := o.CreatedAt.Add(3 * time.Hour); o.ExpiresAt = &until }), true)
	if second.ID == first.ID || third.ID == second.ID {
		t.Errorf("orders %s, %s, %s", first.ID, second.ID, third.ID)
	}
	active, err := s.Orders().Orders(t.Context(), payer, checkout.Query{Active: true, Limit: 10})
	if err != nil || len(active) != 2 || active[0].ID != third.ID || active[1].ID != first.ID {
		t.Errorf("active %+v, %v", active, err)
	}
}
