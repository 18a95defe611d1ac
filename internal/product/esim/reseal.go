package esim

import (
	"context"
	"fmt"

	"github.com/roamcard/roamcard/internal/job"
)

// Resealing is the kind of the job that encrypts old activation data with the current key.
const Resealing job.Kind = "esim_reseal"

// ResealArgs are the arguments of that job: none.
type ResealArgs struct{}

// Kind implements job.Args.
func (ResealArgs) Kind() job.Kind { return Resealing }

const resealBatch = 200

// Reseal handles the job: it encrypts again what another key than the first has encrypted. After it has run, the other
// keys may be removed from the configuration.
func (e *Esims) Reseal(ctx context.Context, _ *job.Lease) (job.Outcome, error) {
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
