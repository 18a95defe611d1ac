package checkouttest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/settlement"
)

// Unpaid is an order of a key that can be paid for an hour.
func Unpaid(key string, change ...func(*order.Order)) order.Order {
	o := NewClaim(key).Order
	until := o.CreatedAt.Add(time.Hour)
	o.ExpiresAt = &until
	for _, f := range change {
		f(&o)
	}
	return o
}

func Opened(t *testing.T, s Store, o order.Order, alone bool) order.Order {
	t.Helper()
	got, err := s.Orders.Create(t.Context(), o, checkout.Bounds{ReuseUnpaid: alone})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return got
}

// Paying is a first payment for an unpaid order.
func Paying(o order.Order) checkout.ClaimRequest {
	return NewClaim(o.Key, func(p *checkout.ClaimRequest) {
		p.Order, p.Payment.Order, p.Existing = o, o.ID, true
		p.Reservations = []order.Reservation{Float(time.Now())}
	})
}

func Expire(t *testing.T, s Store, limit int) int {
	t.Helper()
	n, err := s.Orders.Expire(t.Context(), limit)
	if err != nil {
		t.Fatalf("expire: %v", err)
	}
	return n
}

// Unclaimed checks that a payment left no trace.
func Unclaimed(t *testing.T, s Store, p checkout.ClaimRequest) {
	t.Helper()
	if found, err := s.Orders.Payments(t.Context(), p.Order.ID); err != nil || len(found) != 0 {
		t.Errorf("payments %v, %v", found, err)
	}
	if _, found, err := s.Jobs.Find(t.Context(), settlement.Fulfilling, p.Payment.ID.String()); err != nil || found {
		t.Errorf("a job is there: %t, %v", found, err)
	}
	if held, err := s.Cards.Reserved(t.Context(), "float", time.Now().Add(time.Minute)); err != nil || held != 0 {
		t.Errorf("holds %d, %v", held, err)
	}
}

func unpaidOrderIsPaidInTimeAndThenKept(t *testing.T, db Database) {
	s, ahead := db.clocked(t)
	o := Opened(t, s, Unpaid("k"), false)
	if o.Status != order.PaymentRequired || o.ExpiresAt == nil {
		t.Fatalf("opened %+v", o)
	}
	p := Paying(o)
	if got := Claim(t, s, p); got.Claim != checkout.Fresh || got.Order.ExpiresAt != nil || got.Order.Version != 2 {
		t.Fatalf("claimed %+v", got)
	}
	ahead.Store(int64(2 * time.Hour))
	if n := Expire(t, s, 10); n != 0 {
		t.Errorf("%d orders expired", n)
	}
	// Nor does it expire when its payment turns out dead, however much later.
	fence := ClaimOf(t, s, p)
	dead := p.Payment
	dead.Status, dead.DeadReason = payment.Dead, payment.ReasonExpired
	if err := ErrOf(s.Orders.MarkDead(t.Context(), fence, dead,
		MoveOf(p, order.Settling, order.PaymentRequired))); err != nil {
		t.Fatal(err)
	}
	if n := Expire(t, s, 10); n != 0 {
		t.Errorf("%d orders expired after a dead payment", n)
	}
	found, err := s.Orders.Find(t.Context(), o.ID)
	if err != nil || found.Status != order.PaymentRequired || found.ExpiresAt != nil {
		t.Fatalf("order %+v, %v", found, err)
	}
	if got := Claim(t, s, Paying(found)); got.Claim != checkout.Fresh {
		t.Errorf("the next payment: %+v", got)
	}
}

func ClaimOf(t *testing.T, s Store, p checkout.ClaimRequest) job.Fence {
	t.Helper()
	row, found, err := s.Jobs.Find(t.Context(), settlement.Fulfilling, p.Payment.ID.String())
	if err != nil || !found {
		t.Fatalf("the job: %t, %v", found, err)
	}
	return row.Fence()
}

func expiredOrderTakesNoPayment(t *testing.T, db Database) {
	for _, recorded := range []bool{true, false} {
		s, ahead := db.clocked(t)
		p := Paying(Opened(t, s, Unpaid(fmt.Sprint(recorded)), false))
		ahead.Store(int64(time.Hour + time.Second))
		if recorded {
			if n := Expire(t, s, 10); n != 1 {
				t.Fatalf("%d orders expired", n)
			}
		}
		got := Claim(t, s, p)
		if got.Claim != checkout.Repeated || got.Order.ID != p.Order.ID || (got.Order.Status == order.Expired) != recorded {
			t.Errorf("claimed %+v", got)
		}
		Unclaimed(t, s, p)
	}
}

// paymentAndExpiryHaveOneWinner lets two processes whose clocks differ do both at once.
func paymentAndExpiryHaveOneWinner(t *testing.T, db Database) {
	early := db.Open(t, nil)
	late, ahead := db.clocked(t)
	ahead.Store(int64(2 * time.Hour))
	paid := 0
	for round := range 40 {
		p := Paying(Opened(t, early, Unpaid(fmt.Sprint(round)), false))
		p.Reservations = nil
		var claimed checkout.ClaimResult
		var moved int
		var errs [2]error
		var both sync.WaitGroup
		both.Go(func() { claimed, errs[0] = early.Orders.Claim(t.Context(), p) })
		both.Go(func() { moved, errs[1] = late.Orders.Expire(t.Context(), 10) })
		both.Wait()
		if errs[0] != nil || errs[1] != nil {
			t.Fatal(errs)
		}
		won := claimed.Claim == checkout.Fresh
		if won {
			paid++
		}
		found, err := early.Orders.Find(t.Context(), p.Order.ID)
		if err != nil || won == (moved == 1) || won != (found.Status == order.Settling) ||
			won == (found.Status == order.Expired) {
			t.Fatalf("round %d: claim %d, %d expired, order %s, %v", round, claimed.Claim, moved, found.Status, err)
		}
		if !won {
			Unclaimed(t, early, p)
		}
	}
	t.Logf("%d of 40 were paid", paid)
}

func keyCreatesOneOrder(t *testing.T, db Database) {
	s := db.Open(t, nil)
	for _, alone := range []bool{false, true} {
		ids := raceToOpen(t, s, 8, alone, func(i int) order.Order {
			if alone {
				return Unpaid(order.Keyless(order.ID(fmt.Sprint("ord_", i))))
			}
			return Unpaid("k", func(o *order.Order) { o.Kind = topup.Kind })
		})
		if len(ids) != 1 {
			t.Errorf("alone %t: %d orders", alone, len(ids))
		}
	}
	// Orders with keys of their own are many, and so are those without, when they may be.
	ids := raceToOpen(t, s, 4, false, func(i int) order.Order { return Unpaid(fmt.Sprint("own-", i)) })
	if len(ids) != 4 {
		t.Errorf("%d orders of four keys", len(ids))
	}
}

func raceToOpen(t *testing.T, s Store, n int, alone bool, make func(i int) order.Order) map[order.ID]bool {
	t.Helper()
	var mu sync.Mutex
	ids := map[order.ID]bool{}
	var all sync.WaitGroup
	for i := range n {
		o := make(i)
		all.Go(func() {
			got, err := s.Orders.Create(t.Context(), o, checkout.Bounds{ReuseUnpaid: alone})
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

func orderIsCreatedAnewOnceTheLastOneIsOver(t *testing.T, db Database) {
	s, ahead := db.clocked(t)
	first := Opened(t, s, Unpaid("a"), true)
	if again := Opened(t, s, Unpaid("b"), true); again.ID != first.ID {
		t.Errorf("a second order %s in addition to %s", again.ID, first.ID)
	}
	Claim(t, s, Paying(first))
	second := Opened(t, s, Unpaid("c"), true)
	ahead.Store(int64(2 * time.Hour))
	third := Opened(t, s, Unpaid("d", func(o *order.Order) {
		until := o.CreatedAt.Add(3 * time.Hour)
		o.ID, o.ExpiresAt = order.NewID(until), &until
	}), true)
	if second.ID == first.ID || third.ID == second.ID {
		t.Errorf("orders %s, %s, %s", first.ID, second.ID, third.ID)
	}
	active, err := s.Orders.Orders(t.Context(), Payer, checkout.Query{Active: true, Limit: 10})
	if err != nil || len(active) != 2 || active[0].ID != third.ID || active[1].ID != first.ID {
		t.Errorf("active %+v, %v", active, err)
	}
}
