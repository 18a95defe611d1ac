package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/ent/table"
	"github.com/roamcard/roamcard/internal/job"
)

// newJob is a job to insert. Of its times, the clock of the database decides.
type newJob struct {
	row *ent.Job
	// due is when it runs; nil for now.
	due *time.Time
	// lease is how long it is leased to row.LeaseOwner; nil for one that nobody has.
	lease *time.Duration
}

var (
	jobTable = ent.JobTable.But("run_at", "created_at", "lease_until", "step", "step_at", "finished_at", "last_error",
		"version", "uncounted_attempts", "owner")
	jobTimes = table.Columns{{Name: "due", Type: "timestamptz"}, {Name: "lease", Type: "interval"}}
)

// These insert a job n.
var (
	addJobSQL    = oneJobSQL(`VALUES ({n.jobs}, ` + jobRestSQL + `)`)
	insertJobSQL = oneJobSQL(`VALUES ({n.jobs}, ` + jobRestSQL + `) ON CONFLICT (kind, unique_key, owner) DO NOTHING`)
	// The unique key lets only one process enqueue in a period, so the condition need not see uncommitted rows.
	insertAloneSQL = oneJobSQL(`SELECT {n.jobs}, ` + jobRestSQL + `
		WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE kind = {n.jobs_kind} AND status = 'queued' AND owner = {n.owner})
			AND NOT EXISTS (
				SELECT 1 FROM jobs WHERE kind = {n.jobs_kind} AND status = 'processing' AND owner = {n.owner})
		ON CONFLICT (kind, unique_key, owner) DO NOTHING`)
)

const (
	intoJobsSQL = `INSERT INTO jobs ({jobs}, owner, run_at, created_at, lease_until) `
	jobRestSQL  = `{n.owner}, coalesce({n.due}, now()), now(), now() + {n.lease}`
)

func oneJobSQL(values string) string {
	return table.Statement(intoJobsSQL+values+` RETURNING `+ent.JobColumns,
		table.One("n", jobTable, jobTimes, table.Columns{{Name: "owner", Type: "varchar"}}))
}

// jobRow is the row that n makes for an order of owner, or for none.
func jobRow(ctx context.Context, n job.New, row job.Row, owner string) newJob {
	made := newJob{row: &ent.Job{
		ID: row.ID, Kind: string(row.Kind), Class: string(row.Class), UniqueKey: row.UniqueKey, Owner: owner,
		Payload: row.Payload, Traceparent: job.Traceparent(ctx), Status: string(row.Status), Attempt: row.Attempt,
		MaxAttempts: row.MaxAttempts,
	}}
	if !row.RunAt.IsZero() {
		made.due = &row.RunAt
	}
	if row.LeaseOwner != "" {
		made.row.LeaseOwner, made.lease = &row.LeaseOwner, &n.LeaseTTL
	}
	return made
}

// values are the arguments of a statement about n.
func (n newJob) values() []any { return append(jobTable.Values(n.row), n.due, n.lease, n.row.Owner) }

// newJobs are several jobs to insert in one statement.
type newJobs []newJob

// add adds a job; it is false for one that is invalid, or waits for others of its kind.
func (q *newJobs) add(ctx context.Context, n job.New, owner string) bool {
	row, err := n.Row()
	if err != nil || n.Exclusive {
		return false
	}
	*q = append(*q, jobRow(ctx, n, row, owner))
	return true
}

// arrays are the arguments of a statement about the jobs.
func (q newJobs) arrays() []any {
	rows, due, leases := make([]*ent.Job, len(q)), make([]*time.Time, len(q)), make([]*time.Duration, len(q))
	for i, n := range q {
		rows[i], due[i], leases[i] = n.row, n.due, n.lease
	}
	return append(jobTable.Arrays(rows), due, leases)
}

// wakeOnCommit wakes the workers of the jobs that nobody has leased.
func (q newJobs) wakeOnCommit(tx *ent.Tx) {
	for _, n := range q {
		if n.lease == nil {
			wakeOnCommit(tx, topicJobs, n.row.Class)
		}
	}
}

// scanJob reads a row of ent.JobColumns.
func scanJob(from pgx.Row) (job.Row, error) {
	row, err := ent.ScanJob(from)
	if err != nil {
		return job.Row{}, err
	}
	read := job.Row{
		ID: row.ID, Kind: job.Kind(row.Kind), Class: job.Class(row.Class), UniqueKey: row.UniqueKey, Of: row.Owner,
		Payload: row.Payload, Traceparent: row.Traceparent, Status: job.Status(row.Status), Attempt: row.Attempt,
		Uncounted: row.UncountedAttempts, MaxAttempts: row.MaxAttempts, Version: row.Version, Step: row.Step,
		StepAt: row.StepAt, RunAt: row.RunAt, CreatedAt: row.CreatedAt, FinishedAt: row.FinishedAt,
		LastError: row.LastError, LeaseUntil: row.LeaseUntil,
	}
	if row.LeaseOwner != nil {
		read.LeaseOwner = *row.LeaseOwner
	}
	return read, nil
}
