package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/x402"
)

// unexplained reports whether a provider has made something that no order of ours asked for: the goods of an order that our books
// have lost, which money that arrived may have paid for already.
func (a *App) unexplained(suppliers esim.Supplier) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		goods, err := a.goods(ctx, suppliers)
		if err != nil {
			return false, errors.Join(err, fault.New(fault.DependencyDown, "A provider does not answer. Nothing was claimed; repeat the same request."))
		}
		explained, err := a.store.Explains(ctx, goods)
		if err != nil {
			return false, fmt.Errorf("look for the orders of what providers made: %w", err)
		}
		return !explained, nil
	}
}

// mostPages bounds a reading of the issuer's whole books.
const mostPages = 1 << 16

// goods are what the providers made, or are about to make.
func (a *App) goods(ctx context.Context, supplier esim.Supplier) (store.Goods, error) {
	var g store.Goods
	_, ended, err := reconcile.EachLine(ctx, a.issuer, "", mostPages, func(lines []reconcile.Line) error {
		for _, l := range lines {
			if l.Card != nil && l.Card.State != card.AccountRejected {
				g.Cards = append(g.Cards, uuid.UUID(l.Card.Ref))
			}
			if m := l.Movement; m != nil && m.Direction == card.Load && m.State != card.MoveFailed {
				g.Loads = append(g.Loads, uuid.UUID(m.Ref))
			}
		}
		return nil
	})
	if err != nil {
		return g, fmt.Errorf("read the issuer's books: %w", err)
	}
	if !ended {
		return g, errors.New("the issuer's books do not end")
	}
	book, ok := supplier.(reconcile.Supplier)
	if !ok {
		return g, errors.New("the supplier does not tell what it made")
	}
	purchases, err := book.Purchases(ctx)
	if err != nil {
		return g, fmt.Errorf("read the supplier's book: %w", err)
	}
	for _, p := range purchases {
		if p.State != esim.PurchaseRejected {
			g.Esims = append(g.Esims, uuid.UUID(p.Ref))
		}
	}
	return g, nil
}

// returned reports whether as much as arrived went back to its payer since, from the payee or the treasury, without a refund of ours:
// by one of an order that our books have lost, or by hand.
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
