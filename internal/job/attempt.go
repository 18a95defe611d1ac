package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/jitter"
	"github.com/roamcard/roamcard/internal/limit"
)

// attempt runs one claim to its outcome. asked is our clock before the claim was asked for: the lease
// has ended by asked+TTL at the latest, whatever the queue's clock says. It returns the class the attempt ended in.
func (r *Runner) attempt(row Row, handle Handler, asked time.Time, adopted bool) Class {
	started := r.Now()
	ctx, span := r.tracer.Start(withTraceparent(r.base, row.Traceparent), "job "+string(row.Kind),
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(
			attribute.String("job.id", row.ID.String()),
			attribute.String("job.kind", string(row.Kind)),
			attribute.Int("job.attempt", row.Attempt),
			attribute.Bool("job.adopted", adopted),
		))
	defer span.End()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if row.Class == Maintain {
		ctx = limit.WithUse(ctx, limit.ForBooks) // nobody waits for it
	}
	release := r.keep(row.Fence(), asked, cancel)
	defer release()

	lease := newLease(r.Queue, r.Now, row)
	lease.stopping = r.stopping
	lease.enter = func(from, to Class) bool { return r.enter(from, to, adopted) }
	outcome, err := r.call(ctx, lease, handle)
	outcome, err = r.conclude(ctx, lease, outcome, err)
	ended := lease.Row().Class
	if outcome.Status != "" {
		if outcome.Class == "" {
			outcome.Class = ended
		}
		if finishErr := r.finish(row.Fence(), outcome); finishErr != nil {
			err = errors.Join(err, finishErr)
			outcome.Status = ""
		}
	}
	switch outcome.Status {
	case Queued:
		r.wakeAt(outcome.Class, outcome.Delay)
	case Succeeded:
		err = errors.Join(err, r.clearParked(ctx, row.Kind))
	case "", Processing, Failed, OperatorReview:
	}
	r.report(ctx, span, lease.Row(), outcome, err, r.Now().Sub(started), adopted)
	return ended
}

// call runs the handler; a panic is an error like any other.
func (r *Runner) call(ctx context.Context, lease *Lease, handle Handler) (outcome Outcome, err error) {
	row := lease.Row()
	if handle == nil {
		return Outcome{}, fmt.Errorf("no handler for %q", row.Kind)
	}
	if row.Used() > row.MaxAttempts {
		// The last attempt ended with its process; this claim only parks the job.
		return Outcome{}, fmt.Errorf("given up: %s", row.LastError)
	}
	defer recovered(&err)
	outcome, err = handle(ctx, lease)
	if err == nil && outcome.Status == "" && !outcome.recorded {
		err = errors.New("handler gave no outcome")
	}
	return outcome, err
}

func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// conclude turns the handler's result into the outcome to store: none when the lease is lost or the handler has
// recorded the outcome itself.
func (r *Runner) conclude(ctx context.Context, lease *Lease, outcome Outcome, err error) (Outcome, error) {
	lost := errors.Is(context.Cause(ctx), ErrLeaseLost) || errors.Is(err, ErrLeaseLost)
	switch row := lease.Row(); {
	case lost:
		return Outcome{}, errors.Join(err, ErrLeaseLost)
	case err == nil && outcome.recorded:
		return Outcome{}, nil
	case err == nil:
		if outcome.Status == Queued && outcome.Reason == "" {
			outcome.Reason = lease.Reason()
		}
		return outcome, nil
	case ctx.Err() != nil:
		return Release(err.Error()), err
	case row.Used() >= row.MaxAttempts:
		return r.park(ctx, lease, err)
	default:
		return Retry(err.Error(), backoff(row.Used())), err
	}
}

// park calls OnParked before the job is parked. Called afterwards, it would be skipped by a crash in between.
func (r *Runner) park(ctx context.Context, lease *Lease, cause error) (Outcome, error) {
	used := lease.Row().Used()
	hook := func() (err error) {
		defer recovered(&err)
		if r.OnParked == nil {
			return nil
		}
		return r.OnParked(ctx, lease, cause.Error())
	}
	if err := hook(); err != nil {
		err = errors.Join(cause, fmt.Errorf("park job: %w", err))
		if errors.Is(err, ErrLeaseLost) {
			return Outcome{}, err
		}
		return Retry(err.Error(), backoff(used)), err
	}
	return Review(fmt.Sprintf("gave up after %d attempts: %v", used, cause)), cause
}

// backoff doubles from 400 ms to 12.8 s, and then grows by a quarter of a second with each attempt to two minutes, plus
// up to a fifth of jitter.
func backoff(used int) time.Duration {
	const doublings, most = 6, 2 * time.Minute
	used = min(max(used, 1), 1000)
	d := 200*time.Millisecond<<min(used, doublings) + time.Duration(max(used-doublings, 0))*250*time.Millisecond
	d = min(d, most)
	return d + jitter.Below(d/5)
}

// finish stores an outcome. It retries after an error, including an unknown commit: if the first try did commit, the
// second finds the lease ended and changes nothing. When all tries fail, the job is reclaimed when its lease expires.
func (r *Runner) finish(f Fence, o Outcome) error {
	var err error
	for pause := 100 * time.Millisecond; ; pause *= 2 {
		ctx, cancel := fault.Outlive(r.base, time.Second)
		next := r.Queue.Finish(ctx, f, o)
		cancel()
		if next == nil {
			return nil
		}
		err = errors.Join(err, next)
		if errors.Is(next, ErrLeaseLost) || pause > time.Second {
			return fmt.Errorf("finish job as %s: %w", o.Status, err)
		}
		time.Sleep(pause)
	}
}

// keep holds the lease by a heartbeat at each third of the TTL and cancels the handler when it is lost:
// when the queue says so, or when our own deadline passes without an answer. The returned function ends
// it.
func (r *Runner) keep(f Fence, asked time.Time, cancel context.CancelCauseFunc) func() {
	ctx, stop := context.WithCancel(context.WithoutCancel(r.base))
	lose := func() { cancel(ErrLeaseLost) }
	watchdog := time.AfterFunc(asked.Add(r.TTL).Sub(r.Now()), lose)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(r.TTL / 3)
		defer ticker.Stop()
		for deadline := asked.Add(r.TTL); ; {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			asked := r.Now()
			if !before(asked, deadline) {
				lose()
				return
			}
			beatCtx, cancelBeat := fault.Within(ctx, deadline.Sub(asked))
			held, err := r.Queue.Beat(beatCtx, f, r.TTL)
			cancelBeat()
			switch {
			case err != nil: // unknown: the deadline stays, and the next heartbeat may still extend the lease
			case !held:
				lose()
				return
			default:
				deadline = asked.Add(r.TTL)
				watchdog.Reset(deadline.Sub(r.Now()))
			}
		}
	}()
	return func() {
		stop()
		<-done
		watchdog.Stop()
	}
}

// report writes the attempt's log line and ends its span.
func (r *Runner) report(
	ctx context.Context, span trace.Span, row Row, o Outcome, err error, took time.Duration, adopted bool,
) {
	outcome := string(o.Status)
	level := slog.LevelInfo
	switch {
	case errors.Is(err, ErrLeaseLost):
		outcome, level = "lease_lost", slog.LevelWarn
	case err != nil && outcome == "":
		outcome, level = "unrecorded", slog.LevelError
	case o.Status == OperatorReview || o.Status == Failed:
		level = slog.LevelError
	case err != nil:
		level = slog.LevelWarn
	case outcome == "":
		outcome = "recorded"
	}
	attrs := []slog.Attr{
		slog.String("id", row.ID.String()),
		slog.String("kind", string(row.Kind)),
		slog.String("class", string(row.Class)),
		slog.String("unique_key", row.UniqueKey),
		slog.Int("attempt", row.Attempt),
		slog.String("outcome", outcome),
		slog.Duration("took", took),
		slog.Bool("adopted", adopted),
		slog.String("step", row.Step),
	}
	if o.Status == Queued {
		attrs = append(attrs, slog.Duration("delay", o.Delay))
	}
	if o.Reason != "" {
		attrs = append(attrs, slog.String("reason", o.Reason))
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
		span.RecordError(err)
		span.SetStatus(codes.Error, outcome)
	}
	span.SetAttributes(attribute.String("job.outcome", outcome), attribute.String("job.step", row.Step))
	r.Metrics.Attempted(ctx, string(row.Kind), outcome)
	r.Log.LogAttrs(ctx, level, "job attempt", attrs...)
}
