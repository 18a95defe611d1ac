package store

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/job"
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
	if divides(err) {
		return
	}
	if err != nil && !errors.Is(err, ErrUnknownCommit) {
		for _, m := range batch {
			m.answer(checkout.ClaimResult{}, err)
		}
		return
	}
	for i, m := range rows.members {
		if row, stored := rows.jobs[rows.queue.ids[i]]; stored || err != nil {
			row.Asked = m.in.Job.Asked
			m.answer(checkout.ClaimResult{Claim: checkout.Fresh, Order: claimedOrder(m.in), Job: row}, err)
		}
	}
}

// claimRows are the rows of the claims of a batch, by columns.
type claimRows struct {
	now     time.Time
	members []*claimMember
	// jobs are those that were stored.
	jobs map[uuid.UUID]job.Row

	orders, kinds, owners, keys, items, resources, refundReasons []string
	operations                                                   []uuid.UUID
	fingerprints                                                 [][]byte
	prices, versions, deliveries                                 []int64
	references, adopted                                          []*uuid.UUID
	createdAt, updatedAt                                         []time.Time
	expiresAt                                                    []*time.Time
	existing                                                     []bool
	requests                                                     []*string

	payments, moves                 []uuid.UUID
	networks, assets, payTo, nonces []string
	values, validAfter, validBefore []int64
	signatures                      [][]byte
	paidAt                          []time.Time
	queue                           jobRows

	turnOrders, turns []string
	turnEach          []time.Duration
	turnMost          []time.Duration

	reservationIDs                       []uuid.UUID
	reservedOrders, reservedBy, reserved []string
	units                                []int64
}

// add adds a claim. It is false for one that is invalid, which is left out.
func (r *claimRows) add(m *claimMember) bool {
	p := m.in
	if p.Payment.Status != payment.Claimed || !r.queue.add(m.ctx, p.Job) {
		return false
	}
	o := claimedOrder(p)
	r.members = append(r.members, m)
	r.orders, r.operations, r.kinds = append(r.orders, string(o.ID)), append(r.operations, o.Operation),
		append(r.kinds, string(o.Kind))
	r.owners, r.keys, r.items = append(r.owners, o.Owner.Lower()), append(r.keys, o.Key), append(r.items, string(o.Item))
	r.fingerprints, r.prices = append(r.fingerprints, o.Fingerprint[:]), append(r.prices, int64(o.Price))
	r.resources, r.refundReasons = append(r.resources, o.Resource), append(r.refundReasons, o.RefundReason)
	r.references, r.adopted = append(r.references, o.Reference), append(r.adopted, o.RecoveredReference)
	r.versions, r.deliveries = append(r.versions, int64(o.Version)), append(r.deliveries, int64(max(1, o.Delivery)))
	r.createdAt, r.updatedAt, r.expiresAt = append(r.createdAt, o.CreatedAt), append(r.updatedAt, o.UpdatedAt),
		append(r.expiresAt, o.ExpiresAt)
	r.existing, r.moves = append(r.existing, p.Existing), append(r.moves, uuid.Must(uuid.NewV7()))
	r.requests = append(r.requests, requestOf(m.ctx))
	r.addPayment(p.Payment)
	for _, t := range p.Turns {
		r.turnOrders, r.turns = append(r.turnOrders, string(o.ID)), append(r.turns, turnID(t))
		r.turnEach, r.turnMost = append(r.turnEach, t.Each()), append(r.turnMost, spanOf(t))
	}
	for _, h := range p.Reservations {
		r.reservationIDs, r.reservedOrders = append(r.reservationIDs, uuid.Must(uuid.NewV7())),
			append(r.reservedOrders, string(o.ID))
		r.reservedBy, r.reserved, r.units = append(r.reservedBy, o.Owner.Lower()), append(r.reserved, h.Resource),
			append(r.units, h.Units)
	}
	return true
}

func (r *claimRows) addPayment(p payment.Payment) {
	a := p.Authorization
	r.payments, r.networks, r.assets = append(r.payments, p.ID), append(r.networks, p.Network),
		append(r.assets, p.Asset.Lower())
	r.payTo, r.nonces, r.values = append(r.payTo, a.To.Lower()), append(r.nonces, a.Nonce.String()),
		append(r.values, int64(a.Value))
	r.validAfter, r.validBefore = append(r.validAfter, int64(a.ValidAfter)), append(r.validBefore, int64(a.ValidBefore))
	r.signatures, r.paidAt = append(r.signatures, p.Signature[:]), append(r.paidAt, p.CreatedAt)
}

// claimsSQL stores claims whose orders and payments do not exist, and returns the jobs of those. The order of a claim
// that finds another order of its purchase, or its own in another state, is not among taken, and nothing else of it is
// stored. What can only happen after that divides by zero, so that the server rolls the batch back: the authorization
// was claimed for another order, or a request exceeds a limit, both at this moment and by another process.
const claimsSQL = `
	WITH m AS (
		SELECT * FROM unnest(
			$1::varchar[], $2::uuid[], $3::varchar[], $4::varchar[], $5::varchar[], $6::bytea[], $7::bigint[], $8::text[],
			$9::varchar[], $10::uuid[], $11::uuid[], $12::text[], $13::bigint[], $14::bigint[], $15::timestamptz[],
			$16::timestamptz[], $17::timestamptz[], $18::bool[],
			$19::uuid[], $20::varchar[], $21::varchar[], $22::varchar[], $23::bigint[], $24::bigint[], $25::bigint[],
			$26::varchar[], $27::bytea[], $28::timestamptz[], $29::uuid[],
			$30::uuid[], $31::varchar[], $32::varchar[], $33::text[], $34::varchar[], $35::varchar[], $36::bigint[],
			$37::bigint[], $38::timestamptz[], $39::varchar[], $40::interval[], $41::varchar[],
			$56::varchar[]
		) AS m (
			order_id, operation_id, kind, owner, idempotency_key, fingerprint, price, item,
			resource, reference, adopted_reference, refund_reason, version, delivery, created_at,
			updated_at, expires_at, existing,
			payment_id, network, asset, pay_to, value, valid_after, valid_before,
			nonce, signature, paid_at, move_id,
			job_id, job_kind, unique_key, payload, traceparent, job_status, attempt,
			max_attempts, run_at, lease_owner, lease, class,
			request)
	), turns AS (
		SELECT * FROM unnest($42::varchar[], $43::varchar[], $44::interval[], $45::interval[])
			AS t (order_id, id, each, most)
	), added AS (
		INSERT INTO orders (id, operation_id, kind, status, owner, idempotency_key, fingerprint, price_usd_cents, item,
			resource, reference, adopted_reference, refund_reason, version, delivery_attempt, created_at, updated_at,
			expires_at)
		SELECT order_id, operation_id, kind, 'settling', owner, idempotency_key, fingerprint, price, item::jsonb,
			resource, reference, adopted_reference, refund_reason, version, delivery, created_at, updated_at, expires_at
		FROM m WHERE NOT existing
		ON CONFLICT DO NOTHING RETURNING id
	), resumed AS (
		UPDATE orders o SET status = 'settling', version = m.version, expires_at = NULL, refund_reason = m.refund_reason,
			updated_at = $51
		FROM m
		WHERE m.existing AND o.id = m.order_id AND o.owner = m.owner AND o.status = 'payment_required'
			AND o.version = m.version - 1 AND (o.expires_at IS NULL OR o.expires_at > $51)
		RETURNING o.id
	), taken AS (
		SELECT id FROM added UNION ALL SELECT id FROM resumed
	), paid AS (
		INSERT INTO payments (id, order_id, status, network, asset, owner, pay_to, value, valid_after, valid_before,
			nonce, signature, dead_reason, created_at)
		SELECT payment_id, order_id, 'claimed', network, asset, owner, pay_to, value, valid_after, valid_before,
			nonce, signature, '', paid_at
		FROM m JOIN taken ON taken.id = m.order_id
		ON CONFLICT DO NOTHING RETURNING id
	), told AS (
		INSERT INTO timeline (id, order_id, owner, version, at, from_status, to_status, actor, reason, evidence,
			request_id)
		SELECT move_id, order_id, owner, version, $51, $52::varchar, $53::varchar, $54::varchar, $55::text, 'null'::jsonb,
			request
		FROM m JOIN taken ON taken.id = m.order_id
	), counted AS (
		INSERT INTO rate_limits (id, resets_at) SELECT t.id, now() + t.each
		FROM turns t JOIN taken ON taken.id = t.order_id ORDER BY t.id
		ON CONFLICT (id) DO UPDATE
		SET resets_at = greatest(rate_limits.resets_at, now()) + (SELECT t.each FROM turns t WHERE t.id = excluded.id)
		WHERE greatest(rate_limits.resets_at, now()) + (SELECT t.each FROM turns t WHERE t.id = excluded.id)
			<= now() + (SELECT t.most FROM turns t WHERE t.id = excluded.id)
		RETURNING 1
	), reserved AS (
		INSERT INTO reservations (id, order_id, owner, resource, units, created_at)
		SELECT r.id, r.order_id, r.owner, r.resource, r.units, $51
		FROM unnest($46::uuid[], $47::varchar[], $48::varchar[], $49::varchar[], $50::bigint[])
			AS r (id, order_id, owner, resource, units)
			JOIN taken ON taken.id = r.order_id
	), queued AS (
		INSERT INTO jobs (id, kind, unique_key, payload, traceparent, status, attempt, max_attempts, run_at,
			created_at, lease_owner, lease_until, class, owner)
		SELECT job_id, job_kind, unique_key, payload::jsonb, traceparent, job_status, attempt, max_attempts,
			coalesce(run_at, now()), now(), lease_owner, now() + lease, class, owner
		FROM m JOIN taken ON taken.id = m.order_id
		RETURNING ` + jobColumns + `
	), checked AS (
		SELECT 1 / (CASE WHEN (SELECT count(*) FROM paid) = (SELECT count(*) FROM taken)
			AND (SELECT count(*) FROM counted) = (SELECT count(*) FROM turns t JOIN taken ON taken.id = t.order_id)
			THEN 1 ELSE 0 END) AS ok
	)
	SELECT queued.* FROM checked, queued WHERE checked.ok = 1`

// insert queues the statement that stores the claims, unless there are none.
func (r *claimRows) insert(tx *ent.Tx) {
	if len(r.members) == 0 {
		return
	}
	args := []any{
		r.orders, r.operations, r.kinds, r.owners, r.keys, r.fingerprints, r.prices, r.items,
		r.resources, r.references, r.adopted, r.refundReasons, r.versions, r.deliveries, r.createdAt,
		r.updatedAt, r.expiresAt, r.existing,
		r.payments, r.networks, r.assets, r.payTo, r.values, r.validAfter, r.validBefore,
		r.nonces, r.signatures, r.paidAt, r.moves,
	}
	args = append(args, r.queue.columns()...)
	move := claimMove(order.Order{})
	args = append(args, r.turnOrders, r.turns, r.turnEach, r.turnMost,
		r.reservationIDs, r.reservedOrders, r.reservedBy, r.reserved, r.units,
		r.now, move.From, move.To, move.Actor, move.Reason, r.requests)
	readRows(tx, func(row pgx.CollectableRow) error {
		queued, err := scanJob(row)
		r.jobs[queued.ID] = queued
		return err
	}, claimsSQL, args...)
	r.queue.wakeOnCommit(tx)
}
