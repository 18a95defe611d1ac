package memory

import (
	"context"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// Receipts keeps signed receipts.
type Receipts struct{ s *Store }

var _ checkout.ReceiptStore = Receipts{}

// Receipts is the part of the store that keeps signed receipts.
func (s *Store) Receipts() Receipts { return Receipts{s} }

// receipted is the key of a receipt.
type receipted struct {
	order order.ID
	owner x402.Address
}

// Receipts implements checkout.ReceiptStore.
func (r Receipts) Receipts(
	ctx context.Context, owner x402.Address, ids ...order.ID,
) (found map[order.ID]checkout.SignedReceipt, err error) {
	err = r.s.do(ctx, "receipts.list", func(t *tx) error {
		found = t.receiptsOf(owner, ids)
		return nil
	})
	return found, err
}

// KeepReceipts implements checkout.ReceiptStore.
func (r Receipts) KeepReceipts(
	ctx context.Context, owner x402.Address, signed ...checkout.SignedReceipt,
) (found map[order.ID]checkout.SignedReceipt, err error) {
	err = r.s.do(ctx, "receipts.keep", func(t *tx) error {
		var ids []order.ID
		for _, one := range signed {
			ids = append(ids, one.Order)
			key := receipted{one.Order, owner}
			if t.receipts.get(key) != nil {
				continue
			}
			one.IssuedAt = stored(one.IssuedAt)
			if _, err := add(t, &t.receipts, "receipts_pkey", key, one); err != nil {
				return err
			}
		}
		found = t.receiptsOf(owner, ids)
		return nil
	})
	return found, err
}

func (t *tx) receiptsOf(owner x402.Address, ids []order.ID) map[order.ID]checkout.SignedReceipt {
	found := map[order.ID]checkout.SignedReceipt{}
	for _, id := range ids {
		if row := t.receipts.get(receipted{id, owner}); row != nil {
			found[id] = *row
		}
	}
	return found
}
