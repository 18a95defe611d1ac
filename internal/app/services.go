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

// services makes the Connect services. Each product adds its own.
func (a *App) services(p *parts, site *discovery.Site) rpc.Services {
	c := a.config
	views := rpc.OrderViews{Views: map[order.Kind]rpc.View{}, BaseURL: c.BaseURL}
	described := map[order.Kind]rpc.Describe{}
	for _, m := range a.products {
		views.Views[m.Kind()], described[m.Kind()] = m.view, m.describe
	}
	s := selling{
		Sales:        rpc.Sales{OrderViews: views, Checkout: p.sells, Extensions: site.Bazaar, Metrics: a.metrics},
		parts:        p,
		availability: availabilities(a.products),
	}
	all := rpc.Services{
		Orders: rpc.OrderService{Sales: s.Sales, Orders: p.sells},
		Auth:   rpc.AuthService{SignIns: p.who, Metrics: a.metrics},
		Runtime: rpc.RuntimeService{
			Health: a.store.Ping, Availability: s.availability, Described: described, BaseURL: c.BaseURL,
			Terms: c.terms(), Environment: c.Environment, Version: Version,
		},
		Operator: rpc.OperatorService{
			OrderViews: views, Queue: a.admin(p), Switches: a.admin(p),
			FeeJobs:        card.FeeAdmin{Jobs: a.store.FeeJobs(), Issuer: a.issuer, CallTimeout: c.IssuerCallTimeout},
			Reconciliation: p.treasury, Findings: p.treasury, Transfers: p.treasury, Challenges: p.signIns,
		},
		Activity: rpc.ActivityService{Events: p.events, Metrics: a.metrics},
	}
	for _, m := range a.products {
		if m.serve != nil {
			m.serve(&all, s)
		}
	}
	return all
}

// selling are the dependencies that the services of all products share.
type selling struct {
	rpc.Sales
	*parts
	availability map[order.Kind]availability.Product
}

func (a *App) admin(p *parts) admin.Admin {
	return admin.Admin{
		Records: a.store.Admin(), Switches: a.store.Admin(), Refunds: p.refunds, Evidence: a.chain,
		Products: listed(p.products, func(p sold) admin.Product { return p }), Confirm: settlement.ConfirmJob,
	}
}
