package job

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/faultpoint"
)

type periodic struct {
	args   Args
	period time.Duration
}

// Every queues a job of args in each period, unless one of its kind is open: work that takes longer than its
// period, or that waits for a slot, does not pile up. There is no leader: every process inserts the job of the
// present period, and its unique key, the period's start in UTC, lets one through. Periods in which no
// process ran are not made up for. Jobs of the kind that were parked disappear when one succeeds. Call it
// before Run.
func (r *Runner) Every(period time.Duration, args Args) {
	if period < time.Second {
		panic(fmt.Sprintf("job: %s every %s", args.Kind(), period))
	}
	r.periodic = append(r.periodic, periodic{args: args, period: period})
}

func (r *Runner) periodicLoop(ctx context.Context, p periodic) {
	for ctx.Err() == nil {
		start := r.Now().UTC().Truncate(p.period)
		wait := start.Add(p.period).Sub(r.Now())
		if err := r.enqueuePeriod(ctx, p, start); err != nil && ctx.Err() == nil {
			r.Log.Warn("periodic job not queued", "kind", p.args.Kind(), "error", err)
			wait = min(wait, p.period/10+time.Second)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (r *Runner) enqueuePeriod(ctx context.Context, p periodic, start time.Time) error {
	ctx, cancel := fault.Within(ctx, 5*time.Second)
	defer cancel()
	_, err := r.Queue.Enqueue(ctx, New{
		Args: p.args, UniqueKey: periodKey(p.args.Kind(), start), RunAt: start, Exclusive: true,
	})
	return err
}

func periodKey(kind Kind, start time.Time) string {
	return string(kind) + "|" + start.UTC().Format(time.RFC3339)
}

// clearBatch bounds what one success of a periodic job clears.
const clearBatch = 1000

// clearParked deletes the parked jobs of a periodic kind after a success. It runs again after the next success.
func (r *Runner) clearParked(ctx context.Context, kind Kind) error {
	if !slices.ContainsFunc(r.periodic, func(p periodic) bool { return p.args.Kind() == kind }) {
		return nil
	}
	ctx, cancel := fault.Outlive(ctx, 5*time.Second)
	defer cancel()
	faultpoint.Reach("periodic.succeeded")
	n, err := r.Queue.ClearParked(ctx, kind, clearBatch)
	if err != nil {
		return fmt.Errorf("clear parked jobs: %w", err)
	}
	if n > 0 {
		r.Log.InfoContext(ctx, "parked periodic jobs cleared", "kind", kind, "count", n)
	}
	return nil
}
