package job_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/job/jobtest"
)

func TestHeartbeatKeepsLeaseOfLongJob(t *testing.T) {
	story(t, func(k kitchen) {
		handler := func(ctx context.Context, _ *job.Lease) (job.Outcome, error) {
			select {
			case <-time.After(time.Hour):
				return job.Done(), nil
			case <-ctx.Done():
				return job.Outcome{}, context.Cause(ctx)
			}
		}
		stop := k.start(k.runner(job.Config{}, handler))
		stopOther := k.start(k.runner(job.Config{}, handler))
		k.enqueue(job.New{})
		settle(time.Hour + time.Second)
		if row := k.row("k"); row.Status != job.Succeeded || row.Attempt != 1 {
			t.Errorf("row %+v", row)
		}
		stop()
		stopOther()
	})
}

// deafQueue answers heartbeats as it is told.
type deafQueue struct {
	job.Queue
	beat func(ctx context.Context) (bool, error)
}

func (q deafQueue) Beat(ctx context.Context, f job.Fence, ttl time.Duration) (bool, error) {
	if q.beat != nil {
		return q.beat(ctx)
	}
	return q.Queue.Beat(ctx, f, ttl)
}

func TestLostLeaseCancelsTheHandler(t *testing.T) {
	for name, c := range map[string]struct {
		beat   func(context.Context) (bool, error)
		within time.Duration
	}{
		"the queue says so": {func(context.Context) (bool, error) { return false, nil }, 10 * time.Second},
		"the queue fails":   {func(context.Context) (bool, error) { return false, errBoom }, 30 * time.Second},
		"the queue does not answer": {func(ctx context.Context) (bool, error) { <-ctx.Done(); return false, ctx.Err() },
			30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(k kitchen) {
				claims := make(chan struct{}, 1)
				claims <- struct{}{}
				r := k.runner(job.Config{TTL: 30 * time.Second, Queue: deafQueue{k.queue, c.beat}},
					func(ctx context.Context, l *job.Lease) (job.Outcome, error) {
						select {
						case <-claims:
						default:
							return job.Snooze(time.Hour), nil
						}
						began := time.Now()
						<-ctx.Done()
						if !errors.Is(context.Cause(ctx), job.ErrLeaseLost) || time.Since(began) > c.within {
							t.Errorf("cancelled after %s: %v", time.Since(began), context.Cause(ctx))
						}
						return job.Done(), nil // what it says now is not written
					})
				stop := k.start(r)
				k.enqueue(job.New{})
				settle(5 * time.Minute)
				if row := k.row("k"); row.Status != job.Queued || row.Attempt != 2 {
					t.Errorf("row %+v", row)
				}
				stop()
			})
		})
	}
}

func TestSubmitMarksBeforeItSends(t *testing.T) {
	story(t, func(k kitchen) {
		stop := k.start(k.runner(job.Config{}, func(ctx context.Context, l *job.Lease) (job.Outcome, error) {
			if l.Step() == "ordering" {
				return job.Done(), nil // this attempt looks up instead
			}
			err := l.Submit(ctx, "ordering", 800*time.Millisecond, func(ctx context.Context) error {
				row := k.row("k")
				if row.Step != "ordering" || row.StepAt == nil || l.Step() != "ordering" || l.StepAt() == nil {
					t.Errorf("sent with the marker %q", row.Step)
				}
				if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > 800*time.Millisecond {
					t.Error("sent without the timeout's deadline")
				}
				<-ctx.Done()
				return ctx.Err()
			})
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, job.ErrNotSent) {
				t.Errorf("Submit: %v", err)
			}
			return job.Outcome{}, err
		}))
		k.enqueue(job.New{})
		settle(time.Minute)
		if row := k.row("k"); row.Status != job.Succeeded || row.Attempt != 2 {
			t.Errorf("row %+v", row)
		}
		stop()
	})
}

// slowQueue takes its time to record a marker, as a process that is paused in between would.
type slowQueue struct {
	job.Queue
	pause time.Duration
}

func (q slowQueue) Mark(ctx context.Context, f job.Fence, step string) error {
	<-time.After(q.pause)
	return q.Queue.Mark(ctx, f, step)
}

func TestSubmitSendsNothingWhenLateOrLost(t *testing.T) {
	story(t, func(k kitchen) {
		var results []error
		handler := func(ctx context.Context, l *job.Lease) (job.Outcome, error) {
			results = append(results, l.Submit(ctx, "ordering", time.Second, func(context.Context) error {
				t.Error("sent")
				return nil
			}))
			return job.Done(), nil
		}
		stop := k.start(k.runner(job.Config{Queue: slowQueue{k.queue, time.Second}}, handler))
		k.enqueue(job.New{UniqueKey: "late"})
		settle(time.Minute)
		stop()

		// The reaper has ended this claim, which its holder does not know yet.
		stop = k.start(k.runner(job.Config{}, func(ctx context.Context, l *job.Lease) (job.Outcome, error) {
			if err := k.queue.Finish(ctx, l.Fence(), job.Review("taken away")); err != nil {
				t.Error(err)
			}
			return handler(ctx, l)
		}))
		k.enqueue(job.New{UniqueKey: "lost"})
		settle(time.Minute)
		stop()
		if len(results) != 2 || !errors.Is(results[0], job.ErrNotSent) || !errors.Is(results[1], job.ErrNotSent) ||
			!errors.Is(results[1], job.ErrLeaseLost) {
			t.Errorf("Submit: %v", results)
		}
		if row := k.row("lost"); row.Step != "" || row.LastError != "taken away" {
			t.Errorf("row %+v", row)
		}
	})
}

func TestAdoptedJobOutlivesItsRequest(t *testing.T) {
	story(t, func(k kitchen) {
		handler := func(ctx context.Context, _ *job.Lease) (job.Outcome, error) {
			<-time.After(time.Minute)
			return job.Done(), ctx.Err()
		}
		r := k.runner(job.Config{AdoptOnly: true, Slots: 1}, handler)
		stop := k.start(r)
		for i := range 5 {
			n := r.Own(job.New{UniqueKey: fmt.Sprint(i)})
			r.Adopt(k.enqueue(n), handler)
		}
		k.enqueue(job.New{UniqueKey: "queued"})
		settle(2 * time.Minute)
		for i := range 5 {
			if row := k.row(fmt.Sprint(i)); row.Status != job.Succeeded || row.FinishedAt.Sub(row.CreatedAt) != time.Minute {
				t.Errorf("adopted row %+v", row)
			}
		}
		if row := k.row("queued"); row.Status != job.Queued {
			t.Errorf("a runner that only adopts made a queued job %s", row.Status)
		}
		stop()
	})
}

func TestAdoptNeedsTheLease(t *testing.T) {
	story(t, func(k kitchen) {
		handler := func(context.Context, *job.Lease) (job.Outcome, error) {
			t.Error("ran without a lease")
			return job.Done(), nil
		}
		r := k.runner(job.Config{AdoptOnly: true}, handler)
		stop := k.start(r)
		row := k.enqueue(r.Own(job.New{}))
		settle(time.Hour)
		r.Adopt(row, handler)
		settle(time.Second)
		stop()
	})
}

func TestStopLetsHandlersEndThenHandsBack(t *testing.T) {
	story(t, func(k kitchen) {
		handler := func(ctx context.Context, l *job.Lease) (job.Outcome, error) {
			work := time.Second
			if l.Row().UniqueKey == "long" && l.Row().Attempt == 1 {
				work = time.Hour
			}
			select {
			case <-time.After(work):
				return job.Done(), nil
			case <-ctx.Done():
				if !errors.Is(context.Cause(ctx), job.ErrShutdown) {
					t.Errorf("cause %v", context.Cause(ctx))
				}
				return job.Outcome{}, ctx.Err()
			}
		}
		r := k.runner(job.Config{Drain: 5 * time.Second}, handler)
		stop := k.start(r)
		k.enqueue(job.New{UniqueKey: "short"})
		k.enqueue(job.New{UniqueKey: "long", MaxAttempts: 1})
		synctest.Wait()
		began := time.Now()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("stopped after %s", took)
		}
		short, long := k.row("short"), k.row("long")
		if short.Status != job.Succeeded || long.Status != job.Queued || long.Used() != 0 {
			t.Errorf("short %s, long %+v", short.Status, long)
		}
		r.Adopt(k.enqueue(r.Own(job.New{UniqueKey: "late"})), handler)
		if late := k.row("late"); late.Status != job.Queued {
			t.Errorf("adopted after the stop: %s", late.Status)
		}
		stop = k.start(k.runner(job.Config{}, handler))
		settle(2 * time.Second)
		for _, row := range k.queue.Rows() {
			if row.Status != job.Succeeded {
				t.Errorf("another worker left %s %s", row.UniqueKey, row.Status)
			}
		}
		stop()
	})
}

// TestWaitEndsWhenTheProcessStops: an attempt that waits holds no stop up, and its job is handed back.
func TestWaitEndsWhenTheProcessStops(t *testing.T) {
	story(t, func(k kitchen) {
		waited := 0
		stop := k.start(k.runner(job.Config{}, func(ctx context.Context, l *job.Lease) (job.Outcome, error) {
			for ; l.Wait(ctx, time.Minute); waited++ {
			}
			return job.Snooze(time.Minute), nil
		}))
		k.enqueue(job.New{})
		settle(150 * time.Second)
		began := time.Now()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); waited != 2 || took != 0 {
			t.Errorf("waited %d times, and %s for the stop", waited, took)
		}
		if row := k.row("k"); row.Status != job.Queued || row.Attempt != 1 {
			t.Errorf("row %+v", row)
		}
	})
}

func TestStopReportsAHandlerThatIgnoresIt(t *testing.T) {
	story(t, func(k kitchen) {
		release := make(chan struct{})
		stop := k.start(k.runner(job.Config{}, func(context.Context, *job.Lease) (job.Outcome, error) {
			<-release
			return job.Done(), nil
		}))
		k.enqueue(job.New{})
		synctest.Wait()
		if err := stop(); err == nil {
			t.Error("no error")
		}
		close(release)
	})
}

// flakyQueue fails to store the first outcomes.
type flakyQueue struct {
	job.Queue
	failures *atomic.Int32
}

func (q flakyQueue) Finish(ctx context.Context, f job.Fence, o job.Outcome) error {
	if q.failures.Add(-1) >= 0 {
		return errBoom
	}
	return q.Queue.Finish(ctx, f, o)
}

func TestOutcomeIsStoredThroughShortTrouble(t *testing.T) {
	story(t, func(k kitchen) {
		var failures atomic.Int32
		failures.Store(2)
		runs := 0
		stop := k.start(k.runner(job.Config{Queue: flakyQueue{k.queue, &failures}},
			func(context.Context, *job.Lease) (job.Outcome, error) { runs++; return job.Done(), nil }))
		k.enqueue(job.New{})
		settle(time.Minute)
		if row := k.row("k"); row.Status != job.Succeeded || runs != 1 {
			t.Errorf("%s after %d runs", row.Status, runs)
		}
		stop()
	})
}

func TestAttemptJoinsTheTraceAndLogsOneLine(t *testing.T) {
	story(t, func(k kitchen) {
		spans := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		ctx, parent := provider.Tracer("test").Start(t.Context(), "purchase")
		var log bytes.Buffer
		r := job.NewRunner(job.Config{Queue: k.queue, Tracer: provider, Log: slog.New(slog.NewTextHandler(&log, nil))})
		r.Register(bake, func(context.Context, *job.Lease) (job.Outcome, error) { return job.Fail("refused"), nil })
		if _, err := k.queue.Enqueue(ctx, job.New{Args: jobtest.Args{Name: bake}, UniqueKey: "k"}); err != nil {
			t.Fatal(err)
		}
		stop := k.start(r)
		settle(time.Second)
		stop()
		ended := spans.Ended()
		if len(ended) != 1 || ended[0].Name() != "job bake" || ended[0].Parent().SpanID() != parent.SpanContext().SpanID() {
			t.Errorf("spans %v", ended)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "outcome=failed") ||
			!strings.Contains(log.String(), "reason=refused") {
			t.Errorf("log:\n%s", &log)
		}
	})
}
