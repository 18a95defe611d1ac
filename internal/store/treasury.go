package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/ent/table"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/x402"
)

// Treasury stores the books of a payee. It implements reconcile.Arrivals, reconcile.Unread, reconcile.Books,
// reconcile.Reports, reconcile.UnmatchedTransfers and availability.Standings.
type Treasury struct {
	s *Store
	// asset and payTo are in lower case.
	asset, payTo string
}

// Treasury is the part of the store that compares the books of a payee.
func (s *Store) Treasury(asset, payTo x402.Address) Treasury {
	return Treasury{s, asset.Lower(), payTo.Lower()}
}

// id names the payee's row.
func (t Treasury) id() string { return t.asset + "/" + t.payTo }

const (
	scannedSQL = `SELECT first_block, next_block FROM reconciliations WHERE id = $1`

	oldestSQL = `SELECT coalesce(min(block), 0) FROM payments WHERE status = 'paid' AND asset = $1 AND pay_to = $2`

	// Of two concurrent readers of the chain, the one that has read further decides.
	scanSQL = `
		INSERT INTO reconciliations (id, first_block, next_block) VALUES ($1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET next_block = greatest(reconciliations.next_block, excluded.next_block)`

	lastReportSQL = `SELECT report FROM reconciliations WHERE id = $1 AND at IS NOT NULL`

	progressSQL = `SELECT coalesce(progress, '{}') FROM reconciliations WHERE id = $1`

	advanceSQL = `UPDATE reconciliations SET progress = $2 WHERE id = $1`

	// For the gate, which does not read the report.
	comparedSQL = `
		SELECT (SELECT at FROM reconciliations WHERE id = $1),
			EXISTS (SELECT FROM findings
				WHERE reconciliation_id = $1 AND owner = '' AND blocks AND closed_at IS NULL AND resolved_at IS NULL)`

	blockedSQL = `
		SELECT EXISTS (SELECT FROM findings
			WHERE reconciliation_id = $1 AND owner = $2 AND blocks AND closed_at IS NULL AND resolved_at IS NULL)`

	bookReadSQL = `
		SELECT (SELECT coalesce(issuer->>'read', issuer->>'asked')::timestamptz
			FROM (SELECT progress->'issuers'->$2::text FROM reconciliations WHERE id = $1) AS r(issuer))`
)

var (
	transferTable = ent.TransferTable.But("id")

	// Transfers have ids in the order in which they were found.
	arriveSQL = table.Statement(`
		INSERT INTO transfers ({transfers}) SELECT {a.transfers} FROM {a} ORDER BY a.place
		ON CONFLICT (transaction, log_index) DO NOTHING`,
		table.Rows("a", transferTable, table.Columns{{Name: "place", Type: "bigint"}}))
)

// arrivedAtOnce is how many transfers one statement stores.
const arrivedAtOnce = 5_000

// Scanned implements reconcile.Arrivals.
func (t Treasury) Scanned(ctx context.Context) (reconcile.Scan, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	scan, err := t.scanned(ctx, t.s.pool)
	if err == nil && !scan.Begun {
		err = t.s.pool.QueryRow(ctx, oldestSQL, t.asset, t.payTo).Scan(&scan.Oldest)
	}
	return scan, mapError(err)
}

func (t Treasury) scanned(ctx context.Context, on pgxRunner) (reconcile.Scan, error) {
	var first, next int64
	err := on.QueryRow(ctx, scannedSQL, t.id()).Scan(&first, &next)
	if errors.Is(err, pgx.ErrNoRows) {
		return reconcile.Scan{}, nil
	}
	return reconcile.Scan{First: uint64(first), Next: uint64(next), Begun: err == nil}, err
}

// Arrive implements reconcile.Arrivals.
func (t Treasury) Arrive(ctx context.Context, first, next uint64, found []reconcile.Transfer) error {
	return t.s.tx(ctx, func(_ context.Context, tx *ent.Tx) error {
		now := t.s.stamp()
		for some := range slices.Chunk(found, arrivedAtOnce) {
			t.arrive(tx, now, some)
		}
		later(tx, scanSQL, t.id(), int64(first), int64(next))
		return nil
	})
}

// arrive queues the insertion of transfers.
func (t Treasury) arrive(tx *ent.Tx, now time.Time, found []reconcile.Transfer) {
	rows, places := make([]*ent.Transfer, len(found)), make([]int64, len(found))
	for i, f := range found {
		rows[i], places[i] = &ent.Transfer{
			Asset: t.asset, PayTo: t.payTo, Transaction: f.Transaction.String(), LogIndex: int64(f.LogIndex),
			Block: int64(f.Block), Sender: f.From.Lower(), Value: int64(f.Value), SeenAt: now,
		}, int64(i)
		if !f.Nonce.IsZero() {
			rows[i].Nonce = f.Nonce.String()
		}
	}
	later(tx, arriveSQL, append(transferTable.Arrays(rows), places)...)
}

// Last implements reconcile.Reports.
func (t Treasury) Last(ctx context.Context) (r reconcile.Report, ok bool, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	var text json.RawMessage
	err = t.s.pool.QueryRow(ctx, lastReportSQL, t.id()).Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) {
		return r, false, nil
	}
	if err != nil {
		return r, false, mapError(err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, false, fmt.Errorf("read the stored report: %w", err)
	}
	return r, true, nil
}

// Progress implements reconcile.Books.
func (t Treasury) Progress(ctx context.Context) (p reconcile.Progress, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	var text json.RawMessage
	if err := t.s.pool.QueryRow(ctx, progressSQL, t.id()).Scan(&text); err != nil {
		return p, mapError(err)
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("read the stored progress: %w", err)
	}
	return p, nil
}

// Advance implements reconcile.Books.
func (t Treasury) Advance(ctx context.Context, p reconcile.Progress) error {
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode the progress: %w", err)
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	_, err = t.s.pool.Exec(ctx, advanceSQL, t.id(), text)
	return mapError(err)
}

// Compared implements availability.Standings.
func (t Treasury) Compared(ctx context.Context) (at time.Time, blocked bool, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	var ended *time.Time
	if err := t.s.pool.QueryRow(ctx, comparedSQL, t.id()).Scan(&ended, &blocked); err != nil {
		return at, false, mapError(err)
	}
	if ended != nil {
		at = ended.UTC()
	}
	return at, blocked, nil
}

// Blocked implements availability.Standings.
func (t Treasury) Blocked(ctx context.Context, owner x402.Address) (blocked bool, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	err = t.s.pool.QueryRow(ctx, blockedSQL, t.id(), owner.Lower()).Scan(&blocked)
	return blocked, mapError(err)
}

// Read implements availability.Standings.
func (t Treasury) Read(ctx context.Context, provider string) (time.Time, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	var at *time.Time
	if err := t.s.pool.QueryRow(ctx, bookReadSQL, t.id(), provider).Scan(&at); err != nil || at == nil {
		return time.Time{}, mapError(err)
	}
	return at.UTC(), nil
}

// Audit implements reconcile.Reports.
func (t Treasury) Audit(ctx context.Context, operator, action string) error {
	return t.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		return t.s.record(ctx, tx, card.OperatorContext{Operator: operator}, action, t.payTo, nil, nil)
	})
}
