package app

import (
	"context"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/screening"
)

// newPayments makes the checks whether a payment can be accepted now.
func (a *App) newPayments(history *reconcile.CatchUp, screens *screening.Screening) (*availability.Payments, error) {
	ours, err := a.config.Accounts()
	if err != nil {
		return nil, err
	}
	name, settler := a.settlersReady()
	config := availability.PaymentsConfig{
		Database: a.store.Ping, History: history,
		Chain:   func(ctx context.Context) error { return a.chain.Ready(ctx, MaxHeadAge) },
		Token:   func(ctx context.Context) error { return a.chain.Usable(ctx, ours) },
		Settler: settler, SettlerName: name, WatchEvery: a.config.ChainWatch, Now: time.Now,
	}
	if screens != nil {
		config.Screening = screens.Ready
	}
	return availability.NewPayments(config), nil
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
