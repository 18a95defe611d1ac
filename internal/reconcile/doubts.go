package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Doubts say what money that arrived, and that no order of ours has claimed, may have done in data that we have lost.
type Doubts struct {
	Products []Product
	// Explains reports whether our records know all references of a kind of goods.
	Explains func(ctx context.Context, kind order.Kind, references []uuid.UUID) (bool, error)
	Chain    DoubtsChain
	// Payers are the accounts that money goes back from, besides the payee of the money itself.
	Payers []x402.Address
	// Refund reports whether our records know a refund by its sender and nonce, and SentBack are the transfers of some
	// senders that were resolved as sent back.
	Refund   func(ctx context.Context, from x402.Address, nonce x402.Hash) (bool, error)
	SentBack func(ctx context.Context, senders []x402.Address) ([]SentBack, error)
}

// DoubtsChain is the chain as doubts need it.
type DoubtsChain interface {
	Head(ctx context.Context) (uint64, error)
	// Transfers lists the transfers to an account in a range of blocks, the last one included.
	Transfers(ctx context.Context, to x402.Address, from, last uint64) ([]Transfer, error)
}

// Unexplained reports whether a provider has goods that no order of ours explains: those of an order in data that we
// have lost, which an unmatched transfer of a payer may have paid for. Goods that are known to be somebody else's do
// not count.
func (d Doubts) Unexplained(ctx context.Context, payer x402.Address) (bool, error) {
	for _, p := range d.Products {
		made, err := p.Made(ctx)
		if err != nil {
			const detail = "A provider does not answer. Nothing was claimed; repeat the same request."
			return false, errors.Join(err, fault.New(fault.DependencyDown, detail))
		}
		var refs []uuid.UUID
		for _, g := range made {
			if others := g.Known && g.Owner != payer || g.Note != "" && g.Note != order.BuyerOf(payer); !others {
				refs = append(refs, g.Reference)
			}
		}
		explained, err := d.Explains(ctx, p.Kind(), refs)
		if err != nil {
			return false, fmt.Errorf("find the orders of the providers' goods: %w", err)
		}
		if !explained {
			return true, nil
		}
	}
	return false, nil
}

// MaybeRefunded reports whether the same amount, or any by its refund's nonce, has since gone back to the payer of a
// transfer without a refund on record: for an order in data that we have lost, or by hand. A payout by which catch-up
// has resolved a transfer of theirs, this or another one, is on record: each explains one.
func (d Doubts) MaybeRefunded(ctx context.Context, arrived payment.Arrived) (bool, error) {
	head, err := d.Chain.Head(ctx)
	if err != nil {
		return false, fmt.Errorf("find the latest block: %w", err)
	}
	back, err := d.Chain.Transfers(ctx, arrived.Authorization.From, arrived.Receipt.Block, head)
	if err != nil {
		return false, fmt.Errorf("read the transfers to the payer: %w", err)
	}
	var unknown []x402.Hash // the payouts' transactions
	for _, t := range back {
		ours := t.From == arrived.Authorization.To || slices.Contains(d.Payers, t.From)
		if !ours || t.Value != arrived.Authorization.Value && t.Nonce != payment.RefundNonce(arrived.Authorization) {
			continue
		}
		switch known, err := d.Refund(ctx, t.From, t.Nonce); {
		case err != nil:
			return false, err
		case !known:
			unknown = append(unknown, t.Transaction)
		}
	}
	if len(unknown) == 0 {
		return false, nil
	}
	resolved, err := d.SentBack(ctx, []x402.Address{arrived.Authorization.From})
	if err != nil {
		return false, fmt.Errorf("look up what was sent back: %w", err)
	}
	for _, r := range resolved {
		if i := slices.Index(unknown, r.In); i >= 0 && !r.In.IsZero() {
			unknown = slices.Delete(unknown, i, i+1)
		}
	}
	return len(unknown) > 0, nil
}
