package store

import (
	"context"
	"errors"
	"fmt"

	"entgo.io/ent/dialect/sql"

	"github.com/roamcard/roamcard/ent"
	entorder "github.com/roamcard/roamcard/ent/order"
	"github.com/roamcard/roamcard/ent/predicate"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/order"
)

// inTime picks the orders whose time to be paid is not over.
func (s *Store) inTime() predicate.Order {
	return entorder.Or(entorder.ExpiresAtIsNil(), entorder.ExpiresAtGT(s.stamp()))
}

// Open implements checkout.Store.
func (o Orders) Open(ctx context.Context, ord order.Order, alone bool) (order.Order, error) {
	ord.Status, ord.Version = order.PaymentRequired, 1
	stored := ord
	err := o.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		stored = ord
		if alone {
			lock(tx, fmt.Sprintf("open/%s/%s", ord.Kind, ord.Owner.Lower()))
			known, err := o.unpaid(ctx, tx, ord)
			if !errors.Is(err, checkout.ErrNotFound) {
				stored = known
				return err
			}
		}
		selling(tx, ord.Kind)
		if err := insertOrder(ctx, tx, ord); err != nil {
			return err
		}
		return faultpoint.Fail("open.before_commit")
	})
	if err == nil {
		faultpoint.Reach("open.committed")
		return stored, nil
	}
	if !violates(err, "orders_purchase") && !errors.Is(err, ErrUnknownCommit) {
		return order.Order{}, err
	}
	// Opened by a copy of the request, or by this one after all.
	known, lookup := o.FindByKey(ctx, ord.Kind, ord.Owner, ord.Key)
	if lookup != nil {
		return order.Order{}, errors.Join(err, lookup)
	}
	return known, nil
}

// unpaid finds the newest order of a kind that its owner can still pay.
func (o Orders) unpaid(ctx context.Context, tx *ent.Tx, like order.Order) (order.Order, error) {
	row, err := tx.Order.Query().Where(entorder.KindEQ(entorder.Kind(like.Kind)), entorder.Owner(like.Owner.Lower()),
		entorder.StatusEQ(entorder.StatusPaymentRequired), o.s.inTime()).Order(entorder.ByID(sql.OrderDesc())).First(ctx)
	if ent.IsNotFound(err) {
		return order.Order{}, checkout.ErrNotFound
	}
	if err != nil {
		return order.Order{}, err
	}
	return orderOf(row)
}

// expireSQL leaves out orders that are being paid at this moment: a claim that fails is found the next time.
const expireSQL = `
	WITH due AS (
		SELECT id FROM orders WHERE status = $1 AND expires_at <= $2 ORDER BY expires_at LIMIT $3 FOR UPDATE SKIP LOCKED
	), moved AS (
		UPDATE orders SET status = $4, version = version + 1, updated_at = $2 FROM due
		WHERE orders.id = due.id AND status = $1 AND expires_at <= $2 RETURNING orders.id, version
	)
	INSERT INTO timeline (id, order_id, version, at, from_status, to_status, actor, reason)
	SELECT gen_random_uuid(), id, version, $2, $1, $4, $5, $6 FROM moved`

// Expire moves up to limit unpaid orders whose time is over to expired, and says how many.
func (o Orders) Expire(ctx context.Context, limit int) (int, error) {
	m := order.Move{From: order.PaymentRequired, To: order.Expired, Actor: "worker", Reason: "not paid in time"}
	if err := m.Check(); err != nil {
		return 0, err
	}
	var n int64
	err := o.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
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
