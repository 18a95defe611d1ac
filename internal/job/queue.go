package job

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Queue keeps the jobs. Implementations pass jobtest.RunQueue.
//
// There is one clock, the queue's. Writes are atomic; all that take a Fence change nothing and return
// ErrLeaseLost once that claim is over.
type Queue interface {
	Leases
	Workforce
	// Enqueue adds a job; added is false, and the stored job untouched, when one of its kind and unique
	// key is there in whatever status, or, for a job that is to be alone, an open one of its kind.
	Enqueue(ctx context.Context, n New) (added bool, err error)
	// Find is the job of a kind and unique key.
	Find(ctx context.Context, kind Kind, uniqueKey string) (row Row, found bool, err error)
	// ClearParked deletes up to limit jobs of a kind that failed or were parked.
	ClearParked(ctx context.Context, kind Kind, limit int) (int, error)
	// Depth counts the jobs that have not succeeded.
	Depth(ctx context.Context) ([]Depth, error)
}

// Leases give jobs to workers, one at a time.
type Leases interface {
	// Claim leases up to limit due jobs of a class and the kinds to owner, the longest due first. No job is
	// given twice, and callers at the same time do not wait for each other.
	Claim(ctx context.Context, owner string, class Class, kinds []Kind, limit int, ttl time.Duration) ([]Row, error)
	// Beat extends a live lease to ttl from now; false says it is lost.
	Beat(ctx context.Context, f Fence, ttl time.Duration) (bool, error)
	// Mark records step and its time, durably, while the lease lives. After any error the step must not
	// be taken.
	Mark(ctx context.Context, f Fence, step string) error
	// Finish ends the claim with an outcome, whose class becomes the job's unless it is empty. The marker stays.
	Finish(ctx context.Context, f Fence, o Outcome) error
	// Reap requeues up to limit jobs whose lease has passed and says how many it ended. A job that has
	// used up more than its attempts goes to operator_review instead.
	Reap(ctx context.Context, limit int) (int, error)
}

// Workforce says which workers there are, and wakes them.
type Workforce interface {
	// Announce registers owner as a worker of the kinds for ttl; a ttl of zero unregisters it.
	Announce(ctx context.Context, owner string, kinds []Kind, ttl time.Duration) error
	// Workers counts the live workers of each kind.
	Workers(ctx context.Context) (map[Kind]int, error)
	// Wake signals soon after a job of a class becomes due. Signals may be lost or spurious, so callers also poll. The
	// subscription ends with ctx.
	Wake(ctx context.Context, class Class) <-chan struct{}
}

// Depth is how many jobs of a kind and class are in a status, and since when the oldest of them waits: for queued
// ones since when it is due, else since when it was made.
type Depth struct {
	Kind   Kind
	Class  Class
	Status Status
	// GaveUp says of jobs in operator_review that they have used up their attempts; the others asked for a decision.
	GaveUp bool
	Count  int
	Oldest time.Time
}

// Query selects a page of the jobs of a kind, newest first.
type Query struct {
	// Status is empty for all. A queued job that has asked somebody for something counts as Processing.
	Status Status
	// Before is the last job of the previous page.
	Before uuid.UUID
	Limit  int
}
