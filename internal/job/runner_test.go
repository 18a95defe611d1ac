package job_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/job/jobtest"
	"github.com/roamcard/roamcard/internal/store/memory"
)

const bake job.Kind = "bake"

var errBoom = errors.New("boom")

// kitchen is a queue with runners on it, in a bubble of time of its own.
type kitchen struct {
	*testing.T
	queue memory.Jobs
}

// story runs a test in which time stands still unless everybody waits.
func story(t *testing.T, tell func(k kitchen)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { tell(kitchen{t, memory.New(nil).Jobs()}) })
}

// runner is started once its handler is set; the returned function stops it and waits.
func (k kitchen) start(r *job.Runner) (stop func() error) {
	ctx, cancel := context.WithCancel(k.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return func() error { cancel(); return <-done }
}

func (k kitchen) runner(c job.Config, h job.Handler) *job.Runner {
	if c.Queue == nil {
		c.Queue = k.queue
	}
	c.Log = slog.New(slog.NewTextHandler(k.Output(), nil))
	r := job.NewRunner(c)
	r.Register(bake, h)
	return r
}

func (k kitchen) enqueue(n job.New) job.Row {
	k.Helper()
	if n.Args == nil {
		n.Args = jobtest.Args{Name: bake}
	}
	if n.UniqueKey == "" {
		n.UniqueKey = "k"
	}
	if added, err := k.queue.Enqueue(k.Context(), n); !added || err != nil {
		k.Fatalf("Enqueue = %v, %v", added, err)
	}
	return k.row(n.UniqueKey)
}

func (k kitchen) row(key string) job.Row {
	k.Helper()
	row, found, err := k.queue.Find(k.Context(), bake, key)
	if err != nil || !found {
		k.Fatalf("Find %s = %v, %v", key, found, err)
	}
	return row
}

// settle lets d of the bubble's time go by.
func settle(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestQueuedJobIsDoneAtOnce(t *testing.T) {
	story(t, func(k kitchen) {
		stop := k.start(k.runner(job.Config{}, func(context.Context, *job.Lease) (job.Outcome, error) {
			return job.Done(), nil
		}))
		synctest.Wait()
		k.enqueue(job.New{})
		synctest.Wait()
		if row := k.row("k"); row.Status != job.Succeeded || row.Attempt != 1 || row.FinishedAt == nil {
			t.Errorf("row %+v", row)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestErrorsAreRetriedThenParked(t *testing.T) {
	story(t, func(k kitchen) {
		var runs []time.Duration
		var parked []string
		began := time.Now()
		stop := k.start(k.runner(job.Config{
			OnParked: func(_ context.Context, l *job.Lease, reason string) error {
				if l.Row().Status != job.Processing {
					t.Error("parked before the hook heard of it")
				}
				parked = append(parked, reason)
				return nil
			},
		}, func(context.Context, *job.Lease) (job.Outcome, error) {
			runs = append(runs, time.Since(began))
			return job.Outcome{}, errBoom
		}))
		k.enqueue(job.New{MaxAttempts: 3})
		settle(time.Minute)
		row := k.row("k")
		if row.Status != job.OperatorReview || len(runs) != 3 || !cmp.Equal(parked, []string{"boom"}) {
			t.Errorf("%s after %d runs, parked %q", row.Status, len(runs), parked)
		}
		if len(runs) == 3 && (runs[1]-runs[0] < 400*time.Millisecond || runs[2]-runs[1] < 800*time.Millisecond) {
			t.Errorf("runs at %v, without back-off", runs)
		}
		stop()
	})
}

func TestFailingParkHookIsTriedAgain(t *testing.T) {
	story(t, func(k kitchen) {
		var hooks, runs int
		stop := k.start(k.runner(job.Config{
			OnParked: func(context.Context, *job.Lease, string) error {
				if hooks++; hooks < 3 {
					panic("hook")
				}
				return nil
			},
		}, func(context.Context, *job.Lease) (job.Outcome, error) { runs++; return job.Outcome{}, errBoom }))
		k.enqueue(job.New{MaxAttempts: 1})
		settle(time.Minute)
		if row := k.row("k"); row.Status != job.OperatorReview || hooks != 3 || runs != 1 {
			t.Errorf("%s after %d hooks and %d runs", row.Status, hooks, runs)
		}
		stop()
	})
}

// The last attempt killed its process, so nobody parked the job: the next claim does, without running it.
func TestJobThatKillsItsProcessIsParked(t *testing.T) {
	story(t, func(k kitchen) {
		k.enqueue(job.New{MaxAttempts: 1})
		if rows, err := k.queue.Claim(t.Context(), "dead", job.Maintain, []job.Kind{bake}, 1, time.Second); len(rows) != 1 ||
			err != nil {
			t.Fatalf("Claim = %d, %v", len(rows), err)
		}
		hooks := 0
		stop := k.start(k.runner(job.Config{
			OnParked: func(context.Context, *job.Lease, string) error { hooks++; return nil },
		}, func(context.Context, *job.Lease) (job.Outcome, error) {
			t.Error("a job out of attempts ran")
			return job.Done(), nil
		}))
		settle(time.Minute)
		if row := k.row("k"); row.Status != job.OperatorReview || hooks != 1 {
			t.Errorf("%s after %d hooks", row.Status, hooks)
		}
		stop()
	})
}

func TestInvalidJobDoesNotBlockItsBatch(t *testing.T) {
	story(t, func(k kitchen) {
		for i := range 6 {
			k.enqueue(job.New{UniqueKey: fmt.Sprint(i), Args: jobtest.Args{Name: bake, Note: fmt.Sprint(i)}})
		}
		stop := k.start(k.runner(job.Config{}, func(_ context.Context, l *job.Lease) (job.Outcome, error) {
			args, err := job.Decode[jobtest.Args](l.Row())
			switch {
			case err != nil:
				return job.Outcome{}, err
			case args.Note == "2":
				panic("burnt")
			case args.Note == "3":
				return job.Outcome{}, nil // no outcome is no success
			}
			return job.Done(), nil
		}))
		settle(100 * time.Millisecond)
		for i := range 6 {
			want := job.Succeeded
			if i == 2 || i == 3 {
				want = job.Queued
			}
			if row := k.row(fmt.Sprint(i)); row.Status != want || (want == job.Queued) != (row.LastError != "") {
				t.Errorf("job %d is %s, %q", i, row.Status, row.LastError)
			}
		}
		stop()
	})
}

func TestSnoozeUsesNoAttempt(t *testing.T) {
	story(t, func(k kitchen) {
		runs := 0
		stop := k.start(k.runner(job.Config{}, func(context.Context, *job.Lease) (job.Outcome, error) {
			if runs++; runs <= 20 {
				return job.Snooze(time.Second), nil
			}
			return job.Done(), nil
		}))
		k.enqueue(job.New{MaxAttempts: 1})
		settle(time.Minute)
		if row := k.row("k"); row.Status != job.Succeeded || row.Used() != 1 || row.Attempt != 21 {
			t.Errorf("row %+v", row)
		}
		stop()
	})
}

func TestRecordedOutcomeIsNotWrittenAgain(t *testing.T) {
	story(t, func(k kitchen) {
		stop := k.start(k.runner(job.Config{}, func(ctx context.Context, l *job.Lease) (job.Outcome, error) {
			return job.Recorded(), k.queue.Finish(ctx, l.Fence(), job.Fail("in one transaction"))
		}))
		k.enqueue(job.New{})
		settle(time.Second)
		if row := k.row("k"); row.Status != job.Failed || row.LastError != "in one transaction" {
			t.Errorf("row %+v", row)
		}
		stop()
	})
}

func TestRunnerClaimsNoMoreThanFreeSlots(t *testing.T) {
	story(t, func(k kitchen) {
		var running, most, done atomic.Int32
		stop := k.start(k.runner(job.Config{Slots: 3}, func(context.Context, *job.Lease) (job.Outcome, error) {
			most.Store(max(most.Load(), running.Add(1)))
			<-time.After(time.Second)
			running.Add(-1)
			done.Add(1)
			return job.Done(), nil
		}))
		for i := range 30 {
			k.enqueue(job.New{UniqueKey: fmt.Sprint(i)})
		}
		// Ten rounds of a second leave no time to wait for a poll in between.
		settle(10*time.Second + 100*time.Millisecond)
		if most.Load() != 3 || done.Load() != 30 {
			t.Errorf("%d at once, %d done", most.Load(), done.Load())
		}
		for _, row := range k.queue.Rows() {
			if row.Attempt != 1 {
				t.Errorf("job %s was claimed %d times", row.UniqueKey, row.Attempt)
			}
		}
		stop()
	})
}

func TestPeriodicJobsRunOncePerPeriod(t *testing.T) {
	story(t, func(k kitchen) {
		var runs atomic.Int32
		handler := func(context.Context, *job.Lease) (job.Outcome, error) { runs.Add(1); return job.Done(), nil }
		var stops []func() error
		for range 3 {
			r := k.runner(job.Config{}, handler)
			r.Every(time.Hour, jobtest.Args{Name: bake})
			stops = append(stops, k.start(r))
		}
		settle(2*time.Hour + time.Minute)
		for _, stop := range stops {
			stop()
		}
		if runs.Load() != 3 {
			t.Errorf("%d runs in three periods", runs.Load())
		}
		settle(10 * time.Hour)
		r := k.runner(job.Config{}, handler)
		r.Every(time.Hour, jobtest.Args{Name: bake})
		stop := k.start(r)
		settle(time.Minute)
		if runs.Load() != 4 {
			t.Errorf("%d runs after a long stop, missed periods were made up for", runs.Load())
		}
		if row := k.queue.Rows()[0]; row.UniqueKey != "bake|2000-01-01T00:00:00Z" {
			t.Errorf("period key %s", row.UniqueKey)
		}
		stop()
	})
}

func TestRunnerAnnouncesItsWorkers(t *testing.T) {
	story(t, func(k kitchen) {
		live := func() int {
			workers, err := k.queue.Workers(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return workers[bake]
		}
		handler := func(context.Context, *job.Lease) (job.Outcome, error) { return job.Done(), nil }
		stop := k.start(k.runner(job.Config{}, handler))
		stopOther := k.start(k.runner(job.Config{AdoptOnly: true}, handler))
		settle(time.Hour)
		if n := live(); n != 1 {
			t.Errorf("%d live workers, want the one that claims", n)
		}
		stop()
		if n := live(); n != 0 {
			t.Errorf("%d live workers after the stop", n)
		}
		stopOther()
	})
}

// TestEachClaimHasAFenceOfItsOwn: a database that was put back counts attempts from where it was, and the same process
// may claim the same attempt once more while the first one still runs in it.
func TestEachClaimHasAFenceOfItsOwn(t *testing.T) {
	story(t, func(k kitchen) {
		var owners []string
		r := k.runner(job.Config{}, func(_ context.Context, l *job.Lease) (job.Outcome, error) {
			if owners = append(owners, l.Row().LeaseOwner); len(owners) == 1 {
				return job.Snooze(time.Second), nil
			}
			return job.Done(), nil
		})
		k.enqueue(job.New{})
		stop := k.start(r)
		time.Sleep(time.Minute)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if len(owners) != 2 || owners[0] == owners[1] || !strings.HasPrefix(owners[1], r.Owner()) {
			t.Errorf("the claims are of %q", owners)
		}
	})
}

// absent is a queue that is away at times.
type absent struct {
	memory.Jobs
	away atomic.Bool
}

func (a *absent) Claim(
	ctx context.Context, by string, class job.Class, kinds []job.Kind, limit int, ttl time.Duration,
) ([]job.Row, error) {
	if a.away.Load() {
		return nil, errBoom
	}
	return a.Jobs.Claim(ctx, by, class, kinds, limit, ttl)
}

// TestRunnerKnowsSinceWhenItWorks: since its start, and again since its queue is back.
func TestRunnerKnowsSinceWhenItWorks(t *testing.T) {
	story(t, func(k kitchen) {
		queue := &absent{Jobs: k.queue}
		r := k.runner(job.Config{Queue: queue}, func(context.Context, *job.Lease) (job.Outcome, error) {
			return job.Done(), nil
		})
		time.Sleep(time.Hour) // nobody has started it
		began := time.Now()
		stop := k.start(r)
		settle(time.Hour)
		if at := r.Working(); at.Sub(began) > time.Minute {
			t.Errorf("an hour after the start it works since %s of it", at.Sub(began))
		}
		queue.away.Store(true)
		settle(time.Hour)
		if at := r.Working(); !at.Equal(time.Now()) {
			t.Errorf("without its queue it works since %s ago", time.Since(at))
		}
		queue.away.Store(false)
		settle(time.Hour)
		if at := time.Since(r.Working()); at < 59*time.Minute || at > time.Hour {
			t.Errorf("an hour after its queue is back it works since %s ago", at)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
