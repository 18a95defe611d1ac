package availability

import (
	"context"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
)

// WorkerCounts counts the live workers of each kind of job; job.Queue is one.
type WorkerCounts interface {
	Workers(ctx context.Context) (map[job.Kind]int, error)
}

const workerTTL = time.Second

// Workers makes checks that every kind of job a product needs has a live worker, in any process. All of them count at
// once: while one product's is told of a worker, no other product's remembers that there was none.
func Workers(counts WorkerCounts, now func() time.Time) func(kinds ...job.Kind) Check {
	alive := NewMemo(MemoConfig[map[job.Kind]int]{Read: counts.Workers, TTL: workerTTL, Now: now})
	return func(kinds ...job.Kind) Check {
		return Check{Name: "workers", Run: func(ctx context.Context) error {
			workers, err := alive.Get(ctx)
			if err != nil {
				return fmt.Errorf("look for workers: %w", err)
			}
			for _, k := range kinds {
				if workers[k] == 0 {
					return fault.New(fault.WorkersUnavailable, "No worker is there to do it.")
				}
			}
			return nil
		}}
	}
}
