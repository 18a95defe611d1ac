package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"entgo.io/ent/dialect/sql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roamcard/roamcard/ent"
	entorder "github.com/roamcard/roamcard/ent/order"
	entpayment "github.com/roamcard/roamcard/ent/payment"
	"github.com/roamcard/roamcard/ent/table"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Orders keeps orders, their payments and reservations. It implements checkout.Store and settlement.Store.
type Orders struct{ s *Store }

// Orders is the part of the store that checkout uses.
func (s *Store) Orders() Orders { return Orders{s} }

// topicOrder is the notification topic whose keys are order ids.
const topicOrder = "order"

// Find implements checkout.Store and settlement.Store.
func (o Orders) Find(ctx context.Context, id order.ID) (order.Order, error) {
	if strings.ContainsRune(string(id), 0) {
		return order.Order{}, order.ErrNotFound // PostgreSQL would refuse the text
	}
	return findOrder(o.s.pool.QueryRow(ctx, findOrderSQL, id))
}

// FindByKey implements checkout.Store.
func (o Orders) FindByKey(ctx context.Context, kind order.Kind, owner x402.Address, key string) (order.Order, error) {
	found, err := lookUp[order.Order](ctx, o.s, orderByKey, string(kind), owner.Lower(), key)
	if errors.Is(err, pgx.ErrNoRows) {
		return order.Order{}, order.ErrNotFound
	}
	return found, err
}

// orderByKey finds the order of a purchase.
var orderByKey = newLookup(scanOrder, findOrderByKeySQL, "varchar", "varchar", "varchar")

func findOrder(row pgx.Row) (order.Order, error) {
	found, err := scanOrder(row)
	if errors.Is(err, pgx.ErrNoRows) {
		return order.Order{}, order.ErrNotFound
	}
	return found, mapError(err)
}

// Claimed implements checkout.Store.
func (o Orders) Claimed(ctx context.Context, network string, asset x402.Address, a x402.Authorization) (bool, error) {
	claimed, err := o.s.ent.Payment.Query().Where(entpayment.Network(network), entpayment.Asset(asset.Lower()),
		entpayment.Owner(a.From.Lower()), entpayment.Nonce(a.Nonce.String())).Exist(ctx)
	return claimed, mapError(err)
}

// Orders implements checkout.Store. Ids are time-ordered, so newest first is by id.
func (o Orders) Orders(ctx context.Context, owner x402.Address, q checkout.Query) ([]order.Order, error) {
	query := o.s.ent.Order.Query().Where(entorder.Owner(owner.Lower()))
	if q.Active {
		var final []entorder.Status
		for _, s := range order.Statuses() {
			if s.Final() {
				final = append(final, entorder.Status(s))
			}
		}
		query = query.Where(entorder.StatusNotIn(final...),
			entorder.Or(entorder.StatusNEQ(entorder.StatusPaymentRequired), o.s.inTime()))
	}
	if q.Ended {
		query = query.Where(entorder.StatusIn(entorder.StatusFulfilled, entorder.StatusRefunded))
	}
	if q.Kind != "" {
		query = query.Where(entorder.Kind(string(q.Kind)))
	}
	if q.IDs != nil {
		query = query.Where(entorder.IDIn(textsOf(q.IDs)...))
	}
	if q.Before != "" {
		query = query.Where(entorder.IDLT(string(q.Before)))
	}
	rows, err := query.Order(entorder.ByID(sql.OrderDesc())).Limit(q.Limit).All(ctx)
	if err != nil {
		return nil, mapError(err)
	}
	out := make([]order.Order, len(rows))
	for i, row := range rows {
		if out[i], err = orderOf(row); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Payments implements checkout.Store and settlement.Store.
func (o Orders) Payments(ctx context.Context, ids ...order.ID) (map[order.ID]payment.Payment, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := o.s.ent.Payment.Query().Where(entpayment.OrderIDIn(textsOf(ids)...)).
		Order(entpayment.ByCreatedAt()).All(ctx)
	if err != nil {
		return nil, mapError(err)
	}
	found := make(map[order.ID]payment.Payment, len(ids))
	for _, row := range rows {
		// The one that is not dead decides: there is at most one, and it is the latest.
		p, err := paymentOf(row)
		if err != nil {
			return nil, err
		}
		found[p.Order] = p
	}
	return found, nil
}

// Watch implements checkout.Store.
func (o Orders) Watch(ids ...order.ID) (wake <-chan struct{}, stop func()) {
	return o.s.Subscribe(topicOrder, textsOf(ids)...)
}

// textsOf are ids as they are stored.
func textsOf[T ~string](ids []T) []string {
	all := make([]string, len(ids))
	for i, id := range ids {
		all[i] = string(id)
	}
	return all
}

// errRepeated fails a claim whose purchase exists already.
var errRepeated = errors.New("the purchase exists")

// Claim implements checkout.Store: order, payment, reservations, timeline and job, or nothing.
func (o Orders) Claim(ctx context.Context, p checkout.ClaimRequest) (checkout.ClaimResult, error) {
	if from := p.Payment.Authorization.From; from != p.Order.Owner {
		// The unique key of payments includes the owner, so only the owner may pay.
		return checkout.ClaimResult{}, fmt.Errorf("order %s of %s is paid by %s", p.Order.ID, p.Order.Owner, from)
	}
	result, err := o.storeClaim(ctx, p)
	if short, ok := errors.AsType[*order.Shortage](err); ok {
		return checkout.ClaimResult{}, o.s.awaited(ctx, short)
	}
	switch {
	case err == nil:
		faultpoint.Reach("claim.committed")
		return result, nil
	case errors.Is(err, ErrUnknownCommit):
		return o.committedClaim(ctx, p, err)
	case errors.Is(err, errAdopted):
		return o.adopted(ctx, p)
	case errors.Is(err, errRepeated), violates(err, "orders_purchase"), violates(err, "payments_live"):
		known, err := o.FindByKey(ctx, p.Order.Kind, p.Order.Owner, p.Order.Key)
		return checkout.ClaimResult{Claim: checkout.Repeated, Order: known}, err
	case violates(err, "payments_authorization"), errors.Is(err, errResolved):
		return o.reused(ctx, p)
	}
	return checkout.ClaimResult{}, o.s.refusedHit(ctx, err)
}

// storeClaim stores a claim together with others, or in a transaction of its own.
func (o Orders) storeClaim(ctx context.Context, p checkout.ClaimRequest) (checkout.ClaimResult, error) {
	alone := func() (checkout.ClaimResult, error) {
		result, err := o.insertClaim(ctx, p, false)
		if errors.Is(err, errContended) {
			result, err = o.insertClaim(ctx, p, true)
		}
		if gather, ok := errors.AsType[*stranded](err); ok {
			if err := o.s.gather(ctx, gather.resource); err != nil {
				return result, err
			}
			result, err = o.insertClaim(ctx, p, true)
		}
		return result, err
	}
	if p.Payment.ArrivedAt != nil || o.s.shards != nil {
		return alone()
	}
	return o.s.claims.do(ctx, p, alone)
}

// insertClaim is one attempt at a claim: concurrent with others, or with exclusive locks of the resources that it
// reserves. Batches of claims take their locks in the same order: those of switches, those of reservations, and then
// those of the rows in the order of the tables here.
func (o Orders) insertClaim(ctx context.Context, p checkout.ClaimRequest, alone bool) (checkout.ClaimResult, error) {
	result := checkout.ClaimResult{Claim: checkout.Fresh}
	err := o.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		selling(tx, switchesOf(p))
		lockReservations(tx, p, alone)
		claimGoods(tx, p)
		if p.Payment.ArrivedAt != nil {
			claimArrived(tx, p.Payment)
		}
		result.Order = o.claim(ctx, tx, p)
		insert(tx, ent.PaymentTable, paymentRow(p.Payment))
		if err := queueJob(ctx, tx, p.Job, p.Order.Owner, &result.Job); err != nil {
			return err
		}
		o.s.caughtUp(tx)
		countHits(tx, p.Hits)
		if err := takeReservations(ctx, tx, p, o.s.stamp(), alone); err != nil {
			return err
		}
		return beforeClaim()
	})
	return result, err
}

// committedClaim finds out by the purchase's key whether a claim was committed.
func (o Orders) committedClaim(
	ctx context.Context, p checkout.ClaimRequest, unknown error,
) (checkout.ClaimResult, error) {
	known, err := o.FindByKey(ctx, p.Order.Kind, p.Order.Owner, p.Order.Key)
	switch {
	case err != nil || known.Status == order.PaymentRequired:
		return checkout.ClaimResult{}, unknown
	case known.ID == p.Order.ID && known.Version == claimedOrder(p).Version:
		row, _, err := o.s.Jobs().Find(ctx, p.Job.Args.Kind(), p.Job.UniqueKey)
		if err != nil {
			return checkout.ClaimResult{}, unknown
		}
		row.Asked = p.Job.Asked
		return checkout.ClaimResult{Claim: checkout.Fresh, Order: claimedOrder(p), Job: row}, nil
	}
	return checkout.ClaimResult{Claim: checkout.Repeated, Order: known}, nil
}

// reused distinguishes a copy of the purchase from another purchase with the same authorization.
func (o Orders) reused(ctx context.Context, p checkout.ClaimRequest) (checkout.ClaimResult, error) {
	known, err := o.FindByKey(ctx, p.Order.Kind, p.Order.Owner, p.Order.Key)
	if errors.Is(err, order.ErrNotFound) || (err == nil && known.Status == order.PaymentRequired) {
		return checkout.ClaimResult{Claim: checkout.Reused}, nil
	}
	return checkout.ClaimResult{Claim: checkout.Repeated, Order: known}, err
}

// claim inserts the order, or claims an existing unpaid one that has not expired.
func (o Orders) claim(ctx context.Context, tx *ent.Tx, p checkout.ClaimRequest) order.Order {
	ord, now := claimedOrder(p), o.s.stamp()
	if p.Existing {
		mustAffectOne(tx, errRepeated, claimOrderSQL, ord.ID, ord.Owner.Lower(), p.Order.Version, ord.RefundReason, now)
	} else {
		insert(tx, ent.OrderTable, orderRow(ord))
	}
	insert(tx, ent.TimelineTable, moveRow(ctx, claimMove(ord), ord.Version, now))
	return ord
}

// claimedOrder is the order of a claim as it is stored.
func claimedOrder(p checkout.ClaimRequest) order.Order {
	ord := p.Order
	if ord.Status = order.Settling; !p.Existing {
		ord.Version = 1
		return ord
	}
	ord.Version, ord.ExpiresAt = ord.Version+1, nil
	return ord
}

func claimMove(ord order.Order) order.Move {
	return order.Move{Order: ord.ID, Owner: ord.Owner, From: order.PaymentRequired, To: order.Settling, Actor: "buyer",
		Reason: "payment claimed"}
}

// These statements run for every purchase. ent's would be most of its cost.
const (
	findOrderSQL = `SELECT ` + ent.OrderColumns + ` FROM orders WHERE id = $1`

	findOrderByKeySQL = `SELECT ` + ent.OrderColumns + ` FROM orders
		WHERE kind = $1 AND owner = $2 AND idempotency_key = $3`

	claimOrderSQL = `
		UPDATE orders SET status = 'settling', version = version + 1, expires_at = NULL, refund_reason = $4, updated_at = $5
		WHERE id = $1 AND owner = $2 AND status = 'payment_required' AND version = $3
			AND (expires_at IS NULL OR expires_at > $5) RETURNING 1`

	provePaymentSQL = `
		UPDATE payments SET status = 'paid', transaction = $3, block = $4, block_hash = $5, log_index = $6, settled_at = $7
		WHERE id = $1 AND owner = $8 AND status = $2 RETURNING 1`
)

// moveOrderSQL moves an order by the line m of its timeline. One that is in another status inserts a line without a
// version, which violates a constraint: the server rolls the transaction back without a round trip before the commit.
var moveOrderSQL = table.Statement(`
	WITH moved AS (
		UPDATE orders SET status = {m.timeline_to_status}, version = version + 1, updated_at = {m.timeline_at},
			delivery_attempt = delivery_attempt + {m.refused}
		WHERE id = {m.timeline_order_id} AND owner = {m.timeline_owner} AND status = {m.timeline_from_status} RETURNING *
	), told AS (
		INSERT INTO timeline ({timeline}, version) SELECT {m.timeline}, (SELECT version FROM moved))
	SELECT `+ent.OrderColumns+` FROM moved`,
	table.One("m", movedTable, table.Columns{{Name: "refused", Type: "bigint"}}))

// Settle implements settlement.Store.
func (o Orders) Settle(
	ctx context.Context, f job.Fence, p payment.Payment, m order.Move, watch job.New,
) (order.Order, error) {
	alone := func() (order.Order, error) {
		return o.move(ctx, f, m, func(ctx context.Context, tx *ent.Tx) error {
			prove(tx, p, entpayment.StatusClaimed)
			settleReservations(tx, p.Order, p.Authorization.From, o.s.stamp())
			if err := queueJob(ctx, tx, watch, p.Authorization.From, nil); err != nil {
				return err
			}
			return beforeSettle()
		})
	}
	if err := m.Check(); err != nil {
		return order.Order{}, err
	}
	r := settleRequest{f, p, m, watch}
	if !r.plain() || o.s.shards != nil {
		return alone()
	}
	return o.s.settles.do(ctx, r, alone)
}

// Reprove implements settlement.Store.
func (o Orders) Reprove(ctx context.Context, f job.Fence, p payment.Payment) error {
	return o.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		fence(tx, f)
		prove(tx, p, entpayment.StatusPaid)
		return nil
	})
}

// prove queues the statement that makes a payment in a status paid, with its receipt.
func prove(tx *ent.Tx, p payment.Payment, from entpayment.Status) {
	r := p.Receipt
	mustAffectOne(tx, fmt.Errorf("payment %s is no longer %s", p.ID, from), provePaymentSQL,
		p.ID, from, r.Transaction.String(), int64(r.Block), r.BlockHash.String(), int64(r.LogIndex), r.SettledAt,
		p.Authorization.From.Lower())
}

// MarkDead implements settlement.Store.
func (o Orders) MarkDead(ctx context.Context, f job.Fence, p payment.Payment, m order.Move) (order.Order, error) {
	return o.move(ctx, f, m, func(ctx context.Context, tx *ent.Tx) error {
		n, err := tx.Payment.Update().
			Where(entpayment.ID(p.ID), entpayment.Owner(p.Authorization.From.Lower()),
				entpayment.StatusEQ(entpayment.StatusClaimed)).
			SetStatus(entpayment.StatusDead).SetDeadReason(p.DeadReason).Save(ctx)
		if err == nil && n != 1 {
			err = fmt.Errorf("payment %s is no longer claimed", p.ID)
		}
		if err != nil {
			return err
		}
		return faultpoint.Fail("void.before_commit")
	})
}

// Suspend implements settlement.Store.
func (o Orders) Suspend(ctx context.Context, f job.Fence, id order.ID) error {
	return o.s.withOwner(ctx, f, ownerOfOrderSQL, id, func(ctx context.Context, tx *ent.Tx, owner string) error {
		suspendReservations(tx, id, owner, o.s.stamp())
		return nil
	})
}

// Move implements settlement.Store.
func (o Orders) Move(ctx context.Context, f job.Fence, m order.Move) (order.Order, error) {
	if err := m.Check(); err != nil {
		return order.Order{}, err
	}
	var moved order.Order
	err := o.s.fenced(ctx, f, func(_ context.Context, tx *ent.Tx) error {
		moveOrder(tx, m, o.s.stamp(), &moved)
		return faultpoint.Fail("move.before_commit")
	})
	return o.told(m, moved, err)
}

// move moves an order in one transaction with the related changes, under the job's fence.
func (o Orders) move(
	ctx context.Context, f job.Fence, m order.Move, also func(context.Context, *ent.Tx) error,
) (order.Order, error) {
	if err := m.Check(); err != nil {
		return order.Order{}, err
	}
	var moved order.Order
	err := o.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		fence(tx, f)
		if err := also(ctx, tx); err != nil {
			return err
		}
		moveOrder(tx, m, o.s.stamp(), &moved)
		return nil
	})
	return o.told(m, moved, err)
}

// told wakes those who watch an order that was moved.
func (o Orders) told(m order.Move, moved order.Order, err error) (order.Order, error) {
	if err != nil {
		return order.Order{}, err
	}
	o.s.Notify(topicOrder, string(m.Order))
	return moved, nil
}

// moveOrder queues the move of an order, its timeline row and its postings. moved is set to the stored order once the
// statement has been sent.
func moveOrder(tx *ent.Tx, m order.Move, now time.Time, moved *order.Order) {
	refused := 0
	if m.Refused {
		refused = 1
	}
	if m.From == order.Settled && m.To == order.Provisioning {
		checkReserved(tx, m.Order, m.Owner.Lower())
	}
	if shardsOf(tx) != nil {
		moveSharded(tx, m, now, refused, moved)
		return
	}
	pgxOf(tx).later(statement{
		sql:  moveOrderSQL,
		args: append(movedTable.Values(moveRow(pgxOf(tx).ctx, m, 0, now)), refused),
		read: func(answers pgx.BatchResults) (err error) {
			*moved, err = scanOrder(answers.QueryRow())
			return err
		},
		refused: func(err *pgconn.PgError) error {
			if err.ColumnName != "version" {
				return err
			}
			return fmt.Errorf("order %s is no longer %s: %w", m.Order, m.From, err)
		},
	})
	endMove(tx, m, now)
}

// endMove queues what follows from the move of an order.
func endMove(tx *ent.Tx, m order.Move, now time.Time) {
	switch {
	case m.To == order.PaymentRequired:
		forgetReservations(tx, m.Order, m.Owner.Lower())
	case m.To.Final():
		releaseReservations(tx, m.Order, m.Owner.Lower(), now)
	}
	postFor(tx, now, m.Owner, m.Postings...)
}
