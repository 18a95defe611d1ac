package store

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
)

// OperatorJobs reads and changes jobs of all kinds for operators. It implements admin.JobRecords.
type OperatorJobs struct{ s *Store }

// OperatorJobs is the part of the store for operators' actions on jobs.
func (s *Store) OperatorJobs() OperatorJobs { return OperatorJobs{s} }

// The operators' actions on jobs, as the audit trail names them.
const (
	actJobs     = "jobs.list"
	actJob      = "job.inspect"
	actJobRetry = "job.retry"
	actJobDrop  = "job.drop"
)

const (
	stoppedJobsSQL = `SELECT ` + ent.JobColumns + ` FROM jobs
		WHERE status = ANY($1) AND ($2 = '' OR kind = $2) AND ($3::uuid IS NULL OR id < $3) ORDER BY id DESC LIMIT $4`

	jobSQL     = `SELECT ` + ent.JobColumns + ` FROM jobs WHERE id = $1`
	lockRowSQL = jobSQL + ` AND owner = $2 FOR UPDATE`

	// Earlier attempts do not count. The step stays, because it says what a provider may have been sent.
	requeueJobSQL = `
		UPDATE jobs SET status = 'queued', last_error = '', run_at = now(), finished_at = NULL,
			uncounted_attempts = attempt, version = version + 1
		WHERE id = $1 AND owner = $2 RETURNING ` + ent.JobColumns

	dropJobSQL = `DELETE FROM jobs WHERE id = $1 AND owner = $2`
)

// Jobs implements admin.JobRecords.
func (o OperatorJobs) Jobs(
	ctx context.Context, q admin.JobQuery, act order.OperatorContext,
) (found []job.Row, err error) {
	statuses := admin.Stopped()
	if q.Status != "" {
		statuses = []job.Status{q.Status}
	}
	var before any
	if q.Before != uuid.Nil {
		before = q.Before
	}
	err = o.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		// Most jobs have succeeded: a plan that is not made for the statuses would walk over all of them.
		if _, err := raw(tx).Exec(ctx, customPlansSQL); err != nil {
			return err
		}
		rows, err := raw(tx).Query(ctx, stoppedJobsSQL, statuses, q.Kind, before, q.Limit)
		if err != nil {
			return err
		}
		if found, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (job.Row, error) { return scanJob(r) }); err != nil {
			return err
		}
		return o.s.record(ctx, tx, act, actJobs, string(q.Status), nil, nil)
	})
	return found, err
}

// Job implements admin.JobRecords.
func (o OperatorJobs) Job(ctx context.Context, id uuid.UUID, act order.OperatorContext) (row job.Row, err error) {
	err = o.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		if row, err = scanJob(raw(tx).QueryRow(ctx, jobSQL, id)); errors.Is(err, pgx.ErrNoRows) {
			return admin.ErrJobNotFound
		} else if err != nil {
			return err
		}
		return o.s.record(ctx, tx, act, actJob, id.String(), nil, nil)
	})
	return row, err
}

// stoppedJob is the audit record of a job that an operator put back or dropped: enough to queue it again by hand.
type stoppedJob struct {
	Status job.Status `json:"status"`
	Kind   job.Kind   `json:"kind"`
	Key    string     `json:"key"`
	Reason string     `json:"reason,omitempty"`
	Args   string     `json:"args,omitempty"`
}

// jobStatus is the audit record of what became of a job.
type jobStatus struct {
	Status string `json:"status"`
}

// Retry implements admin.JobRecords.
func (o OperatorJobs) Retry(
	ctx context.Context, id uuid.UUID, may func(job.Row) error, act order.OperatorContext,
) (row job.Row, err error) {
	err = o.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		after := jobStatus{string(job.Queued)}
		var done bool
		if row, done, err = o.lock(ctx, tx, id, act, actJobRetry, after); err != nil || done {
			return err
		}
		if err := may(row); err != nil {
			return err
		}
		before := stoppedJob{Status: row.Status, Kind: row.Kind, Key: row.UniqueKey, Reason: row.LastError}
		if row, err = scanJob(raw(tx).QueryRow(ctx, requeueJobSQL, id, row.Of)); err != nil {
			return err
		}
		wakeOnCommit(tx, topicJobs, string(row.Class))
		return o.s.record(ctx, tx, act, actJobRetry, id.String(), before, after)
	})
	return row, err
}

// Drop implements admin.JobRecords. The audit record keeps the job.
func (o OperatorJobs) Drop(
	ctx context.Context, id uuid.UUID, may func(job.Row) error, act order.OperatorContext,
) error {
	return o.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		after := jobStatus{"dropped"}
		row, done, err := o.lock(ctx, tx, id, act, actJobDrop, after)
		if err != nil || done {
			return err
		}
		if err := may(row); err != nil {
			return err
		}
		if _, err := raw(tx).Exec(ctx, dropJobSQL, id, row.Of); err != nil {
			return err
		}
		return o.s.record(ctx, tx, act, actJobDrop, id.String(), stoppedJob{
			row.Status, row.Kind, row.UniqueKey, row.LastError, string(row.Payload),
		}, after)
	})
}

// lock locks a job for an action, and reports whether the action has been done with its key before; then there may be
// no job any more.
func (o OperatorJobs) lock(
	ctx context.Context, tx *ent.Tx, id uuid.UUID, act order.OperatorContext, action string, after any,
) (row job.Row, done bool, err error) {
	row, err = lockRow(ctx, tx, jobSQL, id)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return row, false, err
	}
	missing := err != nil
	if done, err = o.s.repeats(ctx, tx, act, action, id.String(), after); err != nil || done {
		return row, done, err
	}
	if missing {
		return row, false, admin.ErrJobNotFound
	}
	return row, false, at(act, row.Version)
}

// lockRow locks the row of a job that a statement finds by the job's id, its last argument, and reads it. The owner is
// read first, because it says where the row is.
func lockRow(ctx context.Context, tx *ent.Tx, find string, args ...any) (job.Row, error) {
	found, err := scanJob(raw(tx).QueryRow(ctx, find, args...))
	if err != nil {
		return found, err
	}
	return scanJob(raw(tx).QueryRow(ctx, lockRowSQL, found.ID, found.Of))
}
