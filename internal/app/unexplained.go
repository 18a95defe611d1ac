package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/x402"
)

// unexplained reports whether a provider has goods that no order of ours explains: those of an order in data that we
// have lost, which an unmatched transfer may have paid for.
func (a *App) unexplained(products []reconcile.Product) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		for _, p := range products {
			made, err := p.Made(ctx)
			if err != nil {
				const detail = "A provider does not answer. Nothing was claimed; repeat the same request."
				return false, errors.Join(err, fault.New(fault.DependencyDown, detail))
			}
			refs := make([]uuid.UUID, len(made))
			for i, g := range made {
				refs[i] = g.Reference
			}
			explained, err := a.store.Explains(ctx, p.Kind(), refs)
			if err != nil {
				return false, fmt.Errorf("find the orders of the providers' goods: %w", err)
			}
			if !explained {
				return true, nil
			}
		}
		return false, nil
	}
}

// maybeRefunded reports whether the payee or the treasury has since sent the same amount back to the payer without a
// refund on record: for an order in data that we have lost, or by hand.
func (a *App) maybeRefunded(ctx context.Context, arrived payment.Arrived) (bool, error) {
	head, err := a.chain.Head(ctx)
	if err != nil {
		return false, fmt.Errorf("find the latest block: %w", err)
	}
	from := append([]x402.Address{arrived.Authorization.To}, a.keys.treasuries()...)
	back, err := a.chain.Transfers(ctx, arrived.Authorization.From, arrived.Receipt.Block, head)
	if err != nil {
		return false, fmt.Errorf("read the transfers to the payer: %w", err)
	}
	for _, t := range back {
		if !slices.Contains(from, t.From) || t.Value != arrived.Authorization.Value {
			continue
		}
		known, err := a.store.Orders().Refund(ctx, t.From, t.Nonce)
		if err != nil || !known {
			return !known, err
		}
	}
	return false, nil
}
