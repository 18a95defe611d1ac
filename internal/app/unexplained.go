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

// unexplained reports whether a provider has made something that no order of ours asked for: the goods of an order that
// our books have lost, which money that arrived may have paid for already.
func (a *App) unexplained(products []reconcile.Product) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		for _, p := range products {
			made, err := p.Made(ctx)
			if err != nil {
				return false, errors.Join(err, fault.New(fault.DependencyDown,
					"A provider does not answer. Nothing was claimed; repeat the same request."))
			}
			refs := make([]uuid.UUID, len(made))
			for i, g := range made {
				refs[i] = g.Reference
			}
			explained, err := a.store.Explains(ctx, p.Kind(), refs)
			if err != nil {
				return false, fmt.Errorf("look for the orders of what providers made: %w", err)
			}
			if !explained {
				return true, nil
			}
		}
		return false, nil
	}
}

// returned reports whether as much as arrived went back to its payer since, from the payee or the treasury, without a
// refund of ours: by one of an order that our books have lost, or by hand.
func (a *App) returned(ctx context.Context, arrived payment.Arrived) (bool, error) {
	head, err := a.chain.Head(ctx)
	if err != nil {
		return false, fmt.Errorf("find the latest block: %w", err)
	}
	from := []x402.Address{arrived.Authorization.To}
	refunds, err := a.refunds()
	if err != nil {
		return false, err
	}
	if refunds.Treasury != nil {
		from = append(from, refunds.Treasury.Address())
	}
	back, err := a.chain.Transfers(ctx, arrived.Authorization.From, arrived.Receipt.Block, head)
	if err != nil {
		return false, fmt.Errorf("read what the payer got: %w", err)
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
