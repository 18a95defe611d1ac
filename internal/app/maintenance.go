package app

import (
	"context"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/job"
)

// maintain looks after the relayers' open transactions.
type maintain struct{}

// Kind implements job.Args.
func (maintain) Kind() job.Kind { return "relayer_maintain" }

// prune deletes what is over: finished upkeep jobs, and old transactions of the relayers.
type prune struct{}

// Kind implements job.Args.
func (prune) Kind() job.Kind { return "prune" }

// expire ends the time of unpaid orders.
type expire struct{}

// Kind implements job.Args.
func (expire) Kind() job.Kind { return "order_expire" }

const (
	expireEvery   = 15 * time.Second
	expireBatch   = 200
	maintainEvery = 5 * time.Second
	pruneEvery    = 10 * time.Minute
	// keepMaintenance is how long finished upkeep jobs stay to be looked at.
	keepMaintenance = time.Hour
	pruneBatch      = 1000
)

// upkeep are the jobs that are not kept once they are over.
func (a *App) upkeep() []job.Kind {
	all := []job.Kind{maintain{}.Kind(), expire{}.Kind(), prune{}.Kind(), comparing{}.Kind(), attemptPruning{}.Kind(),
		refreshScreening{}.Kind()}
	for _, w := range a.productJobs() {
		if w.Args != nil {
			all = append(all, w.Kind)
		}
	}
	return all
}

// registerMaintenance adds the periodic jobs. There is no leader: every process queues them, one runs.
func (a *App) registerMaintenance() {
	r, s, relayer, upkeep := a.runner, a.store, a.relayer, a.upkeep()
	if relayer != nil {
		r.Register(maintain{}.Kind(), func(ctx context.Context, _ *job.Lease) (job.Outcome, error) {
			if err := relayer.Maintain(ctx); err != nil {
				return job.Outcome{}, fmt.Errorf("tend the relayers: %w", err)
			}
			return job.Done(), nil
		})
		r.Every(maintainEvery, maintain{})
	}
	r.Register(expire{}.Kind(), func(ctx context.Context, _ *job.Lease) (job.Outcome, error) {
		for {
			n, err := s.Orders().Expire(ctx, expireBatch)
			if err != nil {
				return job.Outcome{}, err
			}
			if n < expireBatch {
				return job.Done(), nil
			}
		}
	})
	r.Every(expireEvery, expire{})
	r.Register(prune{}.Kind(), func(ctx context.Context, _ *job.Lease) (job.Outcome, error) {
		for {
			n, err := s.Jobs().Prune(ctx, upkeep, time.Now().Add(-keepMaintenance), pruneBatch)
			if err != nil {
				return job.Outcome{}, fmt.Errorf("prune jobs: %w", err)
			}
			if n < pruneBatch {
				break
			}
		}
		if err := a.config.pruneAttempts(ctx, s.Attempts()); err != nil {
			return job.Outcome{}, err
		}
		return job.Done(), nil
	})
	r.Every(pruneEvery, prune{})
}
