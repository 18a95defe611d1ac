package app

import (
	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/transport/discovery"
	"github.com/roamcard/roamcard/internal/transport/rpc"
)

// selling makes the dependencies that the services of all products share.
func (a *App) selling(p *Parts, site *discovery.Site) Selling {
	views := rpc.OrderViews{Views: map[order.Kind]rpc.View{}, BaseURL: a.config.BaseURL}
	for _, m := range a.products {
		if m.View != nil {
			views.Views[m.Kind()] = m.View
		}
	}
	return Selling{
		Sales:        rpc.Sales{OrderViews: views, Checkout: p.sells, Extensions: site.Bazaar, Metrics: a.metrics},
		Parts:        p,
		availability: availabilities(a.products),
	}
}

// services makes the Connect services. Each product adds its own.
func (a *App) services(s Selling) rpc.Services {
	c, p := a.config, s.Parts
	described := map[order.Kind]rpc.Describe{}
	for _, m := range a.products {
		if m.Describe != nil {
			described[m.Kind()] = m.Describe
		}
	}
	all := rpc.Services{
		Orders: rpc.OrderService{Sales: s.Sales, Orders: p.sells},
		Auth:   rpc.AuthService{SignIns: p.who, Metrics: a.metrics},
		Runtime: rpc.RuntimeService{
			Health: a.store.Ping, Availability: s.availability, Described: described, BaseURL: c.BaseURL,
			Terms: c.terms(), Environment: c.Environment, Version: Version,
		},
		Operator: rpc.OperatorService{
			OrderViews: s.OrderViews, Queue: a.admin(p), Switches: a.admin(p),
			FeeJobs: card.FeeAdmin{Jobs: a.store.FeeJobs(), Issuers: p.cards, CallTimeout: c.IssuerCallTimeout},
			Closings: card.CloseAdmin{
				Jobs: a.store.Closings(), Issuers: p.cards, CallTimeout: c.IssuerCallTimeout, Now: p.Now,
			},
			Reconciliation: p.treasury, Findings: p.treasury, Transfers: p.treasury, Challenges: p.signIns,
		},
		Activity: rpc.ActivityService{Events: p.events, Metrics: a.metrics},
	}
	for _, m := range a.products {
		if m.Serve != nil {
			m.Serve(&all, s)
		}
	}
	return all
}

// Selling are the dependencies that the services of all products share.
type Selling struct {
	rpc.Sales
	*Parts
	availability map[order.Kind]availability.Product
}

func (a *App) admin(p *Parts) admin.Admin {
	return admin.Admin{
		Records: a.store.Admin(), Switches: a.store.Admin(), Refunds: p.refunds, Evidence: a.chain,
		Products: listed(p.products, func(p sold) admin.Product { return p }), Confirm: settlement.ConfirmJob,
	}
}
