package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
)

// Refunds implements settlement.RefundStore and checkout.Store.
func (o Orders) Refunds(ctx context.Context, ids ...order.ID) (map[order.ID]payment.Refund, error) {
	found := map[order.ID]payment.Refund{}
	return found, o.s.do(ctx, "orders.refunds", func(t *tx) error {
		for _, r := range t.refunds.all(func(r *payment.Refund) bool { return slices.Contains(ids, r.Order) }) {
			found[r.Order] = r
		}
		return nil
	})
}

// SignRefund implements settlement.RefundStore.
func (o Orders) SignRefund(ctx context.Context, f job.Fence, r payment.Refund, earlier *payment.Refund) error {
	return o.s.fenced(ctx, "refunds.sign", f, func(t *tx) error {
		r.SignedAt = stored(r.SignedAt)
		if earlier == nil {
			if t.refunds.first(func(o *payment.Refund) bool { return o.Order == r.Order }) != nil {
				return violation("refunds_order")
			}
			r.CreatedAt = stored(r.CreatedAt)
			_, err := add(t, &t.refunds, "refunds_pkey", r.ID, r)
			return err
		}
		row := t.refunds.get(r.ID)
		if row == nil || row.Status != earlier.Status ||
			row.Authorization.ValidBefore != earlier.Authorization.ValidBefore {
			return fmt.Errorf("refund %s has been signed again meanwhile", r.ID)
		}
		row = edit(t, row)
		row.Status, row.Signature, row.SignedAt = r.Status, r.Signature, r.SignedAt
		row.Authorization.From, row.Authorization.ValidBefore = r.Authorization.From, r.Authorization.ValidBefore
		return nil
	})
}

// Refunded implements settlement.RefundStore.
func (o Orders) Refunded(
	ctx context.Context, f job.Fence, r payment.Refund, m order.Move, watch job.New,
) (order.Order, error) {
	return o.move(ctx, "refunds.refunded", f, m, func(t *tx) error {
		if err := t.proveRefund(r, payment.RefundSigned); err != nil {
			return err
		}
		t.dropCard(r.Order)
		_, _, err := t.insertJob(watch, r.Authorization.To.Lower())
		return err
	})
}

// proveRefund makes a refund in a status paid, with its receipt.
func (t *tx) proveRefund(r payment.Refund, from payment.RefundStatus) error {
	row := t.refunds.get(r.ID)
	if row == nil || row.Authorization.To != r.Authorization.To || row.Status != from {
		return fmt.Errorf("refund %s is no longer %s", r.ID, from)
	}
	row = edit(t, row)
	row.Status, row.Receipt = payment.RefundPaid, proofOf(*r.Receipt, row.Authorization)
	return nil
}

// MarkRefundDead implements settlement.RefundStore.
func (o Orders) MarkRefundDead(ctx context.Context, f job.Fence, r payment.Refund, m order.Move) (order.Order, error) {
	return o.move(ctx, "refunds.mark_dead", f, m, func(t *tx) error { return t.endRefund(r) })
}

func (t *tx) endRefund(r payment.Refund) error {
	row := t.refunds.get(r.ID)
	if row == nil || row.Authorization.To != r.Authorization.To || row.Status != payment.RefundSigned ||
		row.Authorization.ValidBefore != r.Authorization.ValidBefore {
		return fmt.Errorf("refund %s has changed since it was read", r.ID)
	}
	edit(t, row).Status = payment.RefundDead
	return nil
}

// Returned implements settlement.RefundStore.
func (o Orders) Returned(
	ctx context.Context, f job.Fence, r payment.Refund, of payment.Return, watch job.New,
) error {
	return o.s.fenced(ctx, "refunds.returned", f, func(t *tx) error {
		if err := t.proveRefund(r, payment.RefundSigned); err != nil {
			return err
		}
		if err := t.saveJob(f.ID, of.Next); err != nil {
			return err
		}
		if err := t.post(r.Authorization.To.Lower(), of.Postings...); err != nil {
			return err
		}
		_, _, err := t.insertJob(watch, r.Authorization.To.Lower())
		return err
	})
}

// MarkReturnDead implements settlement.RefundStore.
func (o Orders) MarkReturnDead(ctx context.Context, f job.Fence, r payment.Refund) error {
	return o.s.fenced(ctx, "refunds.mark_return_dead", f, func(t *tx) error { return t.endRefund(r) })
}

// ReproveRefund implements settlement.RefundStore.
func (o Orders) ReproveRefund(ctx context.Context, f job.Fence, r payment.Refund) error {
	return o.s.fenced(ctx, "refunds.reprove", f, func(t *tx) error { return t.proveRefund(r, payment.RefundPaid) })
}
