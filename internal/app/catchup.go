package app

import (
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/x402"
)

// newCatchUp closes sales until the transfers to the payee have been read, after a start and after a change of the
// database.
func (a *App) newCatchUp() *reconcile.CatchUp {
	transfers := a.store.Treasury(a.config.Asset, a.config.PayTo)
	reader := reconcile.NewScanner(reconcile.ScannerConfig{
		Chain: a.chain, Arrivals: transfers, Unread: transfers, PayTo: a.config.PayTo,
	})
	books := a.store.Watermarks(a.config.Asset, a.config.PayTo)
	c := reconcile.CatchUpConfig{
		Reader: reader, Chain: a.chain, Head: a.chain, Arrivals: books, Unread: books, Watermarks: books, Sent: books,
		Early: a.store.Orders(),
		Asset: a.config.Asset, PayTo: a.config.PayTo, Senders: []x402.Address{a.config.PayTo},
		Validity: a.config.terms().MaxValidity, Log: a.log, Now: a.config.now,
	}
	c.Senders = append(c.Senders, a.keys.treasuries()...)
	if a.relayer != nil {
		c.Pending = a.relayer.Pending
	}
	return reconcile.NewCatchUp(c)
}
