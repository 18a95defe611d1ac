package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/card"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/x402"
)

// Treasury keeps what is known of the payee's books. It implements reconcile.Arrivals, reconcile.Books,
// reconcile.Reports and reconcile.Strays.
type Treasury struct {
	s *Store
	// asset and payTo are lower-case.
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

	arriveSQL = `
		INSERT INTO arrivals (asset, pay_to, transaction, log_index, block, sender, value, nonce, seen_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (transaction, log_index) DO NOTHING`

	// Of two that read the chain at once, the one that came further decides.
	scanSQL = `
		INSERT INTO reconciliations (id, first_block, next_block) VALUES ($1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET next_block = greatest(reconciliations.next_block, excluded.next_block)`

	// A comparison that ended earlier does not replace one that ended later.
	keepReportSQL = `
		UPDATE reconciliations SET at = $2, blocks = $3, report = $4 WHERE id = $1 AND (at IS NULL OR at <= $2)`

	lastReportSQL = `SELECT report FROM reconciliations WHERE id = $1 AND at IS NOT NULL`
)

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
		for _, f := range found {
			nonce := ""
			if !f.Nonce.IsZero() {
				nonce = f.Nonce.String()
			}
			later(tx, arriveSQL, t.asset, t.payTo, f.Transaction.String(), int64(f.LogIndex), int64(f.Block), f.From.Lower(), int64(f.Value), nonce, now)
		}
		later(tx, scanSQL, t.id(), int64(first), int64(next))
		return nil
	})
}

// Post implements reconcile.Books.
func (t Treasury) Post(ctx context.Context, postings []ledger.Posting) error {
	if len(postings) == 0 {
		return nil
	}
	return t.s.tx(ctx, func(_ context.Context, tx *ent.Tx) error {
		for _, p := range postings {
			post(tx, t.s.stamp(), p)
		}
		return nil
	})
}

// Keep implements reconcile.Reports.
func (t Treasury) Keep(ctx context.Context, r reconcile.Report) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	_, err = t.s.pool.Exec(ctx, keepReportSQL, t.id(), r.At, r.Blocks(), text)
	return mapError(err)
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

// Audit implements reconcile.Reports.
func (t Treasury) Audit(ctx context.Context, operator, action string) error {
	return t.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		return t.s.record(ctx, tx, card.Act{Operator: operator}, action, t.payTo, nil, nil)
	})
}

// Records implements reconcile.Books.
func (t Treasury) Records(ctx context.Context) (r reconcile.Records, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	tx, err := t.s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return r, mapError(fmt.Errorf("begin to read: %w", err))
	}
	defer func() { _ = tx.Rollback(ctx) }() // nothing was written
	if r.Scan, err = t.scanned(ctx, tx); err != nil {
		return r, mapError(fmt.Errorf("read how far the chain is read: %w", err))
	}
	b := booksReader{ctx, tx}
	for _, read := range []func() error{
		readAll(b, &r.Arrivals, scanArrival, `SELECT transaction, log_index, block, sender, value, nonce FROM arrivals
			WHERE asset = $1 AND pay_to = $2 ORDER BY id`, t.asset, t.payTo),
		readAll(b, &r.Resolved, scanResolved, `SELECT a.transaction, a.log_index, r.resolution, r.reason, r.actor, r.at
			FROM resolutions r JOIN arrivals a ON r.id = a.transaction || '/' || a.log_index WHERE a.asset = $1 AND a.pay_to = $2`, t.asset, t.payTo),
		readAll(b, &r.Orders, scanSold, `SELECT id, kind, status, price_usd_cents, item, delivery, coalesce(reference::text, id),
			status = 'fulfilled' AND EXISTS (SELECT FROM timeline WHERE order_id = orders.id AND to_status = 'fulfilled' AND actor LIKE 'operator:%') FROM orders
			WHERE status NOT IN ('payment_required', 'expired') ORDER BY id`),
		readAll(b, &r.Payments, scanPaid, `SELECT id, order_id, status, payer, value, nonce, coalesce(transaction, ''), coalesce(log_index, 0), coalesce(block, 0)
			FROM payments WHERE asset = $1 AND pay_to = $2 ORDER BY id`, t.asset, t.payTo),
		readAll(b, &r.Cards, scanCard, `SELECT id, order_id, status, reference, account, load_usd_cents FROM cards ORDER BY id`),
		readAll(b, &r.Esims, scanEsim, `SELECT order_id, cost_micros FROM esim_profiles WHERE status = 'ready' ORDER BY id`),
		readAll(b, &r.Fees, scanFee, `SELECT status, payload FROM jobs WHERE kind = $1 ORDER BY id`, card.FeeJob),
		readAll(b, &r.Postings, scanPosting, `SELECT p.id, p.order_id, p.kind, p.at, array_agg(e.account ORDER BY e.id) FILTER (WHERE e.id IS NOT NULL),
			array_agg(e.amount ORDER BY e.id) FILTER (WHERE e.id IS NOT NULL)
			FROM ledger_postings p LEFT JOIN ledger_entries e ON e.posting_id = p.id GROUP BY p.id`),
	} {
		if err := read(); err != nil {
			return r, err
		}
	}
	return r, nil
}

// booksReader reads tables at one moment.
type booksReader struct {
	ctx context.Context
	tx  pgx.Tx
}

func readAll[T any](b booksReader, into *[]T, scan pgx.RowToFunc[T], sql string, args ...any) func() error {
	return func() error {
		rows, err := b.tx.Query(b.ctx, sql, args...)
		if err == nil {
			*into, err = pgx.CollectRows(rows, scan)
		}
		if err != nil {
			return fmt.Errorf("read %T: %w", *into, mapError(err))
		}
		return nil
	}
}

func scanArrival(row pgx.CollectableRow) (t reconcile.Transfer, err error) {
	var transaction, sender, nonce string
	var index, block int64
	if err := row.Scan(&transaction, &index, &block, &sender, (*int64)(&t.Value), &nonce); err != nil {
		return t, err
	}
	return t, placed(&t, transaction, sender, nonce, index, block)
}

// placed reads the columns that say where a transfer stands.
func placed(t *reconcile.Transfer, transaction, sender, nonce string, index, block int64) error {
	t.LogIndex, t.Block = uint(index), uint64(block)
	var err1, err2, err3 error
	t.Transaction, err1 = x402.ParseHash(transaction)
	t.From, err2 = x402.ParseAddress(sender)
	if nonce != "" {
		t.Nonce, err3 = x402.ParseHash(nonce)
	}
	return errors.Join(err1, err2, err3)
}

func scanSold(row pgx.CollectableRow) (o reconcile.Order, err error) {
	var item json.RawMessage
	if err := row.Scan(&o.ID, &o.Kind, &o.Status, (*int64)(&o.Price), &item, &o.Delivery, &o.Name, &o.ByHand); err != nil {
		return o, err
	}
	if o.Kind == order.CardTopup {
		o.Topup, err = card.TopupItem(order.Order{Item: item})
	}
	return o, err
}

func scanPaid(row pgx.CollectableRow) (p reconcile.Payment, err error) {
	var payer, nonce, transaction string
	var index, block int64
	if err := row.Scan(&p.ID, &p.Order, &p.Status, &payer, (*int64)(&p.Value), &nonce, &transaction, &index, &block); err != nil {
		return p, err
	}
	p.LogIndex, p.Block = uint(index), uint64(block)
	var err1, err2, err3 error
	p.Payer, err1 = x402.ParseAddress(payer)
	p.Nonce, err2 = x402.ParseHash(nonce)
	if p.Status == payment.Paid {
		p.Transaction, err3 = x402.ParseHash(transaction)
	}
	return p, errors.Join(err1, err2, err3)
}

func scanCard(row pgx.CollectableRow) (c card.Card, err error) {
	var ref uuid.UUID
	err = row.Scan(&c.ID, &c.Order, &c.Status, &ref, &c.Account, (*int64)(&c.Load))
	c.Ref = card.Ref(ref)
	return c, err
}

func scanEsim(row pgx.CollectableRow) (e reconcile.Esim, err error) {
	return e, row.Scan(&e.Order, (*int64)(&e.Cost))
}

func scanFee(row pgx.CollectableRow) (f reconcile.Fee, err error) {
	var j job.Row
	if err := row.Scan(&f.Status, &j.Payload); err != nil {
		return f, err
	}
	f.Args, err = job.Decode[card.FeeArgs](j)
	return f, err
}

func scanPosting(row pgx.CollectableRow) (p ledger.Posting, err error) {
	var accounts []string
	var amounts []int64
	if err := row.Scan(&p.ID, &p.Order, &p.Kind, &p.At, &accounts, &amounts); err != nil {
		return p, err
	}
	for i := range accounts {
		p.Entries = append(p.Entries, ledger.Entry{Account: ledger.Account(accounts[i]), Amount: money.USDC(amounts[i])})
	}
	return p, nil
}
