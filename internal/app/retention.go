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

// forget deletes what is past its retention: product events, challenges and sessions.
type forget struct{}

// Kind implements job.Args.
func (forget) Kind() job.Kind { return "forget" }

const forgetEvery = 10 * time.Minute

func (c Config) activity(s *store.Store) *activity.Activity {
	return activity.New(activity.Config{Store: s.Events(), Now: time.Now, Retention: c.EventsRetention})
}

func (c Config) retention(s *store.Store) auth.Retention {
	return auth.Retention{Store: s.Leftovers(), Now: time.Now, Keep: c.AuthRetention}
}

// registerRetention adds the periodic job that forgets.
func registerRetention(r *job.Runner, events *activity.Activity, signIns auth.Retention) {
	r.Register(forget{}.Kind(), func(ctx context.Context, _ *job.Lease) (job.Outcome, error) {
		if _, err := events.Prune(ctx); err != nil {
			return job.Outcome{}, fmt.Errorf("forget events: %w", err)
		}
		if err := signIns.Prune(ctx); err != nil {
			return job.Outcome{}, fmt.Errorf("forget sign-ins: %w", err)
		}
		return job.Done(), nil
	})
	r.Every(forgetEvery, forget{})
}
