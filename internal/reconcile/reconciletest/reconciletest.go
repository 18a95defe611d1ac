// Package reconciletest fills books with any number of purchases, so that comparing them can be tested and measured.
package reconciletest

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/x402"
)

// DB runs statements on the database of a store.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Asset and PayTo are those of all purchases.
var (
	Asset = x402.Address{19: 9}
	PayTo = x402.Address{19: 7}
)

// OrderID is an order's.
func OrderID(n int) string { return fmt.Sprintf("ord_%012d", n) }

// Account is a card's at the issuer.
func Account(n int) string { return fmt.Sprint("crd_", n) }

// CardRef is our reference for the opening of a card.
func CardRef(n int) fulfilment.Ref {
	return fulfilment.Ref(uuid.MustParse(fmt.Sprintf("00000000-0000-5000-8000-%012d", n)))
}

// Owner is the wallet that paid.
func Owner(n int) x402.Address {
	a, err := x402.ParseAddress(fmt.Sprintf("0x%040d", n))
	if err != nil {
		panic(err)
	}
	return a
}

// generated are the rows of the purchases $1 to $2, each table by one statement. They were made an hour ago, one after
// the other, and their ids are in that order, as those of the program are.
var generated = []struct{ table, sql string }{
	{"reconciliations", `INSERT INTO reconciliations (id, first_block, next_block)
		SELECT '0x' || lpad('9', 40, '0') || '/0x' || lpad('7', 40, '0'), 1, 90
			WHERE $1::int <= $2::int ON CONFLICT DO NOTHING`},
	{"orders", `INSERT INTO orders (id, operation_id, kind, status, owner, idempotency_key, fingerprint,
		price_usd_cents, item, version, created_at, updated_at)
		SELECT 'ord_' || lpad(n::text, 12, '0'), gen_random_uuid(), 'card_issue', 'fulfilled', '0x' || lpad(n::text, 40,
			'0'), 'k' || n, decode(repeat('00', 32), 'hex'), 2500, '{}', 4, timestamptz '2026-01-02 11:00Z',
			timestamptz '2026-01-02 11:00Z' + n * interval '1 microsecond' FROM generate_series($1::int, $2::int) n`},
	{"timeline", `INSERT INTO timeline (id, order_id, owner, version, at, from_status, to_status, actor, reason)
		SELECT ('00000000-0000-7002-800' || v || '-' || lpad(n::text, 12, '0'))::uuid,
			'ord_' || lpad(n::text, 12, '0'), '0x' || lpad(n::text, 40, '0'), v,
			timestamptz '2026-01-02 11:00Z', 'x', 'y', 'worker', ''
		FROM generate_series($1::int, $2::int) n, generate_series(1, 4) v`},
	{"payments", `INSERT INTO payments (id, order_id, status, network, asset, owner, pay_to, value, valid_after,
			valid_before, nonce, signature, transaction, block, block_hash, log_index, settled_at, created_at)
		SELECT ('00000000-0000-7003-8000-' || lpad(n::text, 12, '0'))::uuid, 'ord_' || lpad(n::text, 12, '0'), 'paid',
			'eip155:8453', '0x' || lpad('9', 40, '0'),
			'0x' || lpad(n::text, 40, '0'),
			'0x' || lpad('7', 40, '0'), 25000000, 0, 1, '0x' || lpad(n::text, 64, 'a'), decode(repeat('00', 65), 'hex'),
			'0x' || lpad(n::text, 64, 'b'), 1 + n % 80, '0x' || repeat('0', 64), 1,
			timestamptz '2026-01-02 11:00Z', timestamptz '2026-01-02 11:00Z' FROM generate_series($1::int, $2::int) n`},
	{"transfers", `INSERT INTO transfers (id, asset, pay_to, transaction, log_index, block, sender, value, nonce, seen_at)
		SELECT n, '0x' || lpad('9', 40, '0'), '0x' || lpad('7', 40, '0'), '0x' || lpad(n::text, 64, 'b'), 1, 1 + n % 80,
			'0x' || lpad(n::text, 40, '0'), 25000000,
			'0x' || lpad(n::text, 64, 'a'), timestamptz '2026-01-02 11:00Z' FROM generate_series($1::int, $2::int) n`},
	{"transfers_id", `SELECT setval(pg_get_serial_sequence('transfers', 'id'),
		greatest($2::int, (SELECT coalesce(max(id), 1) FROM transfers))) WHERE $1::int > 0`},
	{"cards", `INSERT INTO cards (id, order_id, owner, status, provider, reference, account, created_at, updated_at)
		SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'ord_' || lpad(n::text, 12, '0'),
			'0x' || lpad(n::text, 40, '0'), 'ACTIVE', '',
			('00000000-0000-5000-8000-' || lpad(n::text, 12, '0'))::uuid, 'crd_' || n,
				timestamptz '2026-01-02 11:00Z', timestamptz '2026-01-02 11:00Z'
		FROM generate_series($1::int, $2::int) n`},
	{"ledger_postings", `INSERT INTO ledger_postings (id, order_id, owner, kind, at)
		SELECT k.kind || '/ord_' || lpad(n::text, 12, '0'), 'ord_' || lpad(n::text, 12, '0'),
			'0x' || lpad(n::text, 40, '0'), k.kind, timestamptz '2026-01-02 11:00Z'
		FROM generate_series($1::int, $2::int) n, (VALUES ('settled'), ('loaded'), ('fee_withdrawn')) k (kind)`},
	{"ledger_entries", `INSERT INTO ledger_entries (posting_id, owner, account, amount)
		SELECT e.kind || '/ord_' || lpad(n::text, 12, '0'), '0x' || lpad(n::text, 40, '0'),
			e.account || CASE e.of WHEN 'card' THEN '00000000-0000-7000-8000-' || lpad(n::text, 12, '0')
			WHEN 'order' THEN 'ord_' || lpad(n::text, 12, '0') ELSE '' END, e.amount
		FROM generate_series($1::int, $2::int) n, (VALUES
			('settled', 'treasury:usdc', '', 25000000), ('settled', 'customer:', 'order', -25000000),
			('loaded', 'issuer:float', '', -25000000), ('loaded', 'card:', 'card', 25000000),
			('loaded', 'customer:', 'order', 25000000), ('loaded', 'holder:', 'card', -25000000),
			('fee_withdrawn', 'card:', 'card', -10000000), ('fee_withdrawn', 'issuer:float', '', 10000000),
			('fee_withdrawn', 'holder:', 'card', 10000000), ('fee_withdrawn', 'revenue:issue_fee', '',
				-10000000)) e (kind, account, of, amount)`},
}

// Sell puts the purchases from..to of a card into the books, each with its payment, transfer, card, withdrawn fee and
// postings, and copies the issuer's lines of them. Of some tables only, when they are named.
func Sell(ctx context.Context, db DB, from, to int, tables ...string) error {
	for _, g := range generated {
		if len(tables) > 0 && !slices.Contains(tables, g.table) {
			continue
		}
		if _, err := db.Exec(ctx, g.sql, from, to); err != nil {
			return fmt.Errorf("fill %s: %w", g.table, err)
		}
	}
	if len(tables) > 0 {
		return nil
	}
	return fees(ctx, db, from, to)
}

// SellLongAgo is Sell of purchases whose timelines are pruned to their last line.
func SellLongAgo(ctx context.Context, db DB, from, to int) error {
	for _, g := range generated {
		if g.table == "timeline" {
			g.sql += " WHERE v = 4"
		}
		if _, err := db.Exec(ctx, g.sql, from, to); err != nil {
			return fmt.Errorf("fill %s: %w", g.table, err)
		}
	}
	return fees(ctx, db, from, to)
}

// withFees are the fee jobs and the issuer's lines. $3 are the fees' references, which the database cannot make.
var withFees = []string{
	`INSERT INTO jobs (id, kind, unique_key, owner, payload, status, attempt, max_attempts, run_at,
		created_at, finished_at)
	SELECT ('00000000-0000-7004-8000-' || lpad(n::text, 12, '0'))::uuid, 'card_issue_fee',
		'00000000-0000-7000-8000-' || lpad(n::text, 12, '0'),
		'0x' || lpad(n::text, 40, '0'), jsonb_build_object('card', '00000000-0000-7000-8000-' ||
		lpad(n::text, 12, '0'), 'order', 'ord_' || lpad(n::text, 12, '0'), 'account', 'crd_' || n, 'amountUsdCents',
			1000, 'version', 1), 'succeeded', 1, 5,
		timestamptz '2026-01-02 11:00Z', timestamptz '2026-01-02 11:00Z', timestamptz '2026-01-02 11:00Z'
	FROM unnest($3::uuid[]) WITH ORDINALITY AS r (ref, at), LATERAL (SELECT $1::int + at::int - 1 AS n) x
		WHERE n <= $2::int`,
	`INSERT INTO issuer_lines (id, provider, reference, account, direction, state, amount_usd_cents, balance_usd_cents,
		order_id, epoch, pending, changed_at)
	SELECT 'crd_' || n, '', ('00000000-0000-5000-8000-' || lpad(n::text, 12, '0'))::uuid, 'crd_' || n, '', 'active',
		2500, 1500,
		'ord_' || lpad(n::text, 12, '0'), 1000000, false, timestamptz '2026-01-02 11:00Z'
	FROM generate_series($1::int, $2::int) n WHERE cardinality($3::uuid[]) > 0`,
	`INSERT INTO issuer_lines (id, provider, reference, account, direction, state, amount_usd_cents, order_id, epoch,
		pending, changed_at)
	SELECT 'mov_' || n, '', ref, 'crd_' || n, 'withdrawal', 'succeeded', 1000, 'ord_' || lpad(n::text, 12, '0'),
		1000000, false, timestamptz '2026-01-02 11:00Z'
	FROM unnest($3::uuid[]) WITH ORDINALITY AS r (ref, at), LATERAL (SELECT $1::int + at::int - 1 AS n) x
		WHERE n <= $2::int`,
}

// fees adds the fee jobs and the issuer's lines, 20,000 purchases at a time.
func fees(ctx context.Context, db DB, from, to int) error {
	for first := from; first <= to; first += 20_000 {
		last := min(first+19_999, to)
		var refs []string
		for n := first; n <= last; n++ {
			a := card.FeeArgs{Card: uuid.MustParse(fmt.Sprintf("00000000-0000-7000-8000-%012d", n)), Version: 1}
			refs = append(refs, a.Ref().String())
		}
		for _, sql := range withFees {
			if _, err := db.Exec(ctx, sql, first, last, refs); err != nil {
				return fmt.Errorf("fill the issuer's side: %w", err)
			}
		}
	}
	return nil
}

// left is what the purchases $1 to $2 leave behind, next to the books; operators look at every tenth.
var left = []string{
	`INSERT INTO jobs (id, kind, unique_key, owner, payload, status, attempt, max_attempts, run_at, created_at,
		finished_at)
	SELECT ('00000000-0000-700' || k.digit || '-8000-' || lpad(n::text, 12, '0'))::uuid, k.kind,
		'00000000-0000-7003-8000-' || lpad(n::text, 12, '0'), '0x' || lpad(n::text, 40, '0'),
		jsonb_build_object('order', 'ord_' || lpad(n::text, 12, '0')), 'succeeded', 1, 1000,
		timestamptz '2026-01-02 11:00Z', timestamptz '2026-01-02 11:00Z',
		timestamptz '2026-01-02 11:00Z' + n * interval '1 microsecond'
	FROM generate_series($1::int, $2::int) n, (VALUES (5, 'order_fulfill'), (6, 'payment_confirm')) k (digit, kind)`,

	`INSERT INTO transactions (id, relayer, nonce, variants, status, created_at)
	SELECT ('00000000-0000-7007-8000-' || lpad(n::text, 12, '0'))::uuid, '0x' || repeat('8', 40), n, '[]', 'closed',
		timestamptz '2026-01-02 11:00Z' + n * interval '1 microsecond' FROM generate_series($1::int, $2::int) n`,

	`INSERT INTO transaction_members (id, transaction_id, payment_id, place, status, created_at)
	SELECT ('00000000-0000-7008-8000-' || lpad(n::text, 12, '0'))::uuid,
		('00000000-0000-7007-8000-' || lpad(n::text, 12, '0'))::uuid,
		('00000000-0000-7003-8000-' || lpad(n::text, 12, '0'))::uuid, 0, 'closed', timestamptz '2026-01-02 11:00Z'
	FROM generate_series($1::int, $2::int) n`,

	`INSERT INTO reservations (id, order_id, owner, resource, units, created_at, settled_at, released_at)
	SELECT ('00000000-0000-7009-8000-' || lpad(n::text, 12, '0'))::uuid, 'ord_' || lpad(n::text, 12, '0'),
		'0x' || lpad(n::text, 40, '0'), 'float', 2500, timestamptz '2026-01-02 11:00Z',
		timestamptz '2026-01-02 11:00Z', timestamptz '2026-01-02 11:00Z' + n * interval '1 microsecond'
	FROM generate_series($1::int, $2::int) n`,

	`INSERT INTO audit (id, at, actor, action, subject)
	SELECT ('00000000-0000-700a-8000-' || lpad(n::text, 12, '0'))::uuid,
		timestamptz '2026-01-02 11:00Z' + n * interval '1 microsecond', 'ann', 'order.inspect',
		'ord_' || lpad(n::text, 12, '0') FROM generate_series($1::int, $2::int) n WHERE n % 10 = 0`,
}

// Leave puts what the purchases from..to leave behind into the database, next to what Sell does.
func Leave(ctx context.Context, db DB, from, to int) error {
	for _, sql := range left {
		if _, err := db.Exec(ctx, sql, from, to); err != nil {
			return fmt.Errorf("leave rows behind: %w", err)
		}
	}
	return nil
}

// Look stores the product events from..to, a thousand of each day until now: the higher the number the older.
func Look(ctx context.Context, db DB, from, to int) error {
	_, err := db.Exec(ctx, `
		INSERT INTO events (id, name, visitor, properties, at)
		SELECT ('00000000-0000-700b-8000-' || lpad(n::text, 12, '0'))::uuid, 'page_view', sha256(n::text::bytea),
			jsonb_build_object('product', 'card'), now() - n * interval '86.4 seconds'
		FROM generate_series($1::int, $2::int) n`, from, to)
	if err != nil {
		return fmt.Errorf("store events: %w", err)
	}
	return nil
}
