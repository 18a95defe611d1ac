package app

import (
	"context"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/webhook"
)

// maintainArgs are the arguments of the job that maintains the relayers' open transactions.
type maintainArgs struct{}

// Kind implements job.Args.
func (maintainArgs) Kind() job.Kind { return "relayer_maintain" }

// pruneArgs are the arguments of the job that deletes finished maintenance jobs and old transactions of the relayers.
type pruneArgs struct{}

// Kind implements job.Args.
func (pruneArgs) Kind() job.Kind { return "prune" }

// expireArgs are the arguments of the job that expires unpaid orders.
type expireArgs struct{}

// Kind implements job.Args.
func (expireArgs) Kind() job.Kind { return "order_expire" }

const (
	expireEvery   = 15 * time.Second
	expireBatch   = 200
	maintainEvery = 5 * time.Second
	pruneEvery    = 10 * time.Minute
	// keepMaintenance is how long finished maintenance jobs are kept.
	keepMaintenance = time.Hour
	pruneBatch      = 1000
)

// unkeptJobs are the kinds of jobs that are deleted after they finish.
func (a *App) unkeptJobs() []job.Kind {
	all := []job.Kind{
		maintainArgs{}.Kind(), expireArgs{}.Kind(), pruneArgs{}.Kind(), reconcileArgs{}.Kind(), retentionArgs{}.Kind(),
		boundArgs{}.Kind(), screeningArgs{}.Kind(), webhook.Job,
	}
	for _, w := range a.productJobs() {
		if w.Args != nil {
			all = append(all, w.Kind)
		}
	}
	return all
}

// registerMaintenance adds the periodic jobs. There is no leader: every process enqueues them, and one job per period
// runs.
func (a *App) registerMaintenance() {
	r, s, relayer, unkept := a.runner, a.store, a.relayer, a.unkeptJobs()
	if relayer != nil {
		r.Register(maintainArgs{}.Kind(), func(ctx context.Context, _ *job.Lease) (job.Outcome, error) {
			// Payments wait for it.
			if err := relayer.Maintain(limit.WithUse(ctx, limit.ForSale)); err != nil {
				return job.Outcome{}, fmt.Errorf("maintain the relayers: %w", err)
			}
			return job.Done(), nil
		})
		r.Every(maintainEvery, maintainArgs{})
	}
	r.Register(expireArgs{}.Kind(), func(ctx context.Context, _ *job.Lease) (job.Outcome, error) {
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
	r.Every(expireEvery, expireArgs{})
	r.Register(pruneArgs{}.Kind(), func(ctx context.Context, _ *job.Lease) (job.Outcome, error) {
		for {
			n, err := s.Jobs().Prune(ctx, unkept, a.config.now().Add(-keepMaintenance), pruneBatch)
			if err != nil {
				return job.Outcome{}, fmt.Errorf("prune jobs: %w", err)
			}
			if n < pruneBatch {
				break
			}
		}
		if err := a.config.pruneTransactions(ctx, s.Transactions()); err != nil {
			return job.Outcome{}, err
		}
		return job.Done(), nil
	})
	r.Every(pruneEvery, pruneArgs{})
}
