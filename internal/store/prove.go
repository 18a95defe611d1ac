package store

import (
	"context"

	"github.com/roamcard/roamcard/ent"
	entorder "github.com/roamcard/roamcard/ent/order"
	entpayment "github.com/roamcard/roamcard/ent/payment"
	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/x402"
)

// proved is the audit record of a payment that an operator has proven.
type proved struct {
	Transaction string `json:"transaction"`
}

// Unproven implements admin.Records.
func (d Admin) Unproven(
	ctx context.Context, id order.ID, transaction x402.Hash, act order.OperatorContext,
) (p payment.Payment, done bool, err error) {
	err = d.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		if done, err = d.s.repeats(ctx, tx, act, actProve, string(id), proved{transaction.String()}); err != nil || done {
			return err
		}
		if _, err := tx.Order.Get(ctx, string(id)); ent.IsNotFound(err) {
			return order.ErrNotFound
		} else if err != nil {
			return err
		}
		row, err := tx.Payment.Query().Where(entpayment.OrderID(string(id)),
			entpayment.StatusEQ(entpayment.StatusClaimed)).Only(ctx)
		if ent.IsNotFound(err) {
			return admin.ErrNotSettling
		}
		if err != nil {
			return err
		}
		p, err = paymentOf(row)
		return err
	})
	return p, done, err
}

// Prove implements admin.Records. As in Decide, it locks the job first, and a worker that is settling the order loses
// its lease, so that the payment is not recorded twice.
func (d Admin) Prove(
	ctx context.Context, p payment.Payment, m order.Move, watch job.New, act order.OperatorContext,
) error {
	if err := m.Check(); err != nil {
		return err
	}
	after := proved{p.Receipt.Transaction.String()}
	err := d.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		if err := lockJobOf(ctx, tx, p.Order, p.Authorization.From.Lower(), p.ID); err != nil {
			return err
		}
		if repeated, err := d.s.repeats(ctx, tx, act, actProve, string(p.Order), after); err != nil || repeated {
			return err
		}
		row, err := tx.Order.Get(ctx, string(p.Order))
		if err != nil {
			return err
		}
		if err := at(act, int64(row.Version)); err != nil {
			return err
		}
		if row.Status != entorder.StatusSettling {
			return admin.ErrNotSettling
		}
		m.Owner = p.Authorization.From
		later(tx, decideJobSQL, settlement.Fulfilling, p.ID.String(), row.Owner)
		wakeOnCommit(tx, topicJobs, "")
		prove(tx, p, entpayment.StatusClaimed)
		settleReservations(tx, p.Order, p.Authorization.From, d.s.stamp())
		if err := queueJob(ctx, tx, watch, p.Authorization.From, nil); err != nil {
			return err
		}
		moveOrder(tx, m, d.s.stamp(), new(order.Order))
		if err := d.s.record(ctx, tx, act, actProve, string(p.Order), decided{order.Settling}, after); err != nil {
			return err
		}
		return faultpoint.Fail("prove.before_commit")
	})
	if err == nil {
		d.s.Notify(topicOrder, string(p.Order))
	}
	return err
}
