package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/order"
)

// newPayments makes the checks whether a payment can be accepted now.
func (a *App) newPayments(p *Parts) *availability.Payments {
	ours := a.keys.accounts(a.config.PayTo)
	name, settler := a.settlersReady()
	config := availability.PaymentsConfig{
		Database: a.store.Ping, History: p.catchUp,
		Chain:   func(ctx context.Context) error { return a.chain.Ready(ctx, MaxHeadAge) },
		Token:   func(ctx context.Context) error { return a.chain.Usable(ctx, ours) },
		Settler: settler, SettlerName: name, WatchEvery: a.config.ChainWatch, Now: a.config.now,
	}
	if kinds := a.config.Fairness.SmartAccounts.Names(); len(kinds) > 0 {
		config.SmartAccounts, config.SmartAccountKinds = a.relayer.SmartAccountsReady, kinds
	}
	if p.screening != nil {
		config.Screening = p.screening.Ready
	}
	if treasury := a.keys.Treasury; treasury != nil && !treasury.IsLocal() {
		config.Treasury = p.refunds.Treasury.Ready
	}
	return availability.NewPayments(config)
}

// AwaitReady waits until every product can be sold.
func (a *App) AwaitReady(ctx context.Context) error {
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		failing := ""
		for _, p := range a.products {
			for _, c := range p.Availability().Started(ctx) {
				if c.Err != nil {
					failing = fmt.Sprintf("%s: %v", c.Name, c.Err)
				}
			}
		}
		if failing == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until ready (%s): %w", failing, ctx.Err())
		case <-look.C:
		}
	}
}

const (
	// recently is how far back deliveries are recent, and recentMost how many of them count.
	recently   = time.Hour
	recentMost = 1000
)

// newBoard makes what reports how the products stand.
func (a *App) newBoard() *availability.Board {
	return availability.NewBoard(availability.BoardConfig{
		Products: a.shownProducts(), Now: a.config.now,
		Deliveries: func(ctx context.Context) map[order.Kind]availability.DeliveryTime {
			times, err := a.store.Orders().DeliveryTimes(ctx, a.config.now().Add(-recently), recentMost)
			if err != nil {
				a.log.WarnContext(ctx, "delivery times not read", slog.Any("error", err))
			}
			return times
		},
	})
}

// shownProducts are the products in the order in which they are shown.
func (a *App) shownProducts() []availability.Product {
	all := make([]availability.Product, len(a.products))
	for i, p := range a.products {
		all[i] = p.Availability()
	}
	return all
}
