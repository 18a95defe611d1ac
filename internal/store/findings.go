package store

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/ent/table"
	"github.com/roamcard/roamcard/internal/approval"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/reconcile"
)

// The operators' actions on findings, as the audit trail names them.
const (
	actFindings = "findings.list"
	actExplain  = "finding.resolve"
)

const (
	findingColumns = `id, unit, code, subject, order_id, owner, product, detail, evidence, size, blocks, first_seen,
		last_seen, resolved_at, resolution, resolved_by, reason
		FROM findings WHERE reconciliation_id = $1 AND closed_at IS NULL`

	findingsSQL = `SELECT ` + findingColumns +
		` AND (resolved_at IS NOT NULL) = $2 AND ($3 = '' OR code = $3) AND ($4::bigint = 0 OR id < $4)
		ORDER BY id DESC LIMIT $5`

	// Blocking findings come first, unmatched transfers, which anybody can cause, last.
	reportedSQL = `SELECT ` + findingColumns + ` AND (resolved_at IS NOT NULL) = $2
		ORDER BY blocks DESC, code = 'transfer_unmatched', id DESC LIMIT $3`

	findingSQL = `SELECT ` + findingColumns + ` AND id = $2 FOR UPDATE`

	sumsSQL = `
		SELECT code, count(*), count(*) FILTER (WHERE blocks) FROM findings
		WHERE reconciliation_id = $1 AND closed_at IS NULL AND resolved_at IS NULL GROUP BY code ORDER BY code`

	spentSQL = `SELECT coalesce(sum(spent_usd_cents), 0)::bigint FROM issuer_lines WHERE spent_usd_cents > 0`

	explainedSQL = `
		UPDATE findings SET resolved_at = $3, resolution = $4, resolved_by = $5, reason = $6
		WHERE reconciliation_id = $1 AND id = $2`

	transferFindingSQL = `
		UPDATE findings SET resolved_at = $3, resolution = $4, resolved_by = $5, reason = $6
		WHERE reconciliation_id = $1 AND unit = $2 AND code = 'transfer_unmatched' AND closed_at IS NULL`

	leftOutSQL = `
		SELECT subject FROM findings WHERE reconciliation_id = $1 AND unit LIKE 'block/%' AND closed_at IS NULL
		ORDER BY last_seen, id LIMIT $2`

	caughtSQL = `UPDATE findings SET closed_at = $3 WHERE reconciliation_id = $1 AND unit = $2 AND closed_at IS NULL`
)

var leaveOutSQL = findingTable.Insert() + `
	ON CONFLICT (reconciliation_id, unit, code, subject) DO UPDATE SET
		last_seen = excluded.last_seen, detail = excluded.detail, closed_at = NULL,
		first_seen = CASE WHEN findings.closed_at IS NULL THEN findings.first_seen ELSE excluded.first_seen END`

// Conclude implements reconcile.Books.
func (t Treasury) Conclude(ctx context.Context, c reconcile.Conclusion) error {
	return t.s.tx(ctx, func(_ context.Context, tx *ent.Tx) error {
		now := t.s.stamp()
		later(tx, customPlansSQL)
		if len(c.Postings) > 0 {
			postAll(tx, now, c.Postings)
		}
		if len(c.Lines) > 0 {
			var lines, orders []string
			var spent []int64
			for _, l := range c.Lines {
				lines, orders, spent = append(lines, l.Line), append(orders, string(l.Order)), append(spent, int64(l.Spent))
			}
			later(tx, explainSQL, lines, orders, spent)
		}
		found, names := t.findingRows(c.Found, now)
		if len(found) > 0 {
			later(tx, concludeSQL, findingTable.Arrays(found)...)
		}
		units := make([]string, len(c.Units))
		for i, u := range c.Units {
			units[i] = string(u)
		}
		later(tx, closeSQL, t.id(), now, units, names)
		return nil
	})
}

// findingRows are the rows of findings, each once, and their names: unit, code and subject joined.
func (t Treasury) findingRows(all []reconcile.Finding, now time.Time) (rows []*ent.Finding, names []string) {
	names = []string{} // nil would be NULL, to which no comparison applies
	once := map[string]bool{}
	for _, f := range all {
		name := string(f.Unit) + " " + string(f.Code) + " " + f.Subject
		if once[name] {
			continue
		}
		once[name] = true
		row := &ent.Finding{
			ReconciliationID: t.id(), Unit: string(f.Unit), Code: string(f.Code), Subject: f.Subject, OrderID: f.Order,
			Owner: f.Owner, Product: f.Product, Detail: f.Detail, Evidence: f.Evidence, Size: f.Size, Blocks: f.Blocks,
			FirstSeen: now, LastSeen: now,
		}
		if r := f.Resolved; r != nil {
			row.ResolvedAt, row.Resolution, row.ResolvedBy, row.Reason = &r.At, string(r.As), r.Operator, r.Reason
		}
		rows, names = append(rows, row), append(names, name)
	}
	return rows, names
}

var (
	findingName = ent.FindingTable.Only("reconciliation_id", "unit", "code", "subject")

	openFindingsSQL = table.Statement(`
		SELECT f.unit, f.code, f.subject FROM findings f JOIN {n}
			ON (f.reconciliation_id, f.unit, f.code, f.subject) = ({n.findings})
		WHERE f.closed_at IS NULL`, table.Rows("n", findingName))
)

// Open implements reconcile.Books.
func (t Treasury) Open(ctx context.Context, found []reconcile.Finding) ([]reconcile.Finding, error) {
	if len(found) == 0 {
		return nil, nil
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	asked, _ := t.findingRows(found, time.Time{})
	rows, err := t.s.pool.Query(ctx, openFindingsSQL, findingName.Arrays(asked)...)
	if err != nil {
		return nil, mapError(err)
	}
	known, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (f reconcile.Finding, err error) {
		return f, row.Scan((*string)(&f.Unit), (*string)(&f.Code), &f.Subject)
	})
	return known, mapError(err)
}

// Sums implements reconcile.Reports.
func (t Treasury) Sums(
	ctx context.Context, list int,
) (sums []reconcile.Sum, open, resolved []reconcile.Finding, spent money.Cents, err error) {
	err = t.snapshot(ctx, func(b booksReader) error {
		sums, open, resolved = nil, nil, nil
		return errors.Join(b.all(
			readAll(b, &sums, scanSum, sumsSQL, t.id()),
			readAll(b, &open, scanFinding, reportedSQL, t.id(), false, list),
			readAll(b, &resolved, scanFinding, reportedSQL, t.id(), true, list),
		), mapError(b.tx.QueryRow(b.ctx, spentSQL).Scan((*int64)(&spent))))
	})
	return sums, open, resolved, spent, err
}

// Counts counts the open findings by code.
func (t Treasury) Counts(ctx context.Context) ([]reconcile.Sum, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	rows, err := t.s.pool.Query(ctx, sumsSQL, t.id())
	if err != nil {
		return nil, mapError(err)
	}
	sums, err := pgx.CollectRows(rows, scanSum)
	return sums, mapError(err)
}

func scanSum(row pgx.CollectableRow) (s reconcile.Sum, err error) {
	return s, row.Scan((*string)(&s.Code), &s.Open, &s.Blocking)
}

// Findings implements reconcile.UnmatchedTransfers.
func (t Treasury) Findings(
	ctx context.Context, q reconcile.FindingQuery, act order.OperatorContext,
) (page []reconcile.Finding, err error) {
	err = t.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		rows, err := raw(tx).Query(ctx, findingsSQL, t.id(), q.Resolved, string(q.Code), q.Before, q.Limit)
		if err != nil {
			return err
		}
		if page, err = pgx.CollectRows(rows, scanFinding); err != nil {
			return err
		}
		return t.s.record(ctx, tx, act, actFindings, t.payTo, nil, nil)
	})
	return page, err
}

// ResolveFinding implements reconcile.UnmatchedTransfers.
func (t Treasury) ResolveFinding(
	ctx context.Context, id int64, act order.OperatorContext,
) (f reconcile.Finding, err error) {
	var at reconcile.Place
	err = t.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		f, at = reconcile.Finding{}, reconcile.Place{}
		subject := strconv.FormatInt(id, 10)
		lock(tx, "finding/"+subject)
		resolution := resolved{reconcile.Explained}
		repeated, err := t.s.repeats(ctx, tx, act, actExplain, subject, resolution)
		if err != nil {
			return err
		}
		rows, err := raw(tx).Query(ctx, findingSQL, t.id(), id)
		if err != nil {
			return err
		}
		f, err = pgx.CollectExactlyOneRow(rows, scanFinding)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return reconcile.ErrNoFinding
		case err != nil || repeated:
			return err
		}
		if err := atVersion(act, f.Version()); err != nil {
			return err
		}
		switch {
		case f.Code == reconcile.TransferUnmatched:
			at, err = reconcile.ParsePlace(f.Subject)
			return err
		case f.Resolved != nil:
			return reconcile.ErrResolved
		}
		now := t.s.stamp()
		f.Resolved = &reconcile.Resolved{As: resolution.Resolution, Reason: act.Reason, Operator: act.Operator, At: now}
		later(tx, explainedSQL, t.id(), id, now, string(resolution.Resolution), act.Operator, act.Reason)
		return t.s.record(ctx, tx, act, actExplain, subject, finding{f.Code, f.Subject, f.Order}, resolution)
	})
	if err != nil || at == (reconcile.Place{}) {
		return f, err
	}
	act.Version = 0 // the finding's, which was compared
	unmatched, err := t.Resolve(ctx, at, reconcile.Known, act)
	if err == nil && unmatched.Pending != nil {
		return f, &approval.PendingError{Approval: *unmatched.Pending}
	}
	f.Resolved = unmatched.Resolved
	return f, err
}

// finding is the audit record of a resolved finding.
type finding struct {
	Code    reconcile.Code `json:"code"`
	Subject string         `json:"subject"`
	Order   string         `json:"orderId,omitempty"`
}

// Blocks implements reconcile.Unread.
func (t Treasury) Blocks(ctx context.Context, limit int) ([]uint64, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	rows, err := t.s.pool.Query(ctx, leftOutSQL, t.id(), limit)
	if err != nil {
		return nil, mapError(err)
	}
	blocks, err := pgx.CollectRows(rows, scanBlock)
	slices.Sort(blocks)
	return blocks, mapError(err)
}

// LeaveOut implements reconcile.Unread.
func (t Treasury) LeaveOut(ctx context.Context, block uint64, why string) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	now := t.s.stamp()
	_, err := t.s.pool.Exec(ctx, leaveOutSQL, findingTable.Values(&ent.Finding{
		ReconciliationID: t.id(), Unit: string(reconcile.BlockUnit(block)), Code: "block_unread",
		Subject: strconv.FormatUint(block, 10), Detail: "no node shows the transfers of this block: " + why,
		FirstSeen: now, LastSeen: now,
	})...)
	return mapError(err)
}

// Caught implements reconcile.Unread.
func (t Treasury) Caught(ctx context.Context, block uint64) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	_, err := t.s.pool.Exec(ctx, caughtSQL, t.id(), string(reconcile.BlockUnit(block)), t.s.stamp())
	return mapError(err)
}

func scanFinding(row pgx.CollectableRow) (f reconcile.Finding, err error) {
	var resolution reconcile.Resolved
	var at *time.Time
	err = row.Scan(&f.ID, (*string)(&f.Unit), (*string)(&f.Code), &f.Subject, &f.Order, &f.Owner, &f.Product,
		&f.Detail, &f.Evidence, &f.Size, &f.Blocks, &f.FirstSeen, &f.LastSeen, &at, (*string)(&resolution.As),
		&resolution.Operator, &resolution.Reason)
	if err != nil {
		return f, err
	}
	f.FirstSeen, f.LastSeen = f.FirstSeen.UTC(), f.LastSeen.UTC()
	if at != nil {
		resolution.At = at.UTC()
		f.Resolved = &resolution
	}
	return f, nil
}
