package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// topicJobs wakes the workers; its keys are the classes of jobs.
const topicJobs = "jobs"

// Statuses are literals in these statements: with parameters, a generic plan could not use the partial indexes.
// Statements about a claim do not name the status: only a processing job has an owner, and with the status the planner
// might search all leases. Leases are compared with clock_timestamp(), because the statement may have waited for the
// row's lock.
const (
	findJobSQL = `SELECT ` + ent.JobColumns + ` FROM jobs WHERE kind = $1 AND unique_key = $2`
	// findOwnJobSQL is findJobSQL where the owner is known.
	findOwnJobSQL = findJobSQL + ` AND owner = $3`

	claimJobsSQL = `
		WITH due AS (
			SELECT id FROM jobs WHERE status = 'queued' AND class = $5 AND run_at <= now() AND kind = ANY($2) AND %s
			ORDER BY run_at LIMIT $3 FOR UPDATE SKIP LOCKED)
		UPDATE jobs SET status = 'processing', attempt = attempt + 1, version = version + 1,
			lease_owner = $1, lease_until = now() + $4::interval
		WHERE id IN (SELECT id FROM due) AND %s
		RETURNING ` + ent.JobColumns
	dueJobsSQL = `SELECT owner FROM jobs WHERE status = 'queued' AND class = $3 AND run_at <= now() AND kind = ANY($1)
		ORDER BY run_at LIMIT $2`

	beatJobSQL = `
		UPDATE jobs SET lease_until = now() + $5::interval WHERE ` + heldSQL + ` AND lease_until > clock_timestamp()`

	// The arguments of a job say how far it is.
	saveJobSQL = `UPDATE jobs SET payload = $3, version = version + 1 WHERE id = $1 AND owner = $2`

	markJobSQL = `
		UPDATE jobs SET step = $5, step_at = clock_timestamp(), version = version + 1
		WHERE ` + heldSQL + ` AND lease_until > clock_timestamp()`

	finishedSQL = `
		UPDATE jobs SET status = $5, version = version + 1, uncounted_attempts = CASE WHEN $6
				THEN attempt ELSE uncounted_attempts END,
			last_error = $7, class = coalesce(nullif($8, ''), class), lease_owner = NULL, lease_until = NULL, `
	endJobSQL   = finishedSQL + `finished_at = now() WHERE ` + heldSQL
	delayJobSQL = finishedSQL + `finished_at = NULL, run_at = now() + $9::interval WHERE ` + heldSQL

	fenceJobSQL = `SELECT 1 FROM jobs WHERE ` + heldSQL + ` AND lease_until > clock_timestamp() FOR UPDATE`

	// heldSQL selects the row of a claim by heldBy.
	heldSQL = `id = $1 AND owner = $2 AND lease_owner = $3 AND attempt = $4`

	// A job that has used up its attempts gets one more claim, in which its runner parks it.
	reapJobsSQL = `
		WITH passed AS (
			SELECT id, now() AS found_at FROM jobs WHERE status = 'processing' AND lease_until < now() AND %s
			ORDER BY lease_until LIMIT $1 FOR UPDATE SKIP LOCKED)
		UPDATE jobs SET
			status = CASE WHEN attempt - uncounted_attempts > max_attempts THEN 'operator_review' ELSE 'queued' END,
			finished_at = CASE WHEN attempt - uncounted_attempts > max_attempts THEN passed.found_at END,
			version = version + 1, run_at = passed.found_at, last_error = 'lease expired',
			lease_owner = NULL, lease_until = NULL
		FROM passed WHERE jobs.id = passed.id AND jobs.%s`
	passedLeasesSQL = `SELECT owner FROM jobs WHERE status = 'processing' AND lease_until < now()
		ORDER BY lease_until LIMIT $1`

	clearParkedSQL = `
		DELETE FROM jobs WHERE id IN (
			SELECT id FROM jobs WHERE kind = $1 AND status IN ('failed', 'operator_review') AND %s
			LIMIT $2 FOR UPDATE SKIP LOCKED) AND %s`
	parkedSQL = `SELECT owner FROM jobs WHERE kind = $1 AND status IN ('failed', 'operator_review') LIMIT $2`

	depthJobsSQL = `
		SELECT kind, class, status, status = 'operator_review' AND attempt - uncounted_attempts >= max_attempts,
			count(*), min(CASE WHEN status = 'queued' THEN run_at ELSE created_at END)
		FROM jobs WHERE status <> 'succeeded' GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`

	pruneJobsSQL = `
		WITH old AS (
			SELECT id FROM jobs WHERE kind = ANY($1) AND status = 'succeeded' AND finished_at < $2 AND %s
			LIMIT $3 FOR UPDATE SKIP LOCKED)
		DELETE FROM jobs WHERE id IN (SELECT id FROM old) AND %s`
	oldJobsSQL = `SELECT owner FROM jobs WHERE kind = ANY($1) AND status = 'succeeded' AND finished_at < $2 LIMIT $3`

	// The jobs of an order that is not final may be needed again, by an operator who decides it. Of one kind they are read
	// by age; each order is looked up, for a join would read all of them.
	pruneOrderJobsSQL = `
		WITH old AS (
			SELECT id FROM jobs WHERE kind = $1 AND status = 'succeeded' AND finished_at < $2
				AND (SELECT o.status FROM orders o
					WHERE o.id = jobs.payload->>'order' AND o.owner = jobs.owner AND o.%s LIMIT 1) = ANY($4) AND jobs.%s
			ORDER BY finished_at LIMIT $3 FOR UPDATE SKIP LOCKED)
		DELETE FROM jobs WHERE id IN (SELECT id FROM old) AND %s`
	oldOrderJobsSQL = `
		SELECT j.owner FROM jobs j JOIN orders o ON o.id = j.payload->>'order' AND o.owner = j.owner
		WHERE j.kind = $1 AND j.status = 'succeeded' AND j.finished_at < $2 AND o.status = ANY($4)
		ORDER BY j.finished_at LIMIT $3`
)

// Jobs is the job.Queue in the database.
type Jobs struct{ s *Store }

var _ job.Queue = Jobs{}

// Jobs is the store's queue.
func (s *Store) Jobs() Jobs { return Jobs{s} }

// Enqueue implements job.Queue.
func (j Jobs) Enqueue(ctx context.Context, n job.New) (bool, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	_, added, err := insertJobOn(ctx, j.s.pool, n, "")
	if err != nil {
		return false, err
	}
	if added && n.LeaseOwner == "" {
		j.s.Notify(topicJobs, string(cmp.Or(n.Class, job.Maintain)))
	}
	return added, nil
}

// insertJob inserts a job for an order of owner in the transaction of the change that makes it due; the workers are
// woken after the commit. If there is one of the same kind and key, that one is returned, and added is false. A job of
// Runner.Own is inserted with a lease, and adopted after the commit.
func insertJob(ctx context.Context, tx *ent.Tx, n job.New, owner x402.Address) (row job.Row, added bool, err error) {
	row, added, err = insertJobOn(ctx, raw(tx), n, owner.Lower())
	if err == nil && added && n.LeaseOwner == "" {
		wakeOnCommit(tx, topicJobs, string(row.Class))
	}
	return row, added, err
}

// queueJob is insertJob as a queued statement. With into, there must be no job of the same kind and key, and into is
// set once the transaction is committed.
func queueJob(ctx context.Context, tx *ent.Tx, n job.New, owner x402.Address, into *job.Row) error {
	row, err := n.Row()
	if err != nil {
		return err
	}
	q := statement{sql: insertJobSQL, args: jobRow(ctx, n, row, owner.Lower()).values()}
	if into != nil {
		q.sql = addJobSQL
		q.read = func(answers pgx.BatchResults) (err error) {
			*into, err = scanJob(answers.QueryRow())
			into.Asked = n.Asked
			return err
		}
	}
	pgxOf(tx).later(q)
	if n.LeaseOwner == "" {
		wakeOnCommit(tx, topicJobs, string(row.Class))
	}
	return nil
}

// insertJobOn inserts a job, for an order of an owner or for none.
func insertJobOn(ctx context.Context, on pgxRunner, n job.New, owner string) (job.Row, bool, error) {
	row, err := n.Row()
	if err != nil {
		return job.Row{}, false, err
	}
	statement := insertJobSQL
	if n.Exclusive {
		statement = insertAloneSQL
	}
	inserted, err := scanJob(on.QueryRow(ctx, statement, jobRow(ctx, n, row, owner).values()...))
	if errors.Is(err, pgx.ErrNoRows) && n.Exclusive {
		return job.Row{}, false, nil // there is another one of its kind
	}
	if errors.Is(err, pgx.ErrNoRows) {
		found, err := scanJob(on.QueryRow(ctx, findOwnJobSQL, row.Kind, row.UniqueKey, owner))
		if err != nil {
			return job.Row{}, false, fmt.Errorf("find queued %s job: %w", row.Kind, mapError(err))
		}
		return found, false, nil
	}
	if err != nil {
		return job.Row{}, false, fmt.Errorf("queue %s job: %w", row.Kind, mapError(err))
	}
	inserted.Asked = n.Asked
	return inserted, true, nil
}

// fence queues the lock of a claim's row until the transaction ends; once the claim is over, the transaction fails with
// job.ErrLeaseLost. It is first in every transaction of a job, so that all take their locks in the same order.
func fence(tx *ent.Tx, f job.Fence) {
	mustAffectOne(tx, fmt.Errorf("fence job: %w", job.ErrLeaseLost), fenceJobSQL, heldBy(f)...)
}

// heldBy are the arguments of heldSQL, and then others.
func heldBy(f job.Fence, more ...any) []any {
	return append([]any{f.ID, f.Of, f.Owner, f.Attempt}, more...)
}

// finishJob ends a claim in the transaction of its effect; the handler then returns job.Recorded.
func finishJob(ctx context.Context, tx *ent.Tx, f job.Fence, o job.Outcome) error {
	if err := finishJobOn(ctx, raw(tx), f, o); err != nil {
		return err
	}
	if o.Status == job.Queued && o.Delay == 0 {
		wakeClasses(func(class string) { wakeOnCommit(tx, topicJobs, class) }, o.Class)
	}
	return nil
}

const finishAct = "finish job"

func finishJobOn(ctx context.Context, on pgxRunner, f job.Fence, o job.Outcome) error {
	if err := checkOutcome(o); err != nil {
		return err
	}
	sql, args := finishing(f, o)
	tag, err := on.Exec(ctx, sql, args...)
	return leaseHeld(finishAct, tag.RowsAffected(), err)
}

func checkOutcome(o job.Outcome) error {
	if o.Status == "" || o.Status == job.Processing {
		return fmt.Errorf("%s: invalid outcome %q", finishAct, o.Status)
	}
	return nil
}

// finishing is the statement that ends a claim with an outcome.
func finishing(f job.Fence, o job.Outcome) (sql string, args []any) {
	args = heldBy(f, o.Status, o.Uncounted, o.Reason, o.Class)
	if o.Status == job.Queued {
		return delayJobSQL, append(args, o.Delay)
	}
	return endJobSQL, args
}

func leaseHeld(act string, rows int64, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", act, mapError(err))
	}
	if rows == 0 {
		return fmt.Errorf("%s: %w", act, job.ErrLeaseLost)
	}
	return nil
}

// Find implements job.Queue.
func (j Jobs) Find(ctx context.Context, kind job.Kind, uniqueKey string) (job.Row, bool, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	row, err := scanJob(j.s.pool.QueryRow(ctx, findJobSQL, kind, uniqueKey))
	if errors.Is(err, pgx.ErrNoRows) {
		return job.Row{}, false, nil
	}
	if err != nil {
		return job.Row{}, false, fmt.Errorf("find %s job: %w", kind, mapError(err))
	}
	return row, true, nil
}

// Claim implements job.Queue.
func (j Jobs) Claim(
	ctx context.Context, owner string, class job.Class, kinds []job.Kind, limit int, ttl time.Duration,
) ([]job.Row, error) {
	args := []any{owner, kindNames(kinds), limit, ttl, class}
	if j.s.shards == nil {
		return j.claim(ctx, everywhere(claimJobsSQL), args...)
	}
	groups, err := j.s.dueOwners(ctx, dueJobsSQL, kindNames(kinds), limit, class)
	if err != nil {
		return nil, fmt.Errorf("claim jobs: %w", err)
	}
	var claimed []job.Row
	for _, owners := range groups {
		if limit == len(claimed) {
			break
		}
		args[2] = limit - len(claimed)
		some, err := j.claim(ctx, ofOwners(claimJobsSQL, len(args)+1), append(slices.Clone(args), owners)...)
		if err != nil && len(claimed) == 0 {
			return nil, err
		}
		claimed = append(claimed, some...) // what is claimed is worked on, and the others are found again
	}
	slices.SortFunc(claimed, longestDue)
	return claimed, nil
}

func (j Jobs) claim(ctx context.Context, sql string, args ...any) ([]job.Row, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	rows, err := j.s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("claim jobs: %w", mapError(err))
	}
	claimed, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (job.Row, error) { return scanJob(row) })
	if err != nil {
		return nil, fmt.Errorf("claim jobs: %w", mapError(err))
	}
	slices.SortFunc(claimed, longestDue)
	return claimed, nil
}

// longestDue is the order in which jobs are claimed: those of one time by their ids.
func longestDue(a, b job.Row) int {
	return cmp.Or(a.RunAt.Compare(b.RunAt), bytes.Compare(a.ID[:], b.ID[:]))
}

// Beat implements job.Queue.
func (j Jobs) Beat(ctx context.Context, f job.Fence, ttl time.Duration) (bool, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	tag, err := j.s.pool.Exec(ctx, j.s.shards.asOfStatement(beatJobSQL), heldBy(f, ttl)...)
	if err != nil {
		return false, fmt.Errorf("beat job: %w", mapError(err))
	}
	return tag.RowsAffected() == 1, nil
}

// Mark implements job.Queue.
func (j Jobs) Mark(ctx context.Context, f job.Fence, step string) error {
	const act = "mark job"
	sql := j.s.shards.asOfStatement(markJobSQL)
	together := func(_ context.Context, tx *ent.Tx) error {
		updateFenced(tx, act, sql, heldBy(f, step)...)
		return nil
	}
	return j.s.change(ctx, change{f, together}, func() error {
		ctx, cancel := detached(ctx)
		defer cancel()
		tag, err := j.s.pool.Exec(ctx, sql, heldBy(f, step)...)
		return leaseHeld(act, tag.RowsAffected(), err)
	})
}

// Finish implements job.Queue.
func (j Jobs) Finish(ctx context.Context, f job.Fence, o job.Outcome) error {
	if err := checkOutcome(o); err != nil {
		return err
	}
	together := func(_ context.Context, tx *ent.Tx) error {
		sql, args := finishing(f, o)
		updateFenced(tx, finishAct, sql, args...)
		return nil
	}
	err := j.s.change(ctx, change{f, together}, func() error {
		ctx, cancel := detached(ctx)
		defer cancel()
		return finishJobOn(ctx, j.s.pool, f, o)
	})
	if err != nil {
		return err
	}
	if o.Status == job.Queued && o.Delay == 0 {
		wakeClasses(func(class string) { j.s.Notify(topicJobs, class) }, o.Class)
	}
	return nil
}

// wakeClasses wakes the workers of a class, or of all where it is not known.
func wakeClasses(wake func(class string), class job.Class) {
	if class != "" {
		wake(string(class))
		return
	}
	for _, each := range job.Classes() {
		wake(string(each))
	}
}

// Reap implements job.Queue.
func (j Jobs) Reap(ctx context.Context, limit int) (int, error) {
	reaped, err := j.s.sweep(ctx, passedLeasesSQL, reapJobsSQL, limit)
	if reaped > 0 {
		wakeClasses(func(class string) { j.s.Notify(topicJobs, class) }, "")
	}
	if err != nil {
		return 0, fmt.Errorf("reap jobs: %w", err)
	}
	return reaped, nil
}

// ClearParked implements job.Queue.
func (j Jobs) ClearParked(ctx context.Context, kind job.Kind, limit int) (int, error) {
	return j.s.sweep(ctx, parkedSQL, clearParkedSQL, kind, limit)
}

// Depth implements job.Queue.
func (j Jobs) Depth(ctx context.Context) ([]job.Depth, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	rows, err := j.s.pool.Query(ctx, depthJobsSQL)
	if err != nil {
		return nil, fmt.Errorf("count jobs: %w", mapError(err))
	}
	depths, err := pgx.CollectRows(rows, pgx.RowToStructByPos[job.Depth])
	if err != nil {
		return nil, fmt.Errorf("count jobs: %w", mapError(err))
	}
	return depths, nil
}

// Wake implements job.Queue.
func (j Jobs) Wake(ctx context.Context, class job.Class) <-chan struct{} {
	wake, cancel := j.s.Subscribe(topicJobs, string(class))
	context.AfterFunc(ctx, cancel)
	return wake
}

// Prune deletes up to limit jobs of the kinds that succeeded before a time. It frees their unique keys, so it is only
// for kinds whose keys are never reused.
func (j Jobs) Prune(ctx context.Context, kinds []job.Kind, before time.Time, limit int) (int, error) {
	return j.s.sweep(ctx, oldJobsSQL, pruneJobsSQL, kindNames(kinds), before, limit)
}

// PruneOfFinal is Prune for jobs of a kind whose arguments name their order, which has to be final.
func (j Jobs) PruneOfFinal(ctx context.Context, kind job.Kind, before time.Time, limit int) (int, error) {
	return j.s.sweep(ctx, oldOrderJobsSQL, pruneOrderJobsSQL, kind, before, limit, finalStatuses())
}

func finalStatuses() (all []string) {
	for _, status := range order.Statuses() {
		if status.Final() {
			all = append(all, string(status))
		}
	}
	return all
}

func kindNames(kinds []job.Kind) []string {
	names := make([]string, len(kinds))
	for i, kind := range kinds {
		names[i] = string(kind)
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
