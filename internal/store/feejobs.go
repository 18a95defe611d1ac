package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/product/card"
)

// FeeJobs reads and changes the fee jobs for operators. It implements card.FeeJobs.
type FeeJobs struct{ s *Store }

// FeeJobs is the part of the store for operators' actions on fee jobs.
func (s *Store) FeeJobs() FeeJobs { return FeeJobs{s} }

// The operators' actions on fee jobs, as the audit trail names them.
const (
	actList      = "fee_jobs.list"
	actReconcile = "fee_job.reconcile"
	actRetry     = "fee_job.retry"
	actWriteOff  = "fee_job.write_off"
)

// A queued job whose withdrawal has been sent counts as processing.
const listJobsSQL = `SELECT ` + ent.JobColumns + ` FROM jobs
	WHERE kind = $1 AND ($2 = '' OR $2 = CASE WHEN status = 'queued' AND step <> '' THEN 'processing' ELSE status END)
		AND ($3::uuid IS NULL OR id < $3)
	ORDER BY id DESC LIMIT $4`

const (
	jobOfKindSQL = `SELECT ` + ent.JobColumns + ` FROM jobs WHERE kind = $1 AND id = $2`

	concludeJobSQL = `
		UPDATE jobs SET status = $3, last_error = $4, version = version + 1, finished_at = now(),
			lease_owner = NULL, lease_until = NULL
		WHERE id = $1 AND owner = $5 AND version = $2 AND status IN ('queued', 'processing', 'operator_review')`

	// Earlier attempts do not count for the next version.
	retryJobSQL = `
		UPDATE jobs SET status = 'queued', payload = $2, step = '', step_at = NULL, last_error = '', run_at = now(),
			finished_at = NULL, uncounted_attempts = attempt, version = version + 1
		WHERE id = $1 AND owner = $3`
)

// FeeJobs implements card.FeeJobs.
func (f FeeJobs) FeeJobs(ctx context.Context, q job.Query, act card.OperatorContext) ([]job.Row, error) {
	return f.s.listJobs(ctx, card.FeeJob, q, act, actList)
}

// listJobs lists the jobs of a kind for an operator, newest first, and records that as an action.
func (s *Store) listJobs(
	ctx context.Context, kind job.Kind, q job.Query, act card.OperatorContext, action string,
) (found []job.Row, err error) {
	var before any
	if q.Before != uuid.Nil {
		before = q.Before
	}
	err = s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		rows, err := raw(tx).Query(ctx, listJobsSQL, kind, q.Status, before, q.Limit)
		if err != nil {
			return err
		}
		if found, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (job.Row, error) { return scanJob(r) }); err != nil {
			return err
		}
		return s.record(ctx, tx, act, action, string(q.Status), nil, nil)
	})
	return found, err
}

// FeeJob implements card.FeeJobs.
func (f FeeJobs) FeeJob(ctx context.Context, id uuid.UUID) (job.Row, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	row, err := scanJob(f.s.pool.QueryRow(ctx, jobOfKindSQL, card.FeeJob, id))
	if errors.Is(err, pgx.ErrNoRows) {
		return job.Row{}, card.ErrNotFound
	}
	return row, mapError(err)
}

// Conclude implements card.FeeJobs. The version check fails when a worker has changed the job meanwhile. A worker that
// has the job now loses its lease.
func (f FeeJobs) Conclude(
	ctx context.Context, row job.Row, c card.FeeConclusion, act card.OperatorContext,
) (bool, error) {
	done := true
	err := f.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		done = true
		if c.Status != row.Status {
			tag, err := raw(tx).Exec(ctx, concludeJobSQL, row.ID, row.Version, c.Status, c.Reason, row.Of)
			if err != nil {
				return err
			}
			done = tag.RowsAffected() == 1
		}
		after := row.Status
		if done {
			after = c.Status
			postAs(tx, f.s.stamp(), row.Of, c.Postings...)
		}
		if done && c.Owed {
			later(tx, oweFeeSQL, row.ID, row.Of)
		}
		before := feeState{row.Status, row.LastError}
		return f.s.record(ctx, tx, act, actReconcile, row.ID.String(), before, feeState{after, c.Reason})
	})
	return done, err
}

// Retry implements card.FeeJobs. The audit row of an action with a key is unique, which detects a repeat.
func (f FeeJobs) Retry(ctx context.Context, row job.Row, next card.FeeArgs, act card.OperatorContext) error {
	payload, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("encode the next version: %w", err)
	}
	return f.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		now, repeated, err := f.lock(ctx, tx, row, act, actRetry)
		if err != nil || repeated {
			return err
		}
		if now.Status != job.Failed || now.Version != row.Version {
			return card.ErrNotFailed
		}
		if _, err := raw(tx).Exec(ctx, retryJobSQL, row.ID, payload, row.Of); err != nil {
			return err
		}
		wakeOnCommit(tx, topicJobs, string(now.Class))
		return f.s.record(ctx, tx, act, actRetry, row.ID.String(), feeState{now.Status, now.LastError},
			feeState{job.Queued, ""})
	})
}

// WriteOff implements card.FeeJobs.
func (f FeeJobs) WriteOff(
	ctx context.Context, row job.Row, decide func(job.Row) (card.FeeArgs, []ledger.Posting, error),
	act card.OperatorContext,
) error {
	return f.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		now, repeated, err := f.lock(ctx, tx, row, act, actWriteOff)
		if err != nil || repeated {
			return err
		}
		if now.Version != row.Version {
			return card.ErrNotFailed
		}
		a, postings, err := decide(now)
		if err != nil {
			return err
		}
		payload, err := json.Marshal(a)
		if err != nil {
			return fmt.Errorf("encode the job: %w", err)
		}
		later(tx, saveJobSQL, row.ID, row.Of, payload)
		postAs(tx, f.s.stamp(), row.Of, postings...)
		return f.s.record(ctx, tx, act, actWriteOff, row.ID.String(),
			feeState{now.Status, now.LastError}, feeState{now.Status, "written off"})
	})
}

// lock locks a job, which serializes actions on it, and reports whether this action has been done before.
func (f FeeJobs) lock(
	ctx context.Context, tx *ent.Tx, row job.Row, act card.OperatorContext, action string,
) (now job.Row, repeated bool, err error) {
	now, err = lockRow(ctx, tx, jobOfKindSQL, card.FeeJob, row.ID)
	if err != nil {
		return now, false, err
	}
	repeated, err = f.s.repeats(ctx, tx, act, action, row.ID.String(), nil)
	if err == nil && !repeated && at(act, now.Version) != nil {
		err = card.ErrChanged
	}
	return now, repeated, err
}

// feeState is the audit record of a fee job's state.
type feeState struct {
	Status job.Status `json:"status"`
	Reason string     `json:"reason,omitempty"`
}
