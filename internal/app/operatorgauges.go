package app

import (
	"context"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/money"
)

// operatorGauges caches what operators watch for gaugeTTL, since several of them may look at the same time.
func (a *App) operatorGauges() func(context.Context) (admin.Gauges, error) {
	return availability.NewMemo(availability.MemoConfig[admin.Gauges]{
		Read: func(ctx context.Context) (admin.Gauges, error) { return a.readGauges(ctx, a.config.now()) },
		TTL:  gaugeTTL, Timeout: gaugeTimeout, Now: a.config.now,
	}).Get
}

// readGauges reads all values concurrently. A value that cannot be read is left out.
func (a *App) readGauges(ctx context.Context, now time.Time) (admin.Gauges, error) {
	ours := a.keys.accounts(a.config.PayTo)
	out := admin.Gauges{At: now.UTC(), Accounts: make([]admin.Account, len(ours))}
	note := func(what string, err error) { a.unread.note(ctx, a.log, what, err) }
	var all sync.WaitGroup
	for i, of := range ours {
		all.Go(func() {
			shown, err := a.accountGauge(ctx, of)
			note(of.Name, err)
			out.Accounts[i] = shown
		})
	}
	floats := a.floats()
	found := make([]*admin.Float, len(floats))
	for i, of := range floats {
		all.Go(func() {
			units, err := of.read(ctx)
			if note("float of "+of.provider, err); err == nil {
				found[i] = &admin.Float{Provider: of.provider, Units: units}
			}
		})
	}
	all.Go(func() {
		depths, err := a.store.Jobs().Depth(ctx)
		note("depth of jobs", err)
		out.Jobs = depths
	})
	all.Go(func() {
		for _, h := range a.chain.Heads(ctx) {
			out.Nodes = append(out.Nodes, admin.NodeHead{Node: h.Node, Block: h.Number, Age: max(0, now.Sub(h.Time))})
		}
	})
	all.Wait()
	for _, f := range found {
		if f != nil {
			out.Floats = append(out.Floats, *f)
		}
	}
	return out, nil
}

// accountGauge reads what one of our accounts holds: ether for relayers, which pay for gas, else the asset.
func (a *App) accountGauge(ctx context.Context, of chain.Account) (admin.Account, error) {
	shown := admin.Account{Name: of.Name, Address: of.Address}
	if of.Name == relayerAccount {
		wei, err := a.chain.Ether(ctx, of.Address)
		shown.Wei = wei
		return shown, err
	}
	units, err := a.chain.Balance(ctx, of.Address)
	if err == nil {
		shown.Units = &units
	}
	return shown, err
}

// floatAt reads what one provider can still take from what was paid to it in advance.
type floatAt struct {
	provider string
	read     func(context.Context) (money.USDC, error)
}

func (a *App) floats() (all []floatAt) {
	for _, of := range a.issuers {
		all = append(all, floatAt{of.Name, func(ctx context.Context) (money.USDC, error) {
			stock, err := of.client.Stock(ctx)
			return stock.Float.USDC(), err
		}})
	}
	return all
}
