package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/roamcard/roamcard/ent"
	entrefund "github.com/roamcard/roamcard/ent/refund"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Refunds implements settlement.RefundStore and checkout.Store.
func (o Orders) Refunds(ctx context.Context, ids ...order.ID) (map[order.ID]payment.Refund, error) {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = string(id)
	}
	rows, err := o.s.ent.Refund.Query().Where(entrefund.OrderIDIn(names...)).All(ctx)
	if err != nil {
		return nil, mapError(err)
	}
	found := make(map[order.ID]payment.Refund, len(rows))
	for _, row := range rows {
		r, err := refundOf(row)
		if err != nil {
			return nil, err
		}
		found[r.Order] = r
	}
	return found, nil
}

// SignedRefunds are the sums of the refunds that are signed and not paid, by the treasury that has signed them.
func (o Orders) SignedRefunds(ctx context.Context) (map[x402.Address]money.USDC, error) {
	var rows []struct {
		Treasury string
		Sum      money.USDC
	}
	err := o.s.ent.Refund.Query().Where(entrefund.StatusEQ(entrefund.StatusSigned)).
		GroupBy(entrefund.FieldTreasury).Aggregate(ent.Sum(entrefund.FieldValue)).Scan(ctx, &rows)
	if err != nil {
		return nil, mapError(err)
	}
	due := map[x402.Address]money.USDC{}
	for _, row := range rows {
		treasury, err := x402.ParseAddress(row.Treasury)
		if err != nil {
			return nil, fmt.Errorf("treasury of a signed refund: %w", err)
		}
		due[treasury] = row.Sum
	}
	return due, nil
}

// SignRefund implements settlement.RefundStore. It checks the earlier window, so that the second of two concurrent
// signatures fails.
func (o Orders) SignRefund(ctx context.Context, f job.Fence, r payment.Refund, earlier *payment.Refund) error {
	return o.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		fence(tx, f)
		a := r.Authorization
		if earlier == nil {
			insert(tx, ent.RefundTable, &ent.Refund{
				ID: r.ID, OrderID: string(r.Order), Owner: a.To.Lower(), Status: entrefund.Status(r.Status),
				Network: r.Network, Asset: r.Asset.Lower(), Treasury: a.From.Lower(), Value: int64(a.Value),
				Nonce: a.Nonce.String(), ValidBefore: int64(a.ValidBefore), Signature: []byte(r.Signature),
				CreatedAt: r.CreatedAt, SignedAt: r.SignedAt,
			})
			return nil
		}
		n, err := tx.Refund.Update().
			Where(entrefund.ID(r.ID), entrefund.Owner(a.To.Lower()),
				entrefund.StatusEQ(entrefund.Status(earlier.Status)),
				entrefund.ValidBefore(int64(earlier.Authorization.ValidBefore))).
			SetStatus(entrefund.Status(r.Status)).SetTreasury(a.From.Lower()).SetValidBefore(int64(a.ValidBefore)).
			SetSignature([]byte(r.Signature)).SetSignedAt(r.SignedAt).Save(ctx)
		if err == nil && n != 1 {
			err = fmt.Errorf("refund %s has been signed again meanwhile", r.ID)
		}
		return err
	})
}

const (
	proveRefundSQL = `
		UPDATE refunds SET status = 'paid', transaction = $3, block = $4, block_hash = $5, log_index = $6, settled_at = $7
		WHERE id = $1 AND owner = $8 AND status = $2 RETURNING 1`
	// A card that never became active fails with its order, so that its owner can buy another.
	dropCardSQL = `UPDATE cards SET status = 'FAILED', updated_at = $3
		WHERE order_id = $1 AND owner = $2 AND status = 'PENDING'`
)

// Refunded implements settlement.RefundStore.
func (o Orders) Refunded(
	ctx context.Context, f job.Fence, r payment.Refund, m order.Move, watch job.New,
) (order.Order, error) {
	return o.move(ctx, f, m, func(ctx context.Context, tx *ent.Tx) error {
		proveRefund(tx, r, entrefund.StatusSigned)
		later(tx, dropCardSQL, r.Order, r.Authorization.To.Lower(), o.s.stamp())
		if err := queueJob(ctx, tx, watch, r.Authorization.To, nil); err != nil {
			return err
		}
		return faultpoint.Fail("refund.before_commit")
	})
}

// MarkRefundDead implements settlement.RefundStore.
func (o Orders) MarkRefundDead(ctx context.Context, f job.Fence, r payment.Refund, m order.Move) (order.Order, error) {
	return o.move(ctx, f, m, func(ctx context.Context, tx *ent.Tx) error { return markRefundDead(ctx, tx, r) })
}

func markRefundDead(ctx context.Context, tx *ent.Tx, r payment.Refund) error {
	n, err := tx.Refund.Update().
		Where(entrefund.ID(r.ID), entrefund.Owner(r.Authorization.To.Lower()),
			entrefund.StatusEQ(entrefund.StatusSigned),
			entrefund.ValidBefore(int64(r.Authorization.ValidBefore))).
		SetStatus(entrefund.StatusDead).Save(ctx)
	if err == nil && n != 1 {
		err = fmt.Errorf("refund %s has changed since it was read", r.ID)
	}
	return err
}

// Returned implements settlement.RefundStore.
func (o Orders) Returned(
	ctx context.Context, f job.Fence, r payment.Refund, of payment.Return, watch job.New,
) error {
	payload, err := json.Marshal(of.Next)
	if err != nil {
		return fmt.Errorf("encode the job: %w", err)
	}
	return o.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		fence(tx, f)
		proveRefund(tx, r, entrefund.StatusSigned)
		later(tx, saveJobSQL, f.ID, f.Of, payload)
		postFor(tx, o.s.stamp(), r.Authorization.To, of.Postings...)
		if err := queueJob(ctx, tx, watch, r.Authorization.To, nil); err != nil {
			return err
		}
		return faultpoint.Fail("return.before_commit")
	})
}

// MarkReturnDead implements settlement.RefundStore.
func (o Orders) MarkReturnDead(ctx context.Context, f job.Fence, r payment.Refund) error {
	return o.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		fence(tx, f)
		return markRefundDead(ctx, tx, r)
	})
}

// ReproveRefund implements settlement.RefundStore.
func (o Orders) ReproveRefund(ctx context.Context, f job.Fence, r payment.Refund) error {
	return o.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		fence(tx, f)
		proveRefund(tx, r, entrefund.StatusPaid)
		return nil
	})
}

// proveRefund queues the statement that makes a refund in a status paid, with its receipt.
func proveRefund(tx *ent.Tx, r payment.Refund, from entrefund.Status) {
	p := r.Receipt
	mustAffectOne(tx, fmt.Errorf("refund %s is no longer %s", r.ID, from), proveRefundSQL,
		r.ID, from, p.Transaction.String(), int64(p.Block), p.BlockHash.String(), int64(p.LogIndex), p.SettledAt,
		r.Authorization.To.Lower())
}

func refundOf(row *ent.Refund) (payment.Refund, error) {
	asset, err1 := x402.ParseAddress(row.Asset)
	treasury, err2 := x402.ParseAddress(row.Treasury)
	recipient, err3 := x402.ParseAddress(row.Owner)
	nonce, err4 := x402.ParseHash(row.Nonce)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return payment.Refund{}, fmt.Errorf("refund %s: %w", row.ID, err)
	}
	r := payment.Refund{
		ID: row.ID, Order: order.ID(row.OrderID), Status: payment.RefundStatus(row.Status), Network: row.Network,
		Asset: asset,
		Authorization: x402.Authorization{
			From: treasury, To: recipient, Value: money.USDC(row.Value), Nonce: nonce, ValidBefore: uint64(row.ValidBefore),
		},
		Signature: x402.Signature(row.Signature), CreatedAt: row.CreatedAt.UTC(), SignedAt: row.SignedAt.UTC(),
	}
	if !r.Found() && !r.Signature.IsOfKey() {
		return payment.Refund{}, fmt.Errorf("refund %s: signature of %d bytes", row.ID, len(row.Signature))
	}
	if row.Transaction == nil {
		return r, nil
	}
	tx, err5 := x402.ParseHash(*row.Transaction)
	block, err6 := x402.ParseHash(*row.BlockHash)
	if err := errors.Join(err5, err6); err != nil {
		return payment.Refund{}, fmt.Errorf("refund %s: proof: %w", row.ID, err)
	}
	r.Receipt = &payment.Receipt{
		Transaction: tx, Block: uint64(*row.Block), BlockHash: block, LogIndex: uint(*row.LogIndex),
		Payer: treasury, PayTo: recipient, Amount: r.Authorization.Value, SettledAt: row.SettledAt.UTC(),
	}
	return r, nil
}
