package store

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/job"
)

// jobRows are the rows of several jobs, by columns.
type jobRows struct {
	ids                           []uuid.UUID
	kinds, keys, payloads, traces []string
	statuses                      []string
	attempts, maxAttempts         []int64
	runAt                         []*time.Time
	workers                       []*string
	leases                        []*time.Duration
	classes                       []string
}

// add adds a job; it is false for one that is invalid.
func (r *jobRows) add(ctx context.Context, n job.New) bool {
	row, err := n.Row()
	if err != nil || n.Exclusive {
		return false
	}
	var runAt *time.Time
	if !row.RunAt.IsZero() {
		runAt = &row.RunAt
	}
	var worker *string
	var lease *time.Duration
	if row.LeaseOwner != "" {
		worker, lease = &row.LeaseOwner, &n.LeaseTTL
	}
	r.ids, r.kinds, r.keys = append(r.ids, row.ID), append(r.kinds, string(row.Kind)), append(r.keys, row.UniqueKey)
	r.payloads, r.traces = append(r.payloads, string(row.Payload)), append(r.traces, job.Traceparent(ctx))
	r.statuses, r.classes = append(r.statuses, string(row.Status)), append(r.classes, string(row.Class))
	r.attempts, r.maxAttempts = append(r.attempts, int64(row.Attempt)), append(r.maxAttempts, int64(row.MaxAttempts))
	r.runAt, r.workers, r.leases = append(r.runAt, runAt), append(r.workers, worker), append(r.leases, lease)
	return true
}

// columns are the arguments of a statement, in the order of the fields.
func (r *jobRows) columns() []any {
	return []any{
		r.ids, r.kinds, r.keys, r.payloads, r.traces, r.statuses, r.attempts, r.maxAttempts, r.runAt, r.workers, r.leases,
		r.classes,
	}
}

// wakeOnCommit wakes the workers of the jobs that nobody has leased.
func (r *jobRows) wakeOnCommit(tx *ent.Tx) {
	for i, class := range r.classes {
		if r.workers[i] == nil {
			wakeOnCommit(tx, topicJobs, class)
		}
	}
}
