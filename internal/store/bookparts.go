package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/x402"
)

// A part of the books is read by the keys of its units, with one index per statement. OFFSET 0 and LIMIT 1 keep the
// planner from replacing an index lookup per key by a full scan, which it prefers while new tables have no statistics,
// and by a hash of a whole table, which it prefers for many keys.
const (
	soldSQL = `
		SELECT id, kind, status, owner, price_usd_cents, delivery_attempt,
			coalesce('adopted:' || adopted_reference, reference::text, id),
			coalesce(status = 'fulfilled' AND (SELECT true FROM timeline t WHERE t.order_id = orders.id
				AND t.owner = orders.owner AND to_status = 'fulfilled' AND actor LIKE 'operator:%' LIMIT 1), false)
		FROM orders WHERE id = ANY($1) ORDER BY id`

	paymentColumns = `p.id, p.order_id, p.status, p.owner, p.value, p.nonce, p.asset <> $1 OR p.pay_to <> $2,
		coalesce(p.transaction, ''), coalesce(p.log_index, 0), coalesce(p.block, 0)`

	paidForSQL = `SELECT ` + paymentColumns + ` FROM payments p WHERE p.order_id = ANY($3) ORDER BY p.id`

	// A transfer matches a payment by its authorization, or by its place.
	arrivedForSQL = `
		SELECT a.transaction, a.log_index, a.block, a.sender, a.value, a.nonce FROM payments p, LATERAL (
			SELECT * FROM transfers WHERE sender = p.owner AND nonce = p.nonce AND nonce <> '' OFFSET 0) a
		WHERE p.order_id = ANY($3) AND a.asset = $1 AND a.pay_to = $2
		UNION
		SELECT a.transaction, a.log_index, a.block, a.sender, a.value, a.nonce FROM payments p, LATERAL (
			SELECT * FROM transfers WHERE transaction = p.transaction AND log_index = p.log_index OFFSET 0) a
		WHERE p.order_id = ANY($3) AND a.asset = $1 AND a.pay_to = $2
		ORDER BY 3, 2`

	postingColumns = `p.id, p.order_id, p.kind, p.at, array_agg(e.account ORDER BY e.id) FILTER (WHERE e.id IS NOT NULL),
		array_agg(e.amount ORDER BY e.id) FILTER (WHERE e.id IS NOT NULL)`

	postedForSQL = `SELECT ` + postingColumns + ` FROM (SELECT DISTINCT unnest($1::varchar[])) n (k), LATERAL (
			SELECT * FROM ledger_postings WHERE order_id = k AND order_id <> '' OFFSET 0) p` + entriesOfPosting

	postedAsSQL = `SELECT ` + postingColumns + ` FROM (SELECT DISTINCT unnest($1::varchar[])) n (k), LATERAL (
			SELECT * FROM ledger_postings WHERE id = k OFFSET 0) p` + entriesOfPosting

	entriesOfPosting = `
		LEFT JOIN LATERAL (
			SELECT * FROM ledger_entries WHERE posting_id = p.id AND owner = p.owner OFFSET 0) e ON true
		GROUP BY p.id, p.order_id, p.kind, p.at, p.owner ORDER BY p.id`

	unreadSQL = `SELECT subject FROM findings
		WHERE reconciliation_id = $1 AND unit LIKE 'block/%' AND closed_at IS NULL`

	transfersSQL = `
		SELECT a.transaction, a.log_index, a.block, a.sender, a.value, a.nonce
		FROM unnest($3::varchar[], $4::bigint[]) AS s (transaction, log_index), LATERAL (
			SELECT * FROM transfers WHERE transaction = s.transaction AND log_index = s.log_index OFFSET 0) a
		WHERE a.asset = $1 AND a.pay_to = $2 ORDER BY a.id`

	resolvedOfSQL = `SELECT id, resolution, reason, actor, at FROM transfer_resolutions WHERE id = ANY($1)`

	// The payments of transfers, matched as in arrivedForSQL.
	paidWithSQL = `
		SELECT ` + paymentColumns + ` FROM unnest($3::varchar[], $4::varchar[]) AS a (sender, nonce), LATERAL (
			SELECT * FROM payments
			WHERE network = $7 AND asset = $1 AND owner = a.sender AND nonce = a.nonce OFFSET 0) p
		UNION
		SELECT ` + paymentColumns + ` FROM unnest($5::varchar[], $6::bigint[]) AS a (transaction, log_index), LATERAL (
			SELECT * FROM payments WHERE transaction = a.transaction AND log_index = a.log_index OFFSET 0) p
		ORDER BY 1`
)

// customPlansSQL makes the server plan each statement of a transaction for its keys: a cached plan from when the tables
// were small would scan them.
const customPlansSQL = "SET LOCAL plan_cache_mode = force_custom_plan"

// snapshot runs reads of the books in one snapshot.
func (t Treasury) snapshot(ctx context.Context, do func(booksReader) error) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	tx, err := t.s.pool.BeginTx(ctx, snapshotTx)
	if err != nil {
		return mapError(fmt.Errorf("begin to read: %w", err))
	}
	defer func() { _ = tx.Rollback(ctx) }() // nothing was written
	if _, err := tx.Exec(ctx, customPlansSQL); err != nil {
		return mapError(fmt.Errorf("disable cached plans: %w", err))
	}
	return do(booksReader{ctx, tx, t.s.shards})
}

// OfOrders implements reconcile.Books.
func (t Treasury) OfOrders(ctx context.Context, orders []order.ID, lines []string) (r reconcile.Records, err error) {
	ids := orderNames(orders)
	err = t.snapshot(ctx, func(b booksReader) error {
		r = reconcile.Records{}
		if r.Scan, err = t.scanned(b.ctx, b.tx); err != nil {
			return mapError(fmt.Errorf("find the last block read: %w", err))
		}
		if err := b.all(
			readAll(b, &r.Unread, scanBlock, unreadSQL, t.id()),
			readAll(b, &r.Orders, scanSold, soldSQL, ids),
			readAll(b, &r.Payments, scanPaid, paidForSQL, t.asset, t.payTo, ids),
			readAll(b, &r.Arrivals, scanArrival, arrivedForSQL, t.asset, t.payTo, ids),
			readAll(b, &r.Postings, scanPosting, postedForSQL, ids),
		); err != nil {
			return err
		}
		for _, p := range t.s.products {
			goods, err := p.goods(b, ids)
			if err != nil {
				return err
			}
			if goods != nil {
				r.Goods = append(r.Goods, goods)
			}
		}
		return b.issuerLines(&r, ids, lines)
	})
	return r, err
}

func orderNames(orders []order.ID) []string {
	names := make([]string, len(orders))
	for i, id := range orders {
		names[i] = string(id)
	}
	return names
}

// OfTransfers implements reconcile.Books.
func (t Treasury) OfTransfers(ctx context.Context, subjects, postings []string) (r reconcile.Records, err error) {
	posted := append([]string{}, postings...)
	var transactions []string
	var indexes []int64
	for _, s := range subjects {
		for _, id := range ledger.OfTransfer(s) {
			posted = append(posted, string(id))
		}
		at, err := reconcile.ParsePlace(s)
		if err != nil {
			return r, err
		}
		transactions, indexes = append(transactions, at.Transaction.String()), append(indexes, int64(at.LogIndex))
	}
	err = t.snapshot(ctx, func(b booksReader) error {
		r = reconcile.Records{}
		if err := b.all(
			readAll(b, &r.Arrivals, scanArrival, transfersSQL, t.asset, t.payTo, transactions, indexes),
			readAll(b, &r.Resolved, scanResolved, resolvedOfSQL, subjects),
			readAll(b, &r.Postings, scanPosting, postedAsSQL, posted),
		); err != nil {
			return err
		}
		var senders, nonces []string
		for _, a := range r.Arrivals {
			if !a.Nonce.IsZero() {
				senders, nonces = append(senders, a.From.Lower()), append(nonces, a.Nonce.String())
			}
		}
		return readAll(b, &r.Payments, scanPaid, paidWithSQL,
			t.asset, t.payTo, senders, nonces, transactions, indexes, x402.NetworkID)()
	})
	return r, err
}

// booksReader reads tables in one snapshot.
type booksReader struct {
	ctx    context.Context
	tx     pgx.Tx
	shards *ownerShards
}

func (b booksReader) all(reads ...func() error) error {
	for _, read := range reads {
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

func readAll[T any](b booksReader, into *[]T, scan pgx.RowToFunc[T], sql string, args ...any) func() error {
	return func() error {
		rows, err := b.tx.Query(b.ctx, b.shards.read(sql), args...)
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
	return t, setTransfer(&t, transaction, sender, nonce, index, block)
}

// setTransfer decodes the columns of a transfer.
func setTransfer(t *reconcile.Transfer, transaction, sender, nonce string, index, block int64) error {
	t.LogIndex, t.Block = uint(index), uint64(block)
	var err1, err2, err3 error
	t.Transaction, err1 = x402.ParseHash(transaction)
	t.From, err2 = x402.ParseAddress(sender)
	if nonce != "" {
		t.Nonce, err3 = x402.ParseHash(nonce)
	}
	return errors.Join(err1, err2, err3)
}

func scanSold(row pgx.CollectableRow) (o order.Sale, err error) {
	var owner string
	err = row.Scan(&o.ID, &o.Kind, &o.Status, &owner, (*int64)(&o.Price), &o.Delivery, &o.Name, &o.ByHand)
	if err != nil {
		return o, err
	}
	o.Owner, err = x402.ParseAddress(owner)
	return o, err
}

func scanPaid(row pgx.CollectableRow) (p reconcile.Payment, err error) {
	var payer, nonce, transaction string
	var index, block int64
	err = row.Scan(&p.ID, &p.Order, &p.Status, &payer, (*int64)(&p.Value), &nonce, &p.Elsewhere,
		&transaction, &index, &block)
	if err != nil {
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

func scanBlock(row pgx.CollectableRow) (block uint64, err error) {
	var text string
	if err := row.Scan(&text); err != nil {
		return 0, err
	}
	return parseBlock(text)
}
