package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/ent/table"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/reconcile"
)

// listSQL selects the units of each list, with their cursors. Each page is read by an index: $1 is the cursor, $2 the
// length. Lists of one payee take its asset as $3 and its address as $4, or its row as $3; lists since a time take it
// as $3.
var listSQL = map[reconcile.List]string{
	reconcile.OrdersChanged: `SELECT 'order/' || id, id
		FROM orders WHERE id > $1 AND updated_at >= $3 ORDER BY id LIMIT $2`,

	reconcile.OrdersPosted: `
		SELECT DISTINCT 'order/' || order_id, order_id FROM ledger_postings
		WHERE order_id > $1 AND order_id <> '' AND at >= $3 ORDER BY order_id LIMIT $2`,

	reconcile.PostingsChanged: `
		SELECT 'posting/' || id, id FROM ledger_postings WHERE order_id = '' AND id > $1 AND at >= $3 ORDER BY id LIMIT $2`,

	reconcile.LinesChanged: `SELECT 'line/' || id, id FROM issuer_lines WHERE pending AND id > $1 ORDER BY id LIMIT $2`,

	reconcile.Standing: `
		SELECT DISTINCT unit, unit FROM findings
		WHERE reconciliation_id = $3 AND closed_at IS NULL AND unit > greatest($1, 'block0') ORDER BY unit LIMIT $2`,

	reconcile.NewArrivals: `
		SELECT 'arrival/' || transaction || '/' || log_index, id::text FROM transfers
		WHERE id > coalesce(nullif($1, ''), '0')::bigint AND asset = $3::varchar AND pay_to = $4::varchar
			AND NOT EXISTS (SELECT FROM findings f
				WHERE f.reconciliation_id = $3::varchar || '/' || $4::varchar
					AND f.unit = 'arrival/' || transaction || '/' || log_index)
		ORDER BY transfers.id LIMIT $2`,

	reconcile.AllArrivals: `
		SELECT 'arrival/' || transaction || '/' || log_index, id::text FROM transfers
		WHERE id > coalesce(nullif($1, ''), '0')::bigint AND asset = $3 AND pay_to = $4 ORDER BY transfers.id LIMIT $2`,

	// A posting may name an order that does not exist.
	reconcile.AllOrders: `
		SELECT 'order/' || id, id FROM (
			(SELECT id FROM orders WHERE id > $1 ORDER BY id LIMIT $2)
			UNION
			(SELECT DISTINCT order_id FROM ledger_postings WHERE order_id > $1 AND order_id <> ''
				ORDER BY order_id LIMIT $2)) AS o (id)
		ORDER BY id LIMIT $2`,

	reconcile.AllPostings: `SELECT 'posting/' || id, id
		FROM ledger_postings WHERE order_id = '' AND id > $1 ORDER BY id LIMIT $2`,
}

// Page implements reconcile.Books.
func (t Treasury) Page(
	ctx context.Context, l reconcile.List, since time.Time, after string, limit int,
) (units []reconcile.Unit, next string, err error) {
	args := []any{after, limit}
	switch l {
	case reconcile.OrdersChanged, reconcile.OrdersPosted, reconcile.PostingsChanged:
		args = append(args, since)
	case reconcile.Standing:
		args = append(args, t.id())
	case reconcile.NewArrivals, reconcile.AllArrivals:
		args = append(args, t.asset, t.payTo)
	case reconcile.LinesChanged, reconcile.AllOrders, reconcile.AllPostings:
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	rows, err := t.s.pool.Query(ctx, listSQL[l], args...)
	if err != nil {
		return nil, "", mapError(err)
	}
	var unit, cursor string
	if _, err := pgx.ForEachRow(rows, []any{&unit, &cursor}, func() error {
		units = append(units, reconcile.Unit(unit))
		return nil
	}); err != nil {
		return nil, "", mapError(err)
	}
	if len(units) == limit {
		next = cursor
	}
	return units, next, nil
}

// sumSQL adds entries up by kind of account: the part before the colon where there is one account for each order or
// card.
const sumSQL = `
	SELECT CASE WHEN split_part(account, ':', 1) IN ('customer', 'card', 'holder')
			THEN split_part(account, ':', 1) ELSE account END,
		sum(amount)::bigint, max(id)
	FROM ledger_entries WHERE id > $1 AND id <= $2 GROUP BY 1`

// summedAtOnce is how many entries one statement adds up: as many as take about a second.
const summedAtOnce = 1_000_000

// Sum implements reconcile.Books. However many entries there are, it sees them as they were at one time, and each
// statement takes no longer than any other.
func (t Treasury) Sum(ctx context.Context, after, upto int64) (sums map[string]money.USDC, last int64, err error) {
	return t.sum(ctx, after, upto, summedAtOnce)
}

func (t Treasury) sum(
	ctx context.Context, after, upto, atOnce int64,
) (sums map[string]money.USDC, last int64, err error) {
	sums, last = map[string]money.USDC{}, after
	// Without a bound of its own: its statements have theirs.
	err = pgx.BeginTxFunc(ctx, t.s.pool, snapshotTx, func(tx pgx.Tx) error {
		if upto == 0 {
			if err := tx.QueryRow(ctx, "SELECT coalesce(max(id), 0) FROM ledger_entries").Scan(&upto); err != nil {
				return err
			}
		}
		for from := after; from < upto; from += atOnce {
			if err := addUp(ctx, tx, from, min(from+atOnce, upto), sums, &last); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, 0, mapError(err)
	}
	return sums, last, nil
}

// addUp adds the entries after..upto to sums.
func addUp(ctx context.Context, tx pgx.Tx, after, upto int64, sums map[string]money.USDC, last *int64) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	rows, err := tx.Query(ctx, sumSQL, after, upto)
	if err != nil {
		return err
	}
	var kind string
	var units, id int64
	_, err = pgx.ForEachRow(rows, []any{&kind, &units, &id}, func() error {
		sums[kind] += money.USDC(units)
		*last = max(*last, id)
		return nil
	})
	return err
}

// findingTable are findings as they are stored: open.
var findingTable = ent.FindingTable.But("id", "closed_at")

// concludeSQL stores findings. A resolved row keeps its resolution and evidence until the evidence changes or the size
// grows.
var concludeSQL = table.Statement(`
	INSERT INTO findings AS f ({findings}) SELECT {n.findings} FROM {n}
	ON CONFLICT (reconciliation_id, unit, code, subject) DO UPDATE SET
		order_id = excluded.order_id, owner = excluded.owner, product = excluded.product,
		detail = excluded.detail, blocks = excluded.blocks,
		first_seen = CASE WHEN f.closed_at IS NULL THEN f.first_seen ELSE excluded.first_seen END,
		last_seen = excluded.last_seen, closed_at = NULL,
		evidence = CASE WHEN `+stillResolved+` THEN f.evidence ELSE excluded.evidence END,
		size = CASE WHEN `+stillResolved+` THEN f.size ELSE excluded.size END,
		resolved_at = CASE WHEN `+stillResolved+` THEN f.resolved_at ELSE excluded.resolved_at END,
		resolution = CASE WHEN `+stillResolved+` THEN f.resolution ELSE excluded.resolution END,
		resolved_by = CASE WHEN `+stillResolved+` THEN f.resolved_by ELSE excluded.resolved_by END,
		reason = CASE WHEN `+stillResolved+` THEN f.reason ELSE excluded.reason END
	WHERE f.closed_at IS NOT NULL OR f.detail <> excluded.detail OR f.blocks <> excluded.blocks
		OR f.owner <> excluded.owner OR f.size < excluded.size
		OR (f.resolved_at IS NULL) <> (excluded.resolved_at IS NULL) AND NOT `+stillResolved+`
		OR f.last_seen < excluded.last_seen - interval '1 hour'`,
	table.Rows("n", findingTable))

// stillResolved is the condition under which a resolution remains valid: there is no new evidence.
const stillResolved = `(f.resolved_at IS NOT NULL AND f.evidence = excluded.evidence AND f.size >= excluded.size)`

// closeSQL closes the open findings of some units that were not found again.
const closeSQL = `
	UPDATE findings f SET closed_at = $2 WHERE f.reconciliation_id = $1 AND f.closed_at IS NULL AND f.unit = ANY($3)
		AND f.unit || ' ' || f.code || ' ' || f.subject <> ALL($4::text[])`

// parseBlock reads the number of a block that was left out.
func parseBlock(text string) (block uint64, err error) {
	if _, err := fmt.Sscanf(text, "%d", &block); err != nil {
		return 0, fmt.Errorf("read the number of a block: %w", err)
	}
	return block, nil
}
