package limit_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/limit"
)

// TestQuotaIsKeptInAnySecond, however many wait.
func TestQuotaIsKeptInAnySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perSecond, all = 8, 50
		q := limit.NewQuota(perSecond)
		var mu sync.Mutex
		var at []time.Time
		var waiting sync.WaitGroup
		for range all {
			waiting.Go(func() {
				if err := q.Wait(t.Context()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Now())
			})
		}
		waiting.Wait()
		for i := range at[perSecond:] {
			if apart := at[i+perSecond].Sub(at[i]); apart < time.Second {
				t.Errorf("%d calls within %s", perSecond+1, apart)
			}
		}
		if took := at[all-1].Sub(at[0]); took > all/perSecond*time.Second {
			t.Errorf("%d calls took %s", all, took)
		}
	})
}

// TestOwnersLeaveTheQuotaToSales: while any number of owners' calls and of those for the books wait, half of the quota
// is there for a sale at once, and a sale never waits behind them.
func TestOwnersLeaveTheQuotaToSales(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := limit.NewQuota(8)
		flood, stop := context.WithCancel(t.Context())
		var made [2]atomic.Int32
		var flooding sync.WaitGroup
		for i, use := range []limit.Use{limit.ForOwner, limit.ForBooks} {
			for range 20 {
				flooding.Go(func() {
					for q.Wait(limit.WithUse(flood, use)) == nil {
						made[i].Add(1)
					}
				})
			}
		}
		for range 10 {
			synctest.Wait()
			for range 4 {
				began := time.Now()
				if err := q.Wait(t.Context()); err != nil || time.Since(began) > 0 {
					t.Errorf("a sale waits %s, %v", time.Since(began), err)
				}
			}
			time.Sleep(time.Second)
		}
		stop()
		flooding.Wait()
		if n := made[0].Load() + made[1].Load(); n == 0 {
			t.Error("while there are sales, nobody else is served")
		}
	})
}

func TestCallWithoutTimeIsNotMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := limit.NewQuota(1)
		if err := q.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.Wait(short); !errors.Is(err, limit.ErrQuota) {
			t.Errorf("%v, want that it is not made", err)
		}
		long, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := q.Wait(long); err != nil {
			t.Error(err)
		}
		if err := limit.NewQuota(0).Wait(t.Context()); err != nil {
			t.Errorf("no quota: %v", err)
		}
	})
}
