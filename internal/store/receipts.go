package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/receipt"
	"github.com/roamcard/roamcard/internal/x402"
)

// Receipts keeps signed receipts. It implements checkout.ReceiptStore.
type Receipts struct{ s *Store }

var _ checkout.ReceiptStore = Receipts{}

// Receipts is the part of the store that keeps signed receipts.
func (s *Store) Receipts() Receipts { return Receipts{s} }

const receiptsSQL = `SELECT ` + ent.ReceiptColumns + ` FROM receipts WHERE id = ANY($1) AND owner = $2`

// keepReceiptSQL leaves a receipt that is there as it is.
var keepReceiptSQL = ent.ReceiptTable.Insert() + ` ON CONFLICT (id, owner) DO NOTHING`

// Receipts implements checkout.ReceiptStore.
func (r Receipts) Receipts(
	ctx context.Context, owner x402.Address, ids ...order.ID,
) (map[order.ID]checkout.SignedReceipt, error) {
	rows, err := r.s.pool.Query(ctx, receiptsSQL, textsOf(ids), owner.Lower())
	if err != nil {
		return nil, mapError(err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*ent.Receipt, error) { return ent.ScanReceipt(row) })
	if err != nil {
		return nil, mapError(err)
	}
	all := make(map[order.ID]checkout.SignedReceipt, len(found))
	for _, row := range found {
		all[order.ID(row.ID)] = checkout.SignedReceipt{
			Order: order.ID(row.ID), Outcome: receipt.Outcome(row.Outcome), JWS: row.Jws, IssuedAt: row.IssuedAt.UTC(),
		}
	}
	return all, nil
}

// KeepReceipts implements checkout.ReceiptStore.
func (r Receipts) KeepReceipts(
	ctx context.Context, owner x402.Address, signed ...checkout.SignedReceipt,
) (map[order.ID]checkout.SignedReceipt, error) {
	ids := make([]order.ID, len(signed))
	err := r.s.tx(ctx, func(_ context.Context, tx *ent.Tx) error {
		for i, one := range signed {
			ids[i] = one.Order
			later(tx, keepReceiptSQL, ent.ReceiptTable.Values(&ent.Receipt{
				ID: string(one.Order), Owner: owner.Lower(), Outcome: string(one.Outcome), Jws: one.JWS, IssuedAt: one.IssuedAt,
			})...)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("keep receipts: %w", err)
	}
	return r.Receipts(ctx, owner, ids...)
}
