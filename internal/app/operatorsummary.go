package app

import (
	"context"
	"time"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/reconcile"
)

// summaryTTL is how old a summary may be: consoles ask every few seconds, each by itself.
const summaryTTL = time.Second

// operatorSummary caches how much waits for operators for summaryTTL.
func (a *App) operatorSummary() func(context.Context) (admin.Summary, error) {
	sources := admin.SummarySources{
		Orders: a.store.Admin().Counts, Jobs: a.store.Jobs().Depth, Now: a.config.now,
		Books: func(ctx context.Context, to *admin.Summary) (err error) {
			books := a.store.Treasury(a.config.Asset, a.config.PayTo)
			if to.Compared, _, err = books.Compared(ctx); err != nil {
				return err
			}
			sums, err := books.Counts(ctx)
			for _, s := range sums {
				to.Findings, to.Blocking = to.Findings+s.Open, to.Blocking+s.Blocking
				if s.Code == reconcile.TransferUnmatched {
					to.Transfers = s.Open
				}
			}
			return err
		},
	}
	return availability.NewMemo(availability.MemoConfig[admin.Summary]{
		Read: sources.Read, TTL: summaryTTL, Now: a.config.now,
	}).Get
}
