package app

import (
	"context"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/activity"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/store"
)

// attemptPruning deletes what is past its retention: product events, challenges and sessions, orders that expired
// unpaid; and counts and locks that nobody needs any more.
type attemptPruning struct{}

// Kind implements job.Args.
func (attemptPruning) Kind() job.Kind { return "forget" }

const pruneAttemptsEvery = 10 * time.Minute

func (c Config) activity(s *store.Store) *activity.Activity {
	return activity.New(activity.Config{Store: s.Events(), Now: time.Now, Retention: c.EventsRetention,
		MostStored: c.EventsMost})
}

func (c Config) retention(s *store.Store) auth.Retention {
	return auth.Retention{Store: s.Leftovers(), Now: time.Now, Keep: c.AuthRetention}
}

// defaultExpiredRetention is how long orders that expired unpaid are kept when no time is configured.
const defaultExpiredRetention = 24 * time.Hour

const (
	attemptsBatch = 500
	// attemptsBatches bounds one run.
	attemptsBatches = 200
)

// registerRetention adds the periodic job that forgets.
func registerRetention(
	r *job.Runner, s *store.Store, expired time.Duration, events *activity.Activity, signIns auth.Retention,
) {
	r.Register(attemptPruning{}.Kind(), func(ctx context.Context, _ *job.Lease) (job.Outcome, error) {
		// A stranger may write as fast as the limits let all addresses: one run keeps up with that.
		if err := untilNone(ctx, events.Prune); err != nil {
			return job.Outcome{}, fmt.Errorf("forget events: %w", err)
		}
		if err := untilNone(ctx, signIns.Prune); err != nil {
			return job.Outcome{}, fmt.Errorf("forget sign-ins: %w", err)
		}
		before := time.Now().Add(-expired)
		for _, prune := range []func(context.Context, int) (int, error){
			func(ctx context.Context, n int) (int, error) { return s.Orders().PruneExpired(ctx, before, n) },
			s.PruneRates, s.PruneLocks,
		} {
			batch := func(ctx context.Context) (int, error) { return prune(ctx, attemptsBatch) }
			if err := untilNone(ctx, batch); err != nil {
				return job.Outcome{}, err
			}
		}
		return job.Done(), nil
	})
	r.Every(pruneAttemptsEvery, attemptPruning{})
}

// untilNone prunes until there is nothing left, or for as long as one run may.
func untilNone(ctx context.Context, prune func(context.Context) (int, error)) error {
	for range attemptsBatches {
		if n, err := prune(ctx); err != nil || n == 0 {
			return err
		}
	}
	return nil
}
