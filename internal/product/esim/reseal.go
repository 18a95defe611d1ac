package esim

import (
	"context"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/job"
)

// Resealing is the kind of the job that encrypts old activation data with the current key.
const Resealing job.Kind = "esim_reseal"

// ResealArgs are the arguments of that job.
type ResealArgs struct {
	// Key is the key to encrypt with; empty is the worker's current one.
	Key string `json:"key,omitempty"`
}

// Kind implements job.Args.
func (ResealArgs) Kind() job.Kind { return Resealing }

const (
	resealBatch = 200
	// handOverEvery is how often a worker with another configuration looks whether one with the right one has come, and
	// handOverFor how long it does: the periodic job goes on then.
	handOverEvery = time.Second
	handOverFor   = 10 * time.Minute
)

// handOver leaves a job to a process with another configuration.
func (e *Esims) handOver(l *job.Lease) job.Outcome {
	if e.Now().Sub(l.Row().CreatedAt) > handOverFor {
		return job.Done()
	}
	return job.Snooze(handOverEvery)
}

// Reseal handles the job: it encrypts again what another key than the first has encrypted. After it has run, the other
// keys may be removed from the configuration. While a new key is rolled out, a process that still encrypts with the
// former one leaves the job to the others.
func (e *Esims) Reseal(ctx context.Context, l *job.Lease) (job.Outcome, error) {
	a, err := job.Decode[ResealArgs](l.Row())
	if err != nil {
		return job.Outcome{}, fmt.Errorf("read the job: %w", err)
	}
	if a.Key != "" && a.Key != e.Keys.Current() {
		return e.handOver(l), nil
	}
	for {
		old, err := e.Store.Foreign(ctx, e.Keys.Current(), resealBatch)
		if err != nil {
			return job.Outcome{}, fmt.Errorf("list the profiles of other keys: %w", err)
		}
		for _, p := range old {
			m, err := e.Keys.Open(p.Order, p.ActivationData)
			if err != nil {
				return job.Outcome{}, err
			}
			sealed, err := e.Keys.Seal(p.Order, m)
			if err != nil {
				return job.Outcome{}, err
			}
			if err := e.Store.Reseal(ctx, p.ID, p.ActivationData, sealed); err != nil {
				return job.Outcome{}, fmt.Errorf("store the encrypted activation data: %w", err)
			}
		}
		if len(old) < resealBatch {
			return job.Done(), nil
		}
	}
}
