package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/ent/table"
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
	rows, now := settleRows{settled: map[order.ID]order.Order{}}, o.s.stamp()
	err := mapError(o.s.txOnce(ctx, func(ctx context.Context, tx *ent.Tx) error {
		pgxOf(tx).batch = true
		leased := fenceAll(tx, batch)
		if err := pgxOf(tx).flush(ctx); err != nil {
			return err
		}
		for _, m := range batch {
			if leased[m.in.fence.ID] {
				rows.add(m, now)
			}
		}
		rows.write(tx)
		return beforeSettle()
	}))
	if isMemberError(err) {
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

var fenceTable = table.New("",
	table.Col("id", "uuid", func(f *job.Fence) uuid.UUID { return f.ID }),
	table.Col("worker", "varchar", func(f *job.Fence) string { return f.Owner }),
	table.Col("attempt", "bigint", func(f *job.Fence) int { return f.Attempt }),
	table.Col("owner", "varchar", func(f *job.Fence) string { return f.Of }),
)

// fenceAllSQL is fenceJobSQL for several jobs.
var fenceAllSQL = table.Statement(`
	SELECT f.id FROM {f} WHERE (SELECT 1 FROM jobs
		WHERE id = f.id AND owner = f.owner AND lease_owner = f.worker AND attempt = f.attempt
			AND lease_until > clock_timestamp()
		FOR UPDATE) = 1`, table.Rows("f", fenceTable))

// fenceAll queues the locks of the claims of a batch's jobs, and returns those that are not over once it is sent.
func fenceAll(tx *ent.Tx, batch []*settleMember) map[uuid.UUID]bool {
	fences := make([]*job.Fence, len(batch))
	for i, m := range batch {
		fences[i] = &m.in.fence
	}
	leased := map[uuid.UUID]bool{}
	readRows(tx, func(row pgx.CollectableRow) error {
		var id uuid.UUID
		err := row.Scan(&id)
		leased[id] = true
		return err
	}, fenceAllSQL, fenceTable.Arrays(fences)...)
	return leased
}

// settleRows are the rows of the settlements of a batch: those of a member have its place in each.
type settleRows struct {
	members []*settleMember
	// settled are the orders that were settled.
	settled map[order.ID]order.Order

	payments []*ent.Payment
	moves    []*ent.Timeline
	watches  newJobs

	postings []*ent.LedgerPosting
	entries  []*ent.LedgerEntry
}

// add adds a settlement at a time. One that is invalid is left out.
func (r *settleRows) add(m *settleMember, now time.Time) {
	move, paid := m.in.move, m.in.payment
	if !r.watches.add(m.ctx, m.in.watch, move.Owner.Lower()) {
		return
	}
	r.members = append(r.members, m)
	r.payments = append(r.payments, settledRow(paid))
	r.moves = append(r.moves, moveRow(m.ctx, move, 0, now))
	for _, p := range move.Postings {
		r.postings = append(r.postings, postingRow(p, move.Owner.Lower(), now))
		for _, e := range p.Entries {
			r.entries = append(r.entries, &ent.LedgerEntry{
				PostingID: string(p.ID), Owner: move.Owner.Lower(), Account: string(e.Account), Amount: int64(e.Amount),
			})
		}
	}
}

// settledRow is the row of a payment that is proved, with what proves it.
func settledRow(p payment.Payment) *ent.Payment {
	row, r := paymentRow(p), p.Receipt
	transaction, block := r.Transaction.String(), int64(r.Block)
	blockHash, logIndex := r.BlockHash.String(), int64(r.LogIndex)
	row.Transaction, row.Block, row.BlockHash, row.LogIndex = &transaction, &block, &blockHash, &logIndex
	row.SettledAt = &r.SettledAt
	return row
}

var (
	provenTable = ent.PaymentTable.Only("id", "order_id", "owner", "transaction", "block", "block_hash", "log_index",
		"settled_at")
	// The version of a move is that of its order after it.
	movedTable   = ent.TimelineTable.But("version")
	settledLines = movedTable.But("order_id", "owner", "request_id")
	entryTable   = ent.LedgerEntryTable.But("id")
)

// settlesSQL settles orders whose payments are claimed, and returns them. Nothing is stored of one whose payment is in
// another status. When an order is in another status than its payment says, it divides by zero, so that the server
// rolls the batch back.
var settlesSQL = table.Statement(`
	WITH m AS (
		SELECT * FROM {m}
	), paid AS (
		UPDATE payments p SET status = 'paid', transaction = m.payments_transaction, block = m.payments_block,
			block_hash = m.payments_block_hash, log_index = m.payments_log_index, settled_at = m.payments_settled_at
		FROM m WHERE p.id = m.payments_id AND p.owner = m.payments_owner AND p.status = 'claimed'
		RETURNING m.payments_order_id AS order_id, m.payments_owner AS payer, m.timeline_at AS now
	), moved AS (
		UPDATE orders o SET status = m.timeline_to_status, version = o.version + 1, updated_at = m.timeline_at
		FROM m JOIN paid ON paid.order_id = m.payments_order_id
		WHERE o.id = m.payments_order_id AND o.owner = m.payments_owner AND o.status = m.timeline_from_status
		RETURNING o.*
	), told AS (
		INSERT INTO timeline ({timeline}, order_id, owner, version) SELECT {m.timeline}, moved.id, moved.owner, moved.version
		FROM m JOIN moved ON moved.id = m.payments_order_id
	), kept AS (
		UPDATE reservations r SET settled_at = paid.now
		FROM paid WHERE r.order_id = paid.order_id AND r.owner = paid.payer AND r.released_at IS NULL
	), queued AS (
		`+intoJobsSQL+`
		SELECT {m.jobs}, m.payments_owner, coalesce(m.due, now()), now(), now() + m.lease
		FROM m JOIN paid ON paid.order_id = m.payments_order_id
		ON CONFLICT (kind, unique_key, owner) DO NOTHING
	), posted AS (
		INSERT INTO ledger_postings ({ledger_postings}) SELECT {p.ledger_postings}
		FROM {p} JOIN paid ON paid.order_id = p.ledger_postings_order_id
		ON CONFLICT (id, owner) DO NOTHING RETURNING id
	), entered AS (
		INSERT INTO ledger_entries ({ledger_entries}) SELECT {e.ledger_entries}
		FROM {e} JOIN posted ON posted.id = e.ledger_entries_posting_id
	), checked AS (
		SELECT 1 / (CASE WHEN (SELECT count(*) FROM paid) = (SELECT count(*) FROM moved) THEN 1 ELSE 0 END) AS ok
	)
	SELECT `+ent.OrderColumns+` FROM checked LEFT JOIN moved ON true WHERE checked.ok = 1 AND moved.id IS NOT NULL`,
	table.Rows("m", provenTable, settledLines, jobTable, jobTimes),
	table.Rows("p", ent.LedgerPostingTable), table.Rows("e", entryTable))

// write queues the statement that stores the settlements, unless there are none.
func (r *settleRows) write(tx *ent.Tx) {
	if len(r.members) == 0 {
		return
	}
	args := slices.Concat(provenTable.Arrays(r.payments), settledLines.Arrays(r.moves), r.watches.arrays(),
		ent.LedgerPostingTable.Arrays(r.postings), entryTable.Arrays(r.entries))
	readRows(tx, func(row pgx.CollectableRow) error {
		o, err := scanOrder(row)
		r.settled[o.ID] = o
		return err
	}, settlesSQL, args...)
	r.watches.wakeOnCommit(tx)
}
