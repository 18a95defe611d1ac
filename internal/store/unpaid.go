package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"entgo.io/ent/dialect/sql"

	"github.com/roamcard/roamcard/ent"
	entorder "github.com/roamcard/roamcard/ent/order"
	"github.com/roamcard/roamcard/ent/predicate"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
)

// inTime selects the orders that have not expired.
func (s *Store) inTime() predicate.Order {
	return entorder.Or(entorder.ExpiresAtIsNil(), entorder.ExpiresAtGT(s.stamp()))
}

// Create implements checkout.Store.
func (o Orders) Create(ctx context.Context, ord order.Order, b checkout.Bounds) (order.Order, error) {
	ord.Status, ord.Version = order.PaymentRequired, 1
	stored := ord
	err := o.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		stored = ord
		if b.ReuseUnpaid || b.MaxUnpaid > 0 {
			// A lock per owner would be a row per owner that is never removed.
			lock(tx, bucket("open/"+ord.Owner.Lower()))
		}
		if b.ReuseUnpaid {
			known, err := o.unpaid(ctx, tx, ord)
			if !errors.Is(err, order.ErrNotFound) {
				stored = known
				return err
			}
		}
		if err := o.roomForAnother(ctx, tx, ord, b.MaxUnpaid); err != nil {
			return err
		}
		selling(tx, []order.Kind{ord.Kind})
		row := orderRow(ord)
		row.RequestID = requestOf(ctx)
		insert(tx, ent.OrderTable, row)
		countHits(tx, b.Hits)
		return faultpoint.Fail("create.before_commit")
	})
	if err == nil {
		faultpoint.Reach("create.committed")
		return stored, nil
	}
	if !violates(err, "orders_purchase") && !errors.Is(err, ErrUnknownCommit) {
		return order.Order{}, o.s.refusedHit(ctx, err)
	}
	// A copy of the request created it, or this one did before its answer was lost.
	known, lookup := o.FindByKey(ctx, ord.Kind, ord.Owner, ord.Key)
	if lookup != nil {
		return order.Order{}, errors.Join(err, lookup)
	}
	return known, nil
}

const countUnpaidSQL = `
	SELECT count(*), coalesce(min(expires_at) - $2, interval '0') FROM orders
	WHERE owner = $1 AND status = 'payment_required' AND expires_at > $2`

// roomForAnother fails with a *limit.Refusal when an owner has the largest allowed number of unpaid orders. The order
// itself, created by a copy of the request, does not count.
func (o Orders) roomForAnother(ctx context.Context, tx *ent.Tx, ord order.Order, most int) error {
	if most == 0 {
		return nil
	}
	var open int
	var next time.Duration
	if err := raw(tx).QueryRow(ctx, countUnpaidSQL, ord.Owner.Lower(), o.s.stamp()).Scan(&open, &next); err != nil {
		return err
	}
	if open < most {
		return nil
	}
	if _, err := findOrder(raw(tx).QueryRow(ctx, findOrderByKeySQL, ord.Kind, ord.Owner.Lower(),
		ord.Key)); !errors.Is(err, order.ErrNotFound) {
		return err // the insert finds it again
	}
	return limit.Full(most, next,
		fmt.Sprintf("%d orders of this wallet wait to be paid. Pay one of them, or wait until one expires.", open))
}

// unpaid finds the owner's newest unpaid order of a kind that has not expired.
func (o Orders) unpaid(ctx context.Context, tx *ent.Tx, like order.Order) (order.Order, error) {
	row, err := tx.Order.Query().Where(entorder.Kind(string(like.Kind)), entorder.Owner(like.Owner.Lower()),
		entorder.StatusEQ(entorder.StatusPaymentRequired), o.s.inTime()).Order(entorder.ByID(sql.OrderDesc())).First(ctx)
	if ent.IsNotFound(err) {
		return order.Order{}, order.ErrNotFound
	}
	if err != nil {
		return order.Order{}, err
	}
	return orderOf(row)
}

// expireSQL skips orders that are being claimed: if the claim fails, the next run expires them.
const expireSQL = `
	WITH due AS (
		SELECT id FROM orders WHERE status = $1 AND expires_at <= $2 ORDER BY expires_at LIMIT $3 FOR UPDATE SKIP LOCKED
	), moved AS (
		UPDATE orders SET status = $4, version = version + 1, updated_at = $2 FROM due
		WHERE orders.id = due.id AND status = $1 AND expires_at <= $2 RETURNING orders.id, owner, version
	)
	INSERT INTO timeline (id, order_id, owner, version, at, from_status, to_status, actor, reason)
	SELECT gen_random_uuid(), id, owner, version, $2, $1, $4, $5, $6 FROM moved`

// Expire moves up to limit unpaid orders that are past their deadline to expired, and returns how many.
func (o Orders) Expire(ctx context.Context, limit int) (int, error) {
	m := order.Move{From: order.PaymentRequired, To: order.Expired, Actor: order.Worker, Reason: "not paid in time"}
	if err := m.Check(); err != nil {
		return 0, err
	}
	if o.s.shards != nil {
		return o.expireSharded(ctx, m, limit)
	}
	var n int64
	err := o.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		later(tx, customPlansSQL)
		tag, err := raw(tx).Exec(ctx, expireSQL, m.From, o.s.stamp(), limit, m.To, m.Actor, m.Reason)
		if err != nil {
			return err
		}
		n = tag.RowsAffected()
		return faultpoint.Fail("expire.before_commit")
	})
	if err != nil {
		return 0, fmt.Errorf("expire orders: %w", err)
	}
	faultpoint.Reach("expire.committed")
	return int(n), nil
}

// An order that was claimed once never expires, so none of these has a payment; the condition is a second check.
const pruneExpiredSQL = `
	WITH old AS (
		SELECT id FROM orders WHERE status = 'expired' AND updated_at < $1 AND %s
		AND NOT EXISTS (SELECT 1 FROM payments
			WHERE order_id = orders.id AND payments.owner = orders.owner AND payments.%s)
		ORDER BY updated_at LIMIT $2 FOR UPDATE SKIP LOCKED
	), told AS (DELETE FROM timeline WHERE order_id IN (SELECT id FROM old) AND %s)
	DELETE FROM orders WHERE id IN (SELECT id FROM old) AND %s`

const oldExpiredSQL = `SELECT owner FROM orders WHERE status = 'expired' AND updated_at < $1
	ORDER BY updated_at LIMIT $2`

// PruneExpired deletes up to limit orders that expired before a time, and returns how many.
func (o Orders) PruneExpired(ctx context.Context, before time.Time, limit int) (int, error) {
	return o.s.sweep(ctx, oldExpiredSQL, pruneExpiredSQL, before, limit)
}
