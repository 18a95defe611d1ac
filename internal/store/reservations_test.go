package store_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
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

// TestProvenPaymentIsNotUnpaid: an operator has proven it.
func TestProvenPaymentIsNotUnpaid(t *testing.T) {
	s := storetest.New(t)
	p := claimRequest("proven", reserving(order.Reservation{
		Resource: "float/card", Units: 1, Limit: 1000, AsOf: time.Now(), Refusal: fault.FloatUnavailable,
	}))
	claim(t, s, p)
	m, act := move(p, order.Settling, order.Settled), order.OperatorContext{Operator: "ada", Key: "k", Reason: "seen"}
	if err := s.Admin().Prove(t.Context(), settled(p), m, watchJob(p), act); err != nil {
		t.Fatal(err)
	}
	if unpaid, err := s.Cards().Unpaid(t.Context(), "float/card"); err != nil || unpaid != 0 {
		t.Errorf("%d of an order that an operator has proven count as unpaid: %v", unpaid, err)
	}
}
