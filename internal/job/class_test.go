package job_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/job/jobtest"
	"github.com/roamcard/roamcard/internal/limit"
)

// TestClassUsesOnlyItsOwnSlots fills one class with jobs that do not end. The jobs of the other classes run at once.
func TestClassUsesOnlyItsOwnSlots(t *testing.T) {
	for _, stuck := range job.Classes() {
		t.Run(string(stuck), func(t *testing.T) {
			story(t, func(k kitchen) {
				stop := k.start(k.runner(job.Config{Slots: 2, Poll: time.Hour, Drain: time.Millisecond},
					func(ctx context.Context, l *job.Lease) (job.Outcome, error) {
						if l.Row().Class == stuck {
							<-ctx.Done()
							return job.Outcome{}, ctx.Err()
						}
						return job.Done(), nil
					}))
				for i := range 10 {
					k.enqueue(job.New{UniqueKey: fmt.Sprint("stuck-", i), Class: stuck})
				}
				settle(time.Second)
				for _, class := range job.Classes() {
					if class == stuck {
						continue
					}
					row := k.enqueue(job.New{UniqueKey: "free-" + string(class), Class: class})
					settle(100 * time.Millisecond)
					if row = k.row(row.UniqueKey); row.Status != job.Succeeded {
						t.Errorf("a job to %s is %s", class, row.Status)
					}
				}
				running := 0
				for _, row := range k.queue.Rows() {
					if row.Status == job.Processing {
						running++
					}
				}
				if running != 2 {
					t.Errorf("%d jobs to %s run in two slots", running, stuck)
				}
				stop()
			})
		})
	}
}

// TestJobsThatNobodyWaitsForLeaveQuotasToSales: their calls of vendors are for the books.
func TestJobsThatNobodyWaitsForLeaveQuotasToSales(t *testing.T) {
	story(t, func(k kitchen) {
		var mu sync.Mutex
		used := map[job.Class]limit.Use{}
		stop := k.start(k.runner(job.Config{}, func(ctx context.Context, l *job.Lease) (job.Outcome, error) {
			mu.Lock()
			defer mu.Unlock()
			used[l.Row().Class] = limit.UseOf(ctx)
			return job.Done(), nil
		}))
		for _, class := range job.Classes() {
			k.enqueue(job.New{UniqueKey: string(class), Class: class})
		}
		settle(time.Minute)
		stop()
		want := map[job.Class]limit.Use{
			job.Settle: limit.ForSale, job.Deliver: limit.ForSale, job.Maintain: limit.ForBooks,
		}
		if !maps.Equal(used, want) {
			t.Errorf("used for %v, want %v", used, want)
		}
	})
}

func TestClassSlotsAreConfigurable(t *testing.T) {
	story(t, func(k kitchen) {
		var running atomic.Int32
		var mu sync.Mutex
		most := map[job.Class]int32{}
		stop := k.start(k.runner(job.Config{Slots: 3, ClassSlots: map[job.Class]int{job.Settle: 1}},
			func(_ context.Context, l *job.Lease) (job.Outcome, error) {
				n := running.Add(1)
				<-time.After(time.Second)
				mu.Lock()
				most[l.Row().Class] = max(most[l.Row().Class], n)
				mu.Unlock()
				running.Add(-1)
				return job.Done(), nil
			}))
		for class, want := range map[job.Class]int32{job.Settle: 1, job.Deliver: 3} {
			for i := range 6 {
				k.enqueue(job.New{UniqueKey: fmt.Sprint(class, i), Class: class})
			}
			settle(20 * time.Second)
			if most[class] != want {
				t.Errorf("%d jobs to %s at once, want %d", most[class], class, want)
			}
		}
		stop()
	})
}

// TestEnterMovesJobToAnotherClass continues at once in a free slot of the other class and frees the old one; without a
// free slot the job waits in the queue.
func TestEnterMovesJobToAnotherClass(t *testing.T) {
	story(t, func(k kitchen) {
		release := make(chan struct{})
		var entered, waited atomic.Int32
		stop := k.start(k.runner(job.Config{Slots: 1}, func(_ context.Context, l *job.Lease) (job.Outcome, error) {
			if l.Row().Class == job.Settle && !l.Enter(job.Deliver) {
				waited.Add(1)
				return job.HandOver(job.Deliver), nil
			}
			entered.Add(1)
			<-release
			return job.Done(), nil
		}))
		k.enqueue(job.New{UniqueKey: "first", Class: job.Settle})
		settle(time.Second)
		k.enqueue(job.New{UniqueKey: "second", Class: job.Settle})
		settle(time.Second)
		if entered.Load() != 1 || waited.Load() != 1 {
			t.Fatalf("%d deliver and %d wait, want one each", entered.Load(), waited.Load())
		}
		if row := k.row("second"); row.Class != job.Deliver || row.Status != job.Queued || row.Used() != 0 {
			t.Errorf("who waits is %+v", row)
		}
		k.enqueue(job.New{UniqueKey: "third", Class: job.Settle})
		settle(time.Second)
		if waited.Load() != 2 {
			t.Errorf("%d wait: the slot to settle in is not free", waited.Load())
		}
		close(release)
		settle(5 * time.Second)
		for _, key := range []string{"first", "second", "third"} {
			if row := k.row(key); row.Status != job.Succeeded || row.Class != job.Deliver {
				t.Errorf("%s is %s to %s", key, row.Status, row.Class)
			}
		}
		stop()
	})
}

// TestSnoozeShorterThanPollIsOnTime runs a job when it is due, before the next poll.
func TestSnoozeShorterThanPollIsOnTime(t *testing.T) {
	story(t, func(k kitchen) {
		began := time.Now()
		var again time.Duration
		stop := k.start(k.runner(job.Config{Poll: 10 * time.Second},
			func(_ context.Context, l *job.Lease) (job.Outcome, error) {
				if l.Row().Attempt == 1 {
					return job.Snooze(100 * time.Millisecond), nil
				}
				again = time.Since(began)
				return job.Done(), nil
			}))
		k.enqueue(job.New{Class: job.Settle})
		settle(time.Second)
		if again < 100*time.Millisecond || again > 150*time.Millisecond {
			t.Errorf("run again after %v, want 100ms", again)
		}
		stop()
	})
}

// TestPeriodicJobsDoNotPileUp queues no job while another of its kind waits or runs.
func TestPeriodicJobsDoNotPileUp(t *testing.T) {
	story(t, func(k kitchen) {
		var runs atomic.Int32
		release := make(chan struct{})
		handler := func(context.Context, *job.Lease) (job.Outcome, error) {
			if runs.Add(1) == 1 {
				<-release
			}
			return job.Done(), nil
		}
		var stops []func() error
		for range 2 {
			r := k.runner(job.Config{Slots: 1}, handler)
			r.Every(time.Minute, jobtest.Args{Name: bake})
			stops = append(stops, k.start(r))
		}
		settle(time.Hour)
		if n := len(k.queue.Rows()); n != 1 {
			t.Errorf("%d jobs after an hour of one that runs", n)
		}
		close(release)
		settle(5 * time.Minute)
		if n := runs.Load(); n < 5 || n > 6 {
			t.Errorf("%d runs five minutes later", n)
		}
		for _, stop := range stops {
			stop()
		}
	})
}

// TestSuccessClearsParkedPeriodicJobs deletes the parked jobs of a periodic kind, and keeps those of other kinds.
func TestSuccessClearsParkedPeriodicJobs(t *testing.T) {
	story(t, func(k kitchen) {
		var works atomic.Bool
		r := k.runner(job.Config{}, func(context.Context, *job.Lease) (job.Outcome, error) {
			if !works.Load() {
				return job.Review("broken"), nil
			}
			return job.Done(), nil
		})
		const other job.Kind = "other"
		r.Register(other, func(context.Context, *job.Lease) (job.Outcome, error) { return job.Review("odd"), nil })
		r.Every(time.Minute, jobtest.Args{Name: bake})
		stop := k.start(r)
		if _, err := k.queue.Enqueue(t.Context(), job.New{Args: jobtest.Args{Name: other}, UniqueKey: "other"}); err != nil {
			t.Fatal(err)
		}
		settle(3*time.Minute + time.Second)
		parked := func(kind job.Kind) (n int) {
			for _, row := range k.queue.Rows() {
				if row.Kind == kind && row.Status == job.OperatorReview {
					n++
				}
			}
			return n
		}
		if n := parked(bake); n < 3 {
			t.Fatalf("%d parked, want one for each period", n)
		}
		works.Store(true)
		settle(2 * time.Minute)
		if n := parked(bake); n != 0 {
			t.Errorf("%d parked after a success", n)
		}
		if n := parked(other); n != 1 {
			t.Errorf("%d of another kind are parked, want the one that was", n)
		}
		stop()
	})
}
