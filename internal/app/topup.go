package app

import (
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/transport/rpc"
)

func topupRegistration() Registration {
	return Registration{
		Rows: store.TopupProduct(), Make: (*App).topups, Provided: (*App).topupsProvided, settings: topupSettings,
		Develop: func(c *Config, _ Development) error { c.ReconcileGate = true; return nil },
	}
}

// TopupConfig is what concerns the sale of top-ups.
type TopupConfig struct {
	TopupPaused bool
	// ReconcileGate keeps them from being sold while the books differ.
	ReconcileGate bool
}

func topupSettings(Modules) []setting {
	return []setting{
		{
			key: "card.topup_paused", help: "closes the sale of top-ups", byDefault: "false",
			set: boolean(func(c *Config) *bool { return &c.TopupPaused }),
		},
		{
			key: "reconcile.gate", help: "keeps top-ups from being sold while the books differ or have not been compared",
			byDefault: "true", set: boolean(func(c *Config) *bool { return &c.ReconcileGate }),
		},
	}
}

// gatePeriods is how many comparisons may be missed before top-ups are closed.
const gatePeriods = 3

// topups makes the top-up product over the issuer of cards.
func (a *App) topups(p *Parts) (Made, error) {
	t := topup.Topups{
		Cards: p.cards, Paused: a.config.TopupPaused, Switches: p.Switches, Payments: p.Payments, Books: a.gate(),
	}
	return Made{Product: t, View: rpc.TopupView, Describe: rpc.DescribeTopups}, nil
}

// gate says whether top-ups may be sold, as far as the treasury goes; nil when nothing decides that.
func (a *App) gate() *availability.Books {
	if !a.config.ReconcileGate || a.config.ReconcileEvery == 0 {
		return nil
	}
	return availability.NewBooks(availability.BooksConfig{
		Standings: a.store.Treasury(a.config.Asset, a.config.PayTo),
		MaxAge:    gatePeriods * a.config.ReconcileEvery, Now: a.config.now,
	})
}

// topupsProvided is what the issuer has made of top-ups.
func (a *App) topupsProvided() (reconcile.Product, error) {
	return topup.IssuedRecords{Book: card.IssuedRecords{Book: a.issuersBook(), Cards: a.store.Cards()}}, nil
}
