package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
)

// settleRequest is everything that the settlement of one order stores.
type settleRequest struct {
	fence   job.Fence
	payment payment.Payment
	move    order.Move
	watch   job.New
}

type settleMember = member[settleRequest, order.Order]

func settleKey(r settleRequest) string { return string(r.move.Order) }

// plain reports whether a settlement may share a transaction: it posts what belongs to its order and reverses nothing.
func (r settleRequest) plain() bool {
	if r.move.Refused || r.move.To != order.Settled || r.payment.Order != r.move.Order ||
		r.payment.Authorization.From != r.move.Owner || r.payment.Receipt == nil {
		return false
	}
	for _, p := range r.move.Postings {
		if p.Order != string(r.move.Order) || p.Undoes != "" {
			return false
		}
	}
	return true
}

// settleTogether stores the settlements of a batch in one transaction. One whose lease is lost, or whose payment is in
// another status, is left out and decided in a transaction of its own.
func (o Orders) settleTogether(ctx context.Context, batch []*settleMember) {
	// The rows of all batches are locked in the same order.
	slices.SortFunc(batch, func(a, b *settleMember) int { return cmp.Compare(settleKey(a.in), settleKey(b.in)) })
	rows := settleRows{now: o.s.stamp(), settled: map[order.ID]order.Order{}}
	err := mapError(o.s.txOnce(ctx, func(ctx context.Context, tx *ent.Tx) error {
		pgxOf(tx).batch = true
		leased := fenceAll(tx, batch)
		if err := pgxOf(tx).flush(ctx); err != nil {
			return err
		}
		for _, m := range batch {
			if leased[m.in.fence.ID] {
				rows.add(m)
			}
		}
		rows.write(tx)
		return beforeSettle()
	}))
	if divides(err) {
		return
	}
	if err != nil && !errors.Is(err, ErrUnknownCommit) {
		for _, m := range batch {
			m.answer(order.Order{}, err)
		}
		return
	}
	for _, m := range rows.members {
		settled, stored := rows.settled[m.in.move.Order]
		if err == nil && stored {
			o.s.Notify(topicOrder, string(m.in.move.Order))
		}
		if err != nil || stored {
			m.answer(settled, err)
		}
	}
}

// fenceAllSQL is fenceJobSQL for several jobs.
const fenceAllSQL = `
	SELECT f.id FROM unnest($1::uuid[], $2::varchar[], $3::bigint[], $4::varchar[]) AS f (id, worker, attempt, owner)
	WHERE (SELECT 1 FROM jobs
		WHERE id = f.id AND owner = f.owner AND lease_owner = f.worker AND attempt = f.attempt
			AND lease_until > clock_timestamp()
		FOR UPDATE) = 1`

// fenceAll queues the locks of the claims of a batch's jobs, and returns those that are not over once it is sent.
func fenceAll(tx *ent.Tx, batch []*settleMember) map[uuid.UUID]bool {
	var ids []uuid.UUID
	var workers, of []string
	var attempts []int64
	for _, m := range batch {
		f := m.in.fence
		ids, workers, attempts = append(ids, f.ID), append(workers, f.Owner), append(attempts, int64(f.Attempt))
		of = append(of, f.Of)
	}
	leased := map[uuid.UUID]bool{}
	readRows(tx, func(row pgx.CollectableRow) error {
		var id uuid.UUID
		err := row.Scan(&id)
		leased[id] = true
		return err
	}, fenceAllSQL, ids, workers, attempts, of)
	return leased
}

// settleRows are the rows of the settlements of a batch, by columns.
type settleRows struct {
	now     time.Time
	members []*settleMember
	// settled are the orders that were settled.
	settled map[order.ID]order.Order

	payments, moves                     []uuid.UUID
	orders, owners                      []string
	transactions, blockHashes           []string
	blocks, logIndexes                  []int64
	settledAt                           []time.Time
	from, to, actors, reasons, evidence []string
	jobs                                jobRows

	postings, postedOrders, postedBy, kinds []string
	entriesOf, accounts                     []string
	amounts                                 []int64
}

// add adds a settlement. One that is invalid is left out.
func (r *settleRows) add(m *settleMember) {
	move, paid := m.in.move, m.in.payment
	evidence, err := json.Marshal(move.Evidence)
	if err != nil || !r.jobs.add(m.ctx, m.in.watch) {
		return
	}
	owner, receipt := move.Owner.Lower(), paid.Receipt
	r.members = append(r.members, m)
	r.payments, r.moves = append(r.payments, paid.ID), append(r.moves, uuid.Must(uuid.NewV7()))
	r.orders, r.owners = append(r.orders, string(move.Order)), append(r.owners, owner)
	r.transactions, r.blockHashes = append(r.transactions, receipt.Transaction.String()),
		append(r.blockHashes, receipt.BlockHash.String())
	r.blocks, r.logIndexes = append(r.blocks, int64(receipt.Block)), append(r.logIndexes, int64(receipt.LogIndex))
	r.settledAt = append(r.settledAt, receipt.SettledAt)
	r.from, r.to = append(r.from, string(move.From)), append(r.to, string(move.To))
	r.actors, r.reasons = append(r.actors, move.Actor), append(r.reasons, move.Reason)
	r.evidence = append(r.evidence, string(evidence))
	for _, p := range move.Postings {
		r.postings, r.postedOrders = append(r.postings, string(p.ID)), append(r.postedOrders, p.Order)
		r.postedBy, r.kinds = append(r.postedBy, owner), append(r.kinds, string(p.Kind))
		for _, e := range p.Entries {
			r.entriesOf, r.accounts = append(r.entriesOf, string(p.ID)), append(r.accounts, string(e.Account))
			r.amounts = append(r.amounts, int64(e.Amount))
		}
	}
}

// settlesSQL settles orders whose payments are claimed, and returns them. Nothing is stored of one whose payment is in
// another status. When an order is in another status than its payment says, it divides by zero, so that the server
// rolls the batch back.
const settlesSQL = `
	WITH m AS (
		SELECT * FROM unnest(
			$1::uuid[], $2::uuid[], $3::varchar[], $4::varchar[], $5::varchar[], $6::varchar[], $7::bigint[], $8::bigint[],
			$9::timestamptz[], $10::varchar[], $11::varchar[], $12::varchar[], $13::text[], $14::text[]
		) AS m (payment_id, move_id, order_id, payer, txn, hash, number, index, mined_at, before, after, actor, reason,
			evidence)
	), paid AS (
		UPDATE payments p SET status = 'paid', transaction = m.txn, block = m.number, block_hash = m.hash,
			log_index = m.index, settled_at = m.mined_at
		FROM m WHERE p.id = m.payment_id AND p.owner = m.payer AND p.status = 'claimed'
		RETURNING m.order_id, m.payer
	), moved AS (
		UPDATE orders o SET status = m.after, version = o.version + 1, updated_at = $15
		FROM m JOIN paid ON paid.order_id = m.order_id
		WHERE o.id = m.order_id AND o.owner = m.payer AND o.status = m.before
		RETURNING o.*
	), told AS (
		INSERT INTO timeline (id, order_id, owner, version, at, from_status, to_status, actor, reason, evidence)
		SELECT m.move_id, m.order_id, m.payer, moved.version, $15, m.before, m.after, m.actor, m.reason, m.evidence::jsonb
		FROM m JOIN moved ON moved.id = m.order_id
	), kept AS (
		UPDATE reservations r SET settled_at = $15
		FROM paid WHERE r.order_id = paid.order_id AND r.owner = paid.payer AND r.released_at IS NULL
	), queued AS (
		INSERT INTO jobs (id, kind, unique_key, payload, traceparent, status, attempt, max_attempts, run_at,
			created_at, lease_owner, lease_until, class, owner)
		SELECT j.id, j.kind, j.unique_key, j.payload::jsonb, j.traceparent, j.status, j.attempt, j.max_attempts,
			coalesce(j.run_at, now()), now(), j.worker, now() + j.lease, j.class, paid.payer
		FROM unnest($16::varchar[], $17::uuid[], $18::varchar[], $19::varchar[], $20::text[], $21::varchar[],
			$22::varchar[], $23::bigint[], $24::bigint[], $25::timestamptz[], $26::varchar[], $27::interval[],
			$28::varchar[]) AS j (order_id, id, kind, unique_key, payload, traceparent, status, attempt, max_attempts,
			run_at, worker, lease, class)
			JOIN paid ON paid.order_id = j.order_id
		ON CONFLICT (kind, unique_key, owner) DO NOTHING
	), posted AS (
		INSERT INTO ledger_postings (id, order_id, owner, kind, at)
		SELECT p.id, p.order_id, p.owner, p.kind, $15
		FROM unnest($29::varchar[], $30::varchar[], $31::varchar[], $32::varchar[]) AS p (id, order_id, owner, kind)
			JOIN paid ON paid.order_id = p.order_id
		ON CONFLICT (id, owner) DO NOTHING RETURNING id, owner
	), entered AS (
		INSERT INTO ledger_entries (posting_id, owner, account, amount)
		SELECT posted.id, posted.owner, e.account, e.amount
		FROM unnest($33::varchar[], $34::varchar[], $35::bigint[]) AS e (posting_id, account, amount)
			JOIN posted ON posted.id = e.posting_id
	), checked AS (
		SELECT 1 / (CASE WHEN (SELECT count(*) FROM paid) = (SELECT count(*) FROM moved) THEN 1 ELSE 0 END) AS ok
	)
	SELECT ` + orderColumns + ` FROM checked LEFT JOIN moved ON true WHERE checked.ok = 1 AND moved.id IS NOT NULL`

// write queues the statement that stores the settlements, unless there are none.
func (r *settleRows) write(tx *ent.Tx) {
	if len(r.members) == 0 {
		return
	}
	args := []any{
		r.payments, r.moves, r.orders, r.owners, r.transactions, r.blockHashes, r.blocks, r.logIndexes,
		r.settledAt, r.from, r.to, r.actors, r.reasons, r.evidence, r.now, r.orders,
	}
	args = append(args, r.jobs.columns()...)
	args = append(args, r.postings, r.postedOrders, r.postedBy, r.kinds, r.entriesOf, r.accounts, r.amounts)
	readRows(tx, func(row pgx.CollectableRow) error {
		o, err := scanOrder(row)
		r.settled[o.ID] = o
		return err
	}, settlesSQL, args...)
	r.jobs.wakeOnCommit(tx)
}
