package esim

import (
	"context"

	"github.com/roamcard/roamcard/internal/job"
)

// Run takes the steps of a cancellation as it is stored.
func (c *Cancellations) Run(ctx context.Context, l *job.Lease, a CancelArgs) (job.Outcome, error) {
	return c.run(ctx, l, a)
}
