package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/api"
	"github.com/roamcard/roamcard/internal/card"
	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/esim"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/store"
)

// tend looks after the relayers' open transactions.
type tend struct{}

// Kind implements job.Args.
func (tend) Kind() job.Kind { return "relayer_tend" }

// prune deletes what is over: finished upkeep jobs, and old transactions of the relayers.
type prune struct{}

// Kind implements job.Args.
func (prune) Kind() job.Kind { return "prune" }

// expire ends the time of unpaid orders.
type expire struct{}

// Kind implements job.Args.
func (expire) Kind() job.Kind { return "order_expire" }

const (
	expireEvery = 15 * time.Second
	expireBatch = 200
	tendEvery   = 5 * time.Second
	pruneEvery  = 10 * time.Minute
	// keepUpkeep is how long finished upkeep jobs stay to be looked at.
	keepUpkeep = time.Hour
	pruneBatch = 1000
)

// registerUpkeep adds the periodic jobs; relayer may be nil. There is no leader: every process queues them, one runs.
func registerUpkeep(r *job.Runner, s *store.Store, relayer *chain.Relayer, c Config) {
	if relayer != nil {
		r.Register(tend{}.Kind(), func(ctx context.Context, _ *job.Lease) (job.Outcome, error) {
			if err := relayer.Tend(ctx); err != nil {
				return job.Outcome{}, fmt.Errorf("tend the relayers: %w", err)
			}
			return job.Done(), nil
		})
		r.Every(tendEvery, tend{})
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
			n, err := s.Jobs().Prune(ctx, []job.Kind{tend{}.Kind(), expire{}.Kind(), prune{}.Kind(), comparing{}.Kind(), forget{}.Kind(), esim.Syncing, esim.Resealing, card.StateJob}, time.Now().Add(-keepUpkeep), pruneBatch)
			if err != nil {
				return job.Outcome{}, fmt.Errorf("prune jobs: %w", err)
			}
			if n < pruneBatch {
				break
			}
		}
		if err := c.forgetAttempts(ctx, s.Attempts()); err != nil {
			return job.Outcome{}, err
		}
		return job.Done(), nil
	})
	r.Every(pruneEvery, prune{})
}

// registerCardStates adds the periodic reading of what became of cards, unless its period is zero.
func registerCardStates(r *job.Runner, every time.Duration, cards *card.Cards) {
	if every == 0 {
		return
	}
	r.Register(card.StateJob, cards.ReadStates)
	r.Every(every, card.StateArgs{})
}

// liveness remembers for a moment whether every kind of work has a live worker.
type liveness struct {
	queue job.Queue
	kinds []job.Kind
	now   func() time.Time

	mu sync.Mutex
	at time.Time
	ok bool
}

const livenessTTL = time.Second

func (l *liveness) alive(ctx context.Context) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.now(); l.at.IsZero() || now.Sub(l.at) >= livenessTTL {
		workers, err := l.queue.Workers(ctx)
		if err != nil {
			return false, err
		}
		l.at, l.ok = now, true
		for _, k := range l.kinds {
			l.ok = l.ok && workers[k] > 0
		}
	}
	return l.ok, nil
}

// ready fails while a kind of work has no live worker.
func (l *liveness) ready(ctx context.Context) error {
	ok, err := l.alive(ctx)
	if err == nil && !ok {
		err = errors.New("no live worker")
	}
	return err
}

// checks are what something depends on.
type checks []struct {
	name string
	run  func(context.Context) error
}

// all runs the checks at once.
func (c checks) all(ctx context.Context) []api.Check {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	out := make([]api.Check, len(c))
	var running sync.WaitGroup
	for i, one := range c {
		running.Go(func() { out[i] = api.Check{Name: one.name, Err: one.run(ctx)} })
	}
	running.Wait()
	return out
}

// ready checks what purchases of cards and top-ups depend on.
func (a *App) ready(p *parts) checks {
	return checks{
		{"database", a.store.Ping},
		{"chain", p.chain.ask},
		{"transfers", p.catchUp.Ready},
		{"token", p.token.ask},
		{p.settlement, p.settling.ask},
		{"issuer", func(ctx context.Context) error { _, err := a.issuer.Stock(ctx); return err }},
		{"workers", p.workers.ready},
	}
}

func (a *App) chainReady(ctx context.Context) error { return a.chain.Ready(ctx, maxHeadAge) }

const readyTimeout = 3 * time.Second

// awaitReady waits until purchases of everything can be taken.
func (a *App) awaitReady(ctx context.Context) error {
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		failing := ""
		for _, c := range append(a.checks.all(ctx), a.esimChecks.all(ctx)...) {
			if c.Err != nil {
				failing = fmt.Sprintf("%s: %v", c.Name, c.Err)
			}
		}
		if failing == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until ready (%s): %w", failing, ctx.Err())
		case <-look.C:
		}
	}
}
