package app

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/activity"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store"
)

// retentionArgs are the arguments of the job that rolls product events up, and deletes what is past its retention:
// product events, challenges and sessions, expired orders, the jobs, reservations and timelines of final ones, reads of
// operators, old comparisons of the books, and unused rate counters and locks.
type retentionArgs struct{}

// Kind implements job.Args.
func (retentionArgs) Kind() job.Kind { return "retention" }

// boundArgs are the arguments of the job that keeps the totals of what strangers have stored.
type boundArgs struct{}

// Kind implements job.Args.
func (boundArgs) Kind() job.Kind { return "bound" }

const (
	retentionEvery = 10 * time.Minute
	boundEvery     = time.Minute
)

func (c Config) activity(s *store.Store) *activity.Activity {
	return activity.New(activity.Config{
		Store: s.Events(), Now: c.now, Retention: c.EventsRetention, MostStored: c.EventsMost,
	})
}

func (c Config) retention(s *store.Store) auth.Retention {
	return auth.Retention{Store: s.ExpiredChallenges(), Now: c.now, Keep: c.AuthRetention}
}

// defaultExpiredRetention is the default of Config.ExpiredRetention.
const defaultExpiredRetention = 24 * time.Hour

// defaultWorkRetention is the default of Config.WorkRetention.
const defaultWorkRetention = 30 * 24 * time.Hour

// defaultHistoryRetention is the default of Config.TimelineRetention, Config.ReadRetention and
// Config.ReconcileRetention.
const defaultHistoryRetention = 365 * 24 * time.Hour

const (
	retentionBatch = 500
	// retentionBatches bounds one run.
	retentionBatches = 200
)

// registerRetention adds the periodic jobs that apply the retentions and the totals.
func registerRetention(
	r *job.Runner, s *store.Store, c Config, events *activity.Activity, signIns auth.Retention,
) {
	r.Register(retentionArgs{}.Kind(), func(ctx context.Context, _ *job.Lease) (job.Outcome, error) {
		if err := events.RollUp(ctx); err != nil {
			return job.Outcome{}, fmt.Errorf("roll events up: %w", err)
		}
		// One run deletes as much as callers can write in a period within the rate limits of all addresses.
		if err := untilNone(ctx, events.Prune); err != nil {
			return job.Outcome{}, fmt.Errorf("prune events: %w", err)
		}
		if err := untilNone(ctx, signIns.Prune); err != nil {
			return job.Outcome{}, fmt.Errorf("prune sign-ins: %w", err)
		}
		past := func(set, byDefault time.Duration) time.Time { return c.now().Add(-cmp.Or(set, byDefault)) }
		expired := past(c.ExpiredRetention, defaultExpiredRetention)
		worked := past(c.WorkRetention, defaultWorkRetention)
		told := past(c.TimelineRetention, defaultHistoryRetention)
		read := past(c.ReadRetention, defaultHistoryRetention)
		compared := past(c.ReconcileRetention, defaultHistoryRetention)
		for _, kind := range orderJobs() {
			batch := func(ctx context.Context) (int, error) {
				return s.Jobs().PruneOfFinal(ctx, kind, worked, retentionBatch)
			}
			if err := untilNone(ctx, batch); err != nil {
				return job.Outcome{}, err
			}
		}
		for _, prune := range []func(context.Context, int) (int, error){
			func(ctx context.Context, n int) (int, error) { return s.Orders().PruneExpired(ctx, expired, n) },
			func(ctx context.Context, n int) (int, error) {
				return s.Webhooks().Prune(ctx, c.now().Add(-eventsKept), n)
			},
			func(ctx context.Context, n int) (int, error) { return s.PruneReservations(ctx, worked, n) },
			func(ctx context.Context, n int) (int, error) { return s.Orders().PruneTimeline(ctx, told, n) },
			func(ctx context.Context, n int) (int, error) { return s.PruneReads(ctx, read, n) },
			func(ctx context.Context, n int) (int, error) { return s.PruneComparisons(ctx, compared, n) },
			s.PruneRates, s.PruneLocks,
		} {
			batch := func(ctx context.Context) (int, error) { return prune(ctx, retentionBatch) }
			if err := untilNone(ctx, batch); err != nil {
				return job.Outcome{}, err
			}
		}
		return job.Done(), nil
	})
	r.Every(retentionEvery, retentionArgs{})
	r.Register(boundArgs{}.Kind(), func(ctx context.Context, _ *job.Lease) (job.Outcome, error) {
		return job.Done(), untilNone(ctx, func(ctx context.Context) (int, error) {
			return s.Bound(ctx, store.DefaultTotals(), retentionBatch)
		})
	})
	r.Every(boundEvery, boundArgs{})
}

// orderJobs are the kinds of jobs that nothing reads once their order is final.
func orderJobs() []job.Kind {
	return []job.Kind{settlement.Fulfilling, settlement.Confirming, settlement.RefundConfirming}
}

// untilNone prunes until there is nothing left, or as often as one run may.
func untilNone(ctx context.Context, prune func(context.Context) (int, error)) error {
	for range retentionBatches {
		if n, err := prune(ctx); err != nil || n == 0 {
			return err
		}
	}
	return nil
}
