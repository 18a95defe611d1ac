package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/ent/table"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
)

// claimMember is a claim in a batch.
type claimMember = member[checkout.ClaimRequest, checkout.ClaimResult]

// claimKey is the owner of a claim. A batch has one claim of an owner, so that whatever is limited per owner is counted
// from the rows that the claims before have stored.
func claimKey(p checkout.ClaimRequest) string { return p.Order.Owner.Lower() }

// claimTogether stores the claims of a batch in one transaction. A claim that is refused, repeated or doubtful in any
// way is left out and decided in a transaction of its own, so that it never fails the others.
func (o Orders) claimTogether(ctx context.Context, batch []*claimMember) {
	rows := claimRows{now: o.s.stamp(), jobs: map[uuid.UUID]job.Row{}}
	err := mapError(o.s.txOnce(ctx, func(ctx context.Context, tx *ent.Tx) error {
		pgxOf(tx).batch = true
		counts := o.s.countClaims(tx, batch)
		if err := pgxOf(tx).flush(ctx); err != nil {
			return err
		}
		for _, m := range batch {
			if counts.fits(m.in) && rows.add(m) {
				counts.add(m.in)
			}
		}
		counts.learn(batch)
		rows.insert(tx)
		o.s.caughtUp(tx)
		return beforeClaim()
	}))
	if isMemberError(err) {
		return
	}
	if err != nil && !errors.Is(err, ErrUnknownCommit) {
		for _, m := range batch {
			m.answer(checkout.ClaimResult{}, err)
		}
		return
	}
	for i, m := range rows.members {
		if row, stored := rows.jobs[rows.queue[i].row.ID]; stored || err != nil {
			row.Asked = m.in.Job.Asked
			m.answer(checkout.ClaimResult{Claim: checkout.Fresh, Order: claimedOrder(m.in), Job: row}, err)
		}
	}
}

// claimRows are the rows of the claims of a batch: those of a member have its place in each.
type claimRows struct {
	now     time.Time
	members []*claimMember
	// jobs are those that were stored.
	jobs map[uuid.UUID]job.Row

	orders   []*ent.Order
	existing []bool
	payments []*ent.Payment
	moves    []*ent.Timeline
	queue    newJobs

	hits     []*hitRow
	reserved []*ent.Reservation
}

// hitRow is a request that a claim counts.
type hitRow struct {
	order order.ID
	limit.Hit
}

var hitTable = table.New("",
	table.Col("order_id", "varchar", func(t *hitRow) string { return string(t.order) }),
	table.Col("id", "varchar", func(t *hitRow) string { return hitID(t.Hit) }),
	table.Col("each", "interval", func(t *hitRow) time.Duration { return t.Each() }),
	table.Col("most", "interval", func(t *hitRow) time.Duration { return spanOf(t.Hit) }),
)

// add adds a claim. It is false for one that is invalid, which is left out.
func (r *claimRows) add(m *claimMember) bool {
	p, o := m.in, claimedOrder(m.in)
	if p.Payment.Status != payment.Claimed || !r.queue.add(m.ctx, p.Job, o.Owner.Lower()) {
		return false
	}
	r.members = append(r.members, m)
	r.orders, r.existing = append(r.orders, orderRow(o)), append(r.existing, p.Existing)
	r.payments = append(r.payments, paymentRow(p.Payment))
	r.moves = append(r.moves, moveRow(m.ctx, claimMove(o), o.Version, r.now))
	for _, t := range p.Hits {
		r.hits = append(r.hits, &hitRow{o.ID, t})
	}
	for _, h := range p.Reservations {
		r.reserved = append(r.reserved, &ent.Reservation{
			ID: uuid.Must(uuid.NewV7()), OrderID: string(o.ID), Owner: o.Owner.Lower(), Resource: h.Resource, Units: h.Units,
		})
	}
	return true
}

// A batch takes what its rows do not have in common, as each array costs the server: what they do, the statement says.
var (
	claimedTable  = ent.OrderTable.But("status", "request_id")
	unprovenTable = ent.PaymentTable.But("order_id", "owner", "status", "transaction", "block", "block_hash", "log_index",
		"settled_at", "dead_reason", "arrived_at")
	claimLineTable = ent.TimelineTable.But("order_id", "owner", "version", "at", "from_status", "to_status", "actor",
		"reason", "evidence")
	heldTable = ent.ReservationTable.But("created_at", "settled_at", "released_at", "suspended_at")
)

// claimsSQL stores claims whose orders and payments do not exist, and returns the jobs of those. The order of a claim
// that finds another order of its purchase, or its own in another state, is not among taken, and nothing else of it is
// stored. What can only happen after that divides by zero, so that the server rolls the batch back: the authorization
// was claimed for another order, or a request exceeds a limit, both at this moment and by another process.
var claimsSQL = table.Statement(`
	WITH m AS (
		SELECT * FROM {m}
	), hits AS (
		SELECT * FROM {t}
	), added AS (
		INSERT INTO orders ({orders}, status) SELECT {m.orders}, {c.to} FROM m WHERE NOT existing
		ON CONFLICT DO NOTHING RETURNING id
	), resumed AS (
		UPDATE orders o SET status = {c.to}, version = m.orders_version, expires_at = NULL,
			refund_reason = m.orders_refund_reason, updated_at = {c.now}
		FROM m
		WHERE m.existing AND o.id = m.orders_id AND o.owner = m.orders_owner AND o.status = 'payment_required'
			AND o.version = m.orders_version - 1 AND (o.expires_at IS NULL OR o.expires_at > {c.now})
		RETURNING o.id
	), taken AS (
		SELECT id FROM added UNION ALL SELECT id FROM resumed
	), paid AS (
		INSERT INTO payments ({payments}, order_id, owner, status, dead_reason)
		SELECT {m.payments}, m.orders_id, m.orders_owner, 'claimed', ''
		FROM m JOIN taken ON taken.id = m.orders_id
		ON CONFLICT DO NOTHING RETURNING id
	), told AS (
		INSERT INTO timeline ({timeline}, order_id, owner, version, at, from_status, to_status, actor, reason)
		SELECT {m.timeline}, m.orders_id, m.orders_owner, m.orders_version, {c.now}, {c.from}, {c.to}, {c.actor}, {c.reason}
		FROM m JOIN taken ON taken.id = m.orders_id
	), counted AS (
		INSERT INTO rate_limits (id, resets_at) SELECT t.id, now() + t.each
		FROM hits t JOIN taken ON taken.id = t.order_id ORDER BY t.id
		ON CONFLICT (id) DO UPDATE
		SET resets_at = greatest(rate_limits.resets_at, now()) + (SELECT t.each FROM hits t WHERE t.id = excluded.id)
		WHERE greatest(rate_limits.resets_at, now()) + (SELECT t.each FROM hits t WHERE t.id = excluded.id)
			<= now() + (SELECT t.most FROM hits t WHERE t.id = excluded.id)
		RETURNING 1
	), reserved AS (
		INSERT INTO reservations ({reservations}, created_at) SELECT {r.reservations}, {c.now}
		FROM {r} JOIN taken ON taken.id = r.reservations_order_id
	), queued AS (
		`+intoJobsSQL+`
		SELECT {m.jobs}, m.orders_owner, coalesce(m.due, now()), now(), now() + m.lease
		FROM m JOIN taken ON taken.id = m.orders_id
		RETURNING `+ent.JobColumns+`
	), checked AS (
		SELECT 1 / (CASE WHEN (SELECT count(*) FROM paid) = (SELECT count(*) FROM taken)
			AND (SELECT count(*) FROM counted) = (SELECT count(*) FROM hits t JOIN taken ON taken.id = t.order_id)
			THEN 1 ELSE 0 END) AS ok
	)
	SELECT queued.* FROM checked, queued WHERE checked.ok = 1`,
	table.Rows("m", claimedTable, table.Columns{{Name: "existing", Type: "bool"}}, unprovenTable, claimLineTable,
		jobTable, jobTimes),
	table.Rows("t", hitTable),
	table.Rows("r", heldTable),
	table.One("c", table.Columns{
		{Name: "now", Type: "timestamptz"}, {Name: "from", Type: "varchar"}, {Name: "to", Type: "varchar"},
		{Name: "actor", Type: "varchar"}, {Name: "reason", Type: "text"},
	}))

// insert queues the statement that stores the claims, unless there are none.
func (r *claimRows) insert(tx *ent.Tx) {
	if len(r.members) == 0 {
		return
	}
	move := claimMove(order.Order{})
	args := slices.Concat(
		claimedTable.Arrays(r.orders), []any{r.existing}, unprovenTable.Arrays(r.payments),
		claimLineTable.Arrays(r.moves), r.queue.arrays(),
		hitTable.Arrays(r.hits), heldTable.Arrays(r.reserved),
		[]any{r.now, string(move.From), string(move.To), move.Actor, move.Reason})
	readRows(tx, func(row pgx.CollectableRow) error {
		queued, err := scanJob(row)
		r.jobs[queued.ID] = queued
		return err
	}, claimsSQL, args...)
	r.queue.wakeOnCommit(tx)
}
