package job

import (
	"context"
	"fmt"
	"time"
)

type periodic struct {
	args   Args
	period time.Duration
}

// Every queues a job of args in each period. There is no leader: every process inserts the job of the
// present period, and its unique key, the period's start in UTC, lets one through. Periods in which no
// process ran are not made up for. Call it before Run.
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
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := r.Queue.Enqueue(ctx, New{Args: p.args, UniqueKey: periodKey(p.args.Kind(), start), RunAt: start})
	return err
}

func periodKey(kind Kind, start time.Time) string {
	return string(kind) + "|" + start.UTC().Format(time.RFC3339)
}
