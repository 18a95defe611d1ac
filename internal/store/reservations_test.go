package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// Orders of all sizes take of one resource at once, far below its limit, up to it, and beyond. Nothing is given
// back, so whoever was refused does not fit at the end either.
func TestShardsNeitherOversellNorLeaveAnythingUnsold(t *testing.T) {
	s := storetest.New(t)
	const most = 10
	for round := range 26 {
		// Far from the edge at first, or at it from the beginning.
		resource, limit, units := fmt.Sprint("float/", round), int64(60+rand.IntN(150)), make([]int64, 40)
		if round%6 > 0 {
			limit, units = int64(most+rand.IntN(most)), make([]int64, 8)
		}
		errs := make([]error, len(units))
		var group sync.WaitGroup
		for i := range units {
			units[i] = 1 + rand.Int64N(most+2) // one in six is larger than the others allow for
			group.Go(func() {
				_, errs[i] = s.Orders().Claim(t.Context(), claimRequest(fmt.Sprint(round, "-", i), reserving(order.Reservation{
					Resource: resource, Units: units[i], Most: most, Limit: limit, AsOf: time.Now(), Refusal: fault.FloatUnavailable,
				})))
			})
		}
		group.Wait()
		held, err := s.Cards().Reserved(t.Context(), resource, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var sold int64
		for i, err := range errs {
			switch {
			case err == nil:
				sold += units[i]
			case !isShort(err):
				t.Errorf("claim: %v", err)
			case held+units[i] <= limit:
				t.Errorf("%d were refused, with %d of %d taken at the end", units[i], held, limit)
			}
		}
		if sold != held || held > limit {
			t.Errorf("sold %d, held %d of %d", sold, held, limit)
		}
	}
}

// What a claim takes in one shard is not seen in the others before it commits: their claims leave room for it, or wait.
func TestShardsLeaveRoomForWhatIsNotCommitted(t *testing.T) {
	s := storetest.New(t)
	for round := range 4 { // the shard of the second claim is drawn, and may be the first's
		resource := fmt.Sprint("float/", round)
		first, err := s.Pool().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for sql, args := range map[string][]any{
			"INSERT INTO locks (id) VALUES ($1)": {resource + "#0"},
			`INSERT INTO reservations (id, order_id, owner, resource, units, created_at)
				VALUES (gen_random_uuid(), $1, '', $1, 10, now())`: {resource},
		} {
			if _, err := first.Exec(t.Context(), sql, args...); err != nil {
				t.Fatal(err)
			}
		}
		ended := make(chan struct{})
		var second error
		go func() {
			defer close(ended)
			_, second = s.Orders().Claim(t.Context(), claimRequest(fmt.Sprint("second-", round), reserving(order.Reservation{
				Resource: resource, Units: 10, Most: 10, Limit: 15, AsOf: time.Now(), Refusal: fault.FloatUnavailable,
			})))
		}()
		awaitWaiting(t, s, 1, ended)
		if err := first.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-ended
		if !isShort(second) {
			t.Errorf("10 more were taken of 15, with 10 on their way: %v", second)
		}
	}
}

// What payers without money reserve is released, however many they are. It is promised to others then: who pays after
// all reserves again, if there is something left.
func TestSuspendedReservationsPromiseNothing(t *testing.T) {
	s := storetest.New(t)
	const many = 120
	float := func(limit int64) order.Reservation {
		return order.Reservation{Resource: "float/card", Units: 1, Most: 2, Limit: limit, AsOf: time.Now().Add(-time.Minute),
			Refusal: fault.FloatUnavailable}
	}
	held := func(want int64) {
		t.Helper()
		got, err := s.Cards().Reserved(t.Context(), "float/card", time.Now().Add(time.Minute))
		if err != nil || got != want {
			t.Errorf("%d held, want %d: %v", got, want, err)
		}
	}
	var poor []checkout.ClaimRequest
	var fences []job.Fence
	for i := range many {
		p := claimRequest(fmt.Sprint("poor-", i), owned(i), reserving(float(1000)))
		fences, poor = append(fences, claim(t, s, p).Job.Fence()), append(poor, p)
	}
	held(many)
	for i, p := range poor {
		for range 2 { // at every look
			if err := s.Orders().Suspend(t.Context(), fences[i], p.Order.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	held(0)
	settle := func(i int) order.Order {
		t.Helper()
		o, err := s.Orders().Settle(t.Context(), fences[i], settled(poor[i]), move(poor[i], order.Settling, order.Settled),
			watchJob(poor[i]))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	begins := func(i int) error {
		return errOf(s.Orders().Move(t.Context(), fences[i], move(poor[i], order.Settled, order.Provisioning)))
	}
	first, second := settle(0), settle(1)
	held(0)
	if err := begins(0); !errors.Is(err, order.ErrSuspended) {
		t.Errorf("a delivery without a reservation begins: %v", err)
	}
	all, err := s.Orders().Suspended(t.Context(), first)
	if err != nil || len(all) != 1 || all[0].Resource != "float/card" || all[0].Units != 1 {
		t.Fatalf("suspended %+v, %v", all, err)
	}
	again := []order.Reservation{float(1)}
	if err := s.Orders().Resume(t.Context(), fences[0], first, again); err != nil {
		t.Fatal(err)
	}
	held(1)
	if err := s.Orders().Resume(t.Context(), fences[1], second, again); !isShort(err) {
		t.Errorf("one more than there is was reserved again: %v", err)
	}
	if err := s.Orders().Resume(t.Context(), fences[0], second, again); err == nil {
		t.Error("another's job reserved again")
	}
	held(1)
	for i, want := range []error{nil, order.ErrSuspended} {
		if err := begins(i); !errors.Is(err, want) {
			t.Errorf("delivery %d: %v, want %v", i, err, want)
		}
	}
	if n := rows(t, s, "SELECT count(*) FROM reservations WHERE released_at IS NULL "+
		"AND order_id = '"+string(first.ID)+"' AND settled_at IS NOT NULL AND suspended_at IS NULL"); n != 1 {
		t.Errorf("%d shares of the paid order are reserved and paid", n)
	}
}

// TestProvenPaymentIsNotUnpaid: an operator has proven it.
func TestProvenPaymentIsNotUnpaid(t *testing.T) {
	s := storetest.New(t)
	p := claimRequest("proven", reserving(order.Reservation{
		Resource: "float/card", Units: 1, Limit: 1000, AsOf: time.Now(), Refusal: fault.FloatUnavailable,
	}))
	claim(t, s, p)
	m, act := move(p, order.Settling, order.Settled), order.Act{Operator: "ada", Key: "k", Reason: "seen"}
	if err := s.Admin().Prove(t.Context(), settled(p), m, watchJob(p), act); err != nil {
		t.Fatal(err)
	}
	if unpaid, err := s.Cards().Unpaid(t.Context(), "float/card"); err != nil || unpaid != 0 {
		t.Errorf("%d of an order that an operator has proven count as unpaid: %v", unpaid, err)
	}
}

// TestShortageSaysWhetherUnpaidOrdersCauseIt: what is not paid may be there in a moment, what is paid will not.
func TestShortageSaysWhetherUnpaidOrdersCauseIt(t *testing.T) {
	s := storetest.New(t)
	one := func(key string, n int) checkout.ClaimRequest {
		return claimRequest(key, owned(n), reserving(order.Reservation{
			Resource: "float/card", Units: 10, Limit: 15, AsOf: time.Now(), Refusal: fault.FloatUnavailable,
		}))
	}
	told := func() fault.Code {
		t.Helper()
		_, err := s.Orders().Claim(t.Context(), one("honest", 2))
		short, ok := errors.AsType[*order.Shortage](err)
		if !ok {
			t.Fatalf("claim: %v", err)
		}
		return short.Fault().Code
	}
	p := one("stranger", 1)
	f := claim(t, s, p).Job.Fence()
	if got := told(); got != fault.FloatReserved {
		t.Errorf("%s while a stranger has not paid", got)
	}
	if err := errOf(s.Orders().Settle(t.Context(), f, settled(p), move(p, order.Settling, order.Settled),
		watchJob(p))); err != nil {
		t.Fatal(err)
	}
	if got := told(); got != fault.FloatUnavailable {
		t.Errorf("%s once it is sold", got)
	}
}
