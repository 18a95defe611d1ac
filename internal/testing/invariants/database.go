package invariants

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// database is what the service recorded.
type database struct {
	orders       []orderRow
	moves        []moveRow
	payments     []paymentRow
	refunds      []refundRow
	transactions []transactionRow
	cards        []cardRow
	profiles     []profileRow
	topups       []topupRow
	journal      []journalRow
	reservations []reservationRow
	jobs         []jobRow
	fees         []feeRow
	closings     []closingRow
	cancels      []cancelRow
	receipts     []receiptRow
	challenges   []challengeRow
	audit        []auditRow
	postings     []postingRow
	entries      []entryRow
	owned        []ownedRow
	approvals    []approvalRow
	sentBack     []sentBackRow
}

type orderRow struct {
	ID, Kind, Status, Owner, Key string
	PriceCents                   int64
	Version                      int64
	// Card is the card that a top-up is for.
	Card string
}

// paid says that the order's payment must be proven.
func (o orderRow) paid() bool {
	switch o.Status {
	case "settled", "provisioning", "fulfilled", "refund_pending", "refunded", "operator_review":
		return true
	}
	return false
}

// ended reports whether only an operator can still change the order.
func (o orderRow) ended() bool {
	switch o.Status {
	case "fulfilled", "refunded", "operator_review", "expired", "payment_required":
		return true
	}
	return false
}

type moveRow struct {
	Order           string
	Version         int64
	From, To, Actor string
}

type paymentRow struct {
	ID, Order, Status, Asset, Payer, PayTo string
	Value                                  int64
	Nonce                                  string
	Transaction                            *string
	LogIndex                               *int64
	CreatedAt                              time.Time
}

type refundRow struct {
	ID, Order, Status, Asset, Treasury, Recipient string
	Value                                         int64
	Nonce                                         string
	Transaction                                   *string
	LogIndex                                      *int64
}

type transactionRow struct {
	ID, Relayer string
	Nonce       int64
	Status      string
	Hashes      []string
	CreatedAt   time.Time
	// Payments are its members, in the order of their places, and Ends their statuses.
	Payments, Ends []string
}

type cardRow struct {
	ID, Order, Owner, Status, Reference, Account string
	// LoadCents is what the issuer was asked to open it with.
	LoadCents int64
}

func (c cardRow) live() bool {
	return c.Status == "PENDING" || c.Status == "ACTIVE" || c.Status == "FROZEN"
}

type reservationRow struct {
	Order, Resource string
	Units           int64
	Released        bool
}

type jobRow struct {
	ID, Kind, UniqueKey, Order, Status string
	// Retry is the version of what the job does: 1, and one more for each retry by an operator.
	Retry   int64
	Attempt int64
	Leased  bool
}

// feeRow is what is particular to a fee job: Kept says that the fee never was on its card, Owed that its holder
// had spent it, WrittenOff that it was given up.
type feeRow struct {
	Job                    string
	Kept, Owed, WrittenOff bool
}

type challengeRow struct {
	ID, Purpose         string
	IssuedAt, ExpiresAt time.Time
	ConsumedAt          *time.Time
}

type auditRow struct{ Actor, Action, Subject, Reason, Key string }

// postingRow is one movement of value in the ledger, entryRow one side of it.
type postingRow struct{ ID, Order, Kind string }

type entryRow struct {
	Posting, Account string
	Amount           int64
}

// ownedRow is a row of a table whose rows belong to orders, with the owner that it names. Order is empty for a row that
// belongs to none.
type ownedRow struct{ Table, ID, Order, Owner string }

// ownedRows are all of them but the orders themselves. A ledger entry belongs to its posting's order.
const ownedRows = `
	WITH p AS MATERIALIZED (SELECT id, order_id FROM ledger_postings),
	e AS MATERIALIZED (SELECT id, posting_id, owner FROM ledger_entries)
	SELECT 'payments', id::text, order_id, owner FROM payments
	UNION ALL SELECT 'refunds', id::text, order_id, owner FROM refunds
	UNION ALL SELECT 'reservations', id::text, order_id, owner FROM reservations
	UNION ALL SELECT 'cards', id::text, order_id, owner FROM cards
	UNION ALL SELECT 'esim_profiles', id::text, order_id, owner FROM esim_profiles
	UNION ALL SELECT 'esim_tokens', id, id, owner FROM esim_tokens
	UNION ALL SELECT 'esim_topups', id::text, order_id, owner FROM esim_topups
	UNION ALL SELECT 'receipts', id, id, owner FROM receipts
	UNION ALL SELECT 'timeline', id::text, order_id, owner FROM timeline
	UNION ALL SELECT 'ledger_postings', id, order_id, owner FROM ledger_postings
	UNION ALL SELECT 'ledger_entries', e.id::text, coalesce(p.order_id, ''), e.owner
		FROM e LEFT JOIN p ON p.id = e.posting_id
	UNION ALL SELECT 'jobs', id::text, coalesce(payload->>'order', ''), owner FROM jobs`

// The kinds of jobs that stand behind what a buyer paid for.
const (
	fulfillJob = "order_fulfill"
	feeJob     = "card_issue_fee"
	closeJob   = "card_close"
	confirmJob = "payment_confirm"
	// refundConfirmJob follows the money that goes back.
	refundConfirmJob = "refund_confirm"
)

// readDatabase reads every table at one moment.
func readDatabase(ctx context.Context, url string) (d database, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return d, fmt.Errorf("open the database: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return d, fmt.Errorf("begin to read: %w", err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	for _, step := range []func() error{
		table(ctx, tx, &d.orders, `SELECT id, kind, status, owner, idempotency_key, price_usd_cents,
			version, coalesce(item->>'card', '') FROM orders`),
		table(ctx, tx, &d.moves, `SELECT order_id, version, from_status, to_status, actor FROM timeline ORDER BY order_id,
			version`),
		table(ctx, tx, &d.payments, `SELECT id::text, order_id, status, asset, owner, pay_to, value, nonce, transaction,
			log_index, created_at FROM payments`),
		table(ctx, tx, &d.refunds, `SELECT id::text, order_id, status, asset, treasury, owner, value, nonce, transaction,
			log_index FROM refunds`),
		table(ctx, tx, &d.transactions, `SELECT id::text, relayer, nonce, status,
			ARRAY(SELECT v->>'hash' FROM jsonb_array_elements(variants) v), created_at,
			ARRAY(SELECT payment_id::text FROM transaction_members WHERE transaction_id = t.id ORDER BY place),
			ARRAY(SELECT status FROM transaction_members WHERE transaction_id = t.id ORDER BY place)
			FROM transactions t ORDER BY relayer, nonce`),
		table(ctx, tx, &d.cards,
			`SELECT id::text, order_id, owner, status, reference::text, account, load_usd_cents FROM cards`),
		table(ctx, tx, &d.journal, `SELECT reference::text, code, account FROM supplier_orders s
			ORDER BY EXISTS (SELECT FROM esim_profiles p JOIN orders o ON o.id = p.order_id
				WHERE p.reference = s.reference AND o.status IN ('refund_pending', 'refunded'))`),
		table(ctx, tx, &d.topups,
			`SELECT id::text, order_id, profile_id::text, status, reference::text, account FROM esim_topups`),
		table(ctx, tx, &d.profiles, `SELECT id::text, order_id, status, reference::text, account FROM esim_profiles`),
		table(ctx, tx, &d.reservations, `SELECT order_id, resource, units, released_at IS NOT NULL
			AND suspended_at IS NULL FROM reservations`),
		table(ctx, tx, &d.jobs, `SELECT id::text, kind, unique_key, coalesce(payload->>'order', ''), status,
			coalesce((payload->>'version')::bigint, 1), attempt, lease_owner IS NOT NULL FROM jobs`),
		table(ctx, tx, &d.fees,
			`SELECT id::text, payload @> '{"kept": true}', payload @> '{"owed": true}', payload @> '{"writtenOff": true}'
			FROM jobs WHERE kind = '`+feeJob+`'`),
		table(ctx, tx, &d.closings,
			`SELECT id::text, unique_key, payload->>'order', status, payload->>'stage',
			(payload->>'remainderUsdCents')::bigint, coalesce(payload->>'reference', ''), coalesce(payload->>'byHand', '')
			FROM jobs WHERE kind = '`+closeJob+`'`),
		table(ctx, tx, &d.cancels,
			`SELECT id::text, payload->>'order', payload->>'profile', status, payload->>'stage',
			coalesce((payload->>'creditMicros')::bigint, 0), coalesce((payload->>'refundMicros')::bigint, 0),
			coalesce(payload->>'byHand', '')
			FROM jobs WHERE kind = '`+cancelJob+`'`),
		table(ctx, tx, &d.challenges, `SELECT id::text, purpose, issued_at, expires_at, consumed_at FROM challenges`),
		table(ctx, tx, &d.audit, `SELECT actor, action, subject, reason, idempotency_key FROM audit`),
		table(ctx, tx, &d.postings, `SELECT id, order_id, kind FROM ledger_postings ORDER BY id`),
		table(ctx, tx, &d.entries, `SELECT posting_id, account, amount FROM ledger_entries ORDER BY id`),
		table(ctx, tx, &d.receipts, `SELECT id, owner, outcome, jws FROM receipts`),
		table(ctx, tx, &d.owned, ownedRows),
		table(ctx, tx, &d.approvals, `SELECT id::text, action, subject, status, requested_by, decided_by, amount_usd_cents,
			expires_at, coalesce(decided_at, requested_at) FROM operator_approvals`),
		table(ctx, tx, &d.sentBack, `SELECT id, reason FROM transfer_resolutions
			WHERE resolution = 'refunded_by_hand' AND actor = 'catch-up'`),
	} {
		if err := step(); err != nil {
			return d, err
		}
	}
	return d, nil
}

func table[T any](ctx context.Context, tx pgx.Tx, into *[]T, sql string) func() error {
	return func() error {
		rows, err := tx.Query(ctx, sql)
		if err == nil {
			*into, err = pgx.CollectRows(rows, pgx.RowToStructByPos[T])
		}
		if err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
		return nil
	}
}

// watch looks at one database again and again by one connection: each new one costs the server a process.
type watch struct {
	url string
	// conn is nil before the first look and after one that failed.
	conn *pgx.Conn
}

// settled is Settled.
func (w *watch) settled(ctx context.Context) (done bool, err error) {
	if w.conn == nil {
		if w.conn, err = pgx.Connect(ctx, w.url); err != nil {
			return false, fmt.Errorf("open the database: %w", err)
		}
	}
	if done, err = Settled(ctx, w.conn); err != nil {
		w.close(ctx)
	}
	return done, err
}

func (w *watch) close(ctx context.Context) {
	if w.conn != nil {
		_ = w.conn.Close(ctx) // what was read is known
		w.conn = nil
	}
}
