package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/reconcile"
)

// actComparisons is how the audit trail names the reading of the list of comparisons.
const actComparisons = "reconciliations.list"

const (
	// A comparison that ended earlier does not replace the report of one that ended later. It is still listed. What
	// it opened and closed are the findings that were so since it began.
	keepReportSQL = `
		WITH kept AS (
			UPDATE reconciliations SET at = $2, blocks = $3, report = $4 WHERE id = $1 AND (at IS NULL OR at <= $2)
		)
		INSERT INTO reconciliation_runs (reconciliation_id, ended_at, began_at, outcome, first_block, last_block,
			orders, payments, transfers, postings, cards, movements, spent_usd_cents, open, blocking, sums, balances,
			opened, resolved, closed)
		SELECT $1::varchar, $2::timestamptz, $5::timestamptz, $6::varchar, $7::bigint, $8::bigint, $9::bigint,
			$10::bigint, $11::bigint, $12::bigint, $13::bigint, $14::bigint, $15::bigint, $16::bigint, $17::bigint,
			$18::jsonb, $19::jsonb, present.opened, present.resolved,
			(SELECT count(*) FROM findings WHERE reconciliation_id = $1 AND closed_at >= $5)
		FROM (SELECT count(*) FILTER (WHERE first_seen >= $5) AS opened,
				count(*) FILTER (WHERE resolved_at IS NOT NULL) AS resolved
			FROM findings WHERE reconciliation_id = $1 AND closed_at IS NULL) present`

	failedRunSQL = `
		INSERT INTO reconciliation_runs (reconciliation_id, began_at, ended_at, outcome, unread)
		VALUES ($1, $2, $3, $4, $5)`

	runsSQL = `
		SELECT id, began_at, ended_at, outcome, unread, first_block, last_block, orders, payments, transfers, postings,
			cards, movements, spent_usd_cents, opened, closed, open, blocking, resolved, sums, balances
		FROM reconciliation_runs
		WHERE reconciliation_id = $1 AND ($2 = '' OR outcome = $2) AND ($3::bigint = 0 OR id < $3)
		ORDER BY id DESC LIMIT $4`

	pruneRunsSQL = `
		WITH old AS (
			SELECT id FROM reconciliation_runs WHERE ended_at < least($1, now() - interval '1 day')
			ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED)
		DELETE FROM reconciliation_runs WHERE id IN (SELECT id FROM old)`
)

// Keep implements reconcile.Reports.
func (t Treasury) Keep(ctx context.Context, r reconcile.Report) error {
	var texts [3][]byte
	for i, of := range []any{r, r.Sums, r.Balances} {
		text, err := json.Marshal(of)
		if err != nil {
			return fmt.Errorf("encode the report: %w", err)
		}
		texts[i] = text
	}
	blocking := 0
	for _, sum := range r.Sums {
		blocking += sum.Blocking
	}
	c := r.Checked
	ctx, cancel := detached(ctx)
	defer cancel()
	_, err := t.s.pool.Exec(ctx, keepReportSQL, t.id(), r.At, r.Blocks(), texts[0], r.ReadSince, string(r.Outcome()),
		int64(r.FirstBlock), int64(r.LastBlock), c.Orders, c.Payments, c.Transfers, c.Postings, c.Cards, c.Movements,
		int64(r.SpentUSDCents), r.Open(), blocking, texts[1], texts[2])
	return mapError(err)
}

// Fail implements reconcile.Reports.
func (t Treasury) Fail(ctx context.Context, f reconcile.Finished) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	_, err := t.s.pool.Exec(ctx, failedRunSQL, t.id(), f.Began, f.Ended, string(f.Outcome), f.Unread)
	return mapError(err)
}

// Finished implements reconcile.Reports.
func (t Treasury) Finished(
	ctx context.Context, q reconcile.FinishedQuery, act order.OperatorContext,
) (page []reconcile.Finished, err error) {
	err = t.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		rows, err := raw(tx).Query(ctx, runsSQL, t.id(), string(q.Outcome), q.Before, q.Limit)
		if err != nil {
			return err
		}
		if page, err = pgx.CollectRows(rows, scanFinished); err != nil {
			return err
		}
		return t.s.record(ctx, tx, act, actComparisons, t.payTo, nil, nil)
	})
	return page, err
}

func scanFinished(row pgx.CollectableRow) (f reconcile.Finished, err error) {
	var first, last int64
	c := &f.Checked
	err = row.Scan(&f.ID, &f.Began, &f.Ended, (*string)(&f.Outcome), &f.Unread, &first, &last, &c.Orders, &c.Payments,
		&c.Transfers, &c.Postings, &c.Cards, &c.Movements, (*int64)(&f.SpentUSDCents), &f.Opened, &f.Closed, &f.Open,
		&f.Blocking, &f.Resolved, &f.Sums, &f.Balances)
	if err != nil {
		return f, fmt.Errorf("read a comparison: %w", err)
	}
	f.Began, f.Ended, f.FirstBlock, f.LastBlock = f.Began.UTC(), f.Ended.UTC(), uint64(first), uint64(last)
	return f, nil
}

// PruneComparisons deletes up to limit comparisons from the list that ended before a time, and returns how many. Those
// of today stay, whatever the clock of this process says, and the last report is not among them.
func (s *Store) PruneComparisons(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.pruneRows(ctx, pruneRunsSQL, before, limit)
}
