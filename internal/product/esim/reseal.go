package esim

import (
	"context"
	"fmt"

	"github.com/roamcard/roamcard/internal/job"
)

// Resealing is the kind of the job that seals old material with the present key.
const Resealing job.Kind = "esim_reseal"

// ResealArgs asks for one pass.
type ResealArgs struct{}

// Kind implements job.Args.
func (ResealArgs) Kind() job.Kind { return Resealing }

const resealBatch = 200

// Reseal handles the job: after a new key became the first, everything sealed with another is sealed
// again. Once it has run, the other keys may be taken out of the configuration.
func (e *Esims) Reseal(ctx context.Context, _ *job.Lease) (job.Outcome, error) {
	for {
		old, err := e.Store.Foreign(ctx, e.Keys.Current(), resealBatch)
		if err != nil {
			return job.Outcome{}, fmt.Errorf("list what other keys sealed: %w", err)
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
				return job.Outcome{}, fmt.Errorf("keep what was sealed again: %w", err)
			}
		}
		if len(old) < resealBatch {
			return job.Done(), nil
		}
	}
}
