package app

import (
	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/job"
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
		Sales: rpc.Sales{
			OrderViews: views, Checkout: p.sells, Extensions: site.Extensions, SignIns: p.who, Metrics: a.metrics,
		},
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
	closings := card.CloseAdmin{
		Jobs: a.store.Closings(), Issuers: p.cards, Chain: a.chain, CallTimeout: c.IssuerCallTimeout, Now: p.Now,
	}
	all := rpc.Services{
		Orders: rpc.OrderService{Sales: s.Sales, Orders: p.sells, Links: p.sells, Terms: c.terms()},
		Auth:   rpc.AuthService{SignIns: p.who, Metrics: a.metrics},
		Runtime: rpc.RuntimeService{
			Health: a.store.Ping, Availability: s.availability, Described: described, Board: a.board,
			BaseURL: c.BaseURL, Terms: c.terms(), Explorer: c.Explorer, PublicNode: c.PublicNode,
			Environment: c.Environment, Version: Version, Stopping: a.stopping.Load,
		},
		Operator: rpc.OperatorService{
			OrderViews: s.OrderViews, Queue: a.admin(p), Trail: a.admin(p), Switches: a.admin(p),
			Gauges: a.operatorGauges(), Summary: a.operatorSummary(),
			Jobs: admin.Jobs{Records: a.store.OperatorJobs(), Kinds: a.runner.Kinds(), Resumed: a.resumed(p)},
			FeeJobs: card.FeeAdmin{
				Jobs: a.store.FeeJobs(), Issuers: p.cards, CallTimeout: c.IssuerCallTimeout, Now: c.now,
			},
			Closings: closings, Tokens: a.tokens(p), Approvals: admin.Approvals{
				Records: a.store.Approvals(a.store.Treasury(c.Asset, c.PayTo), closings.Closing), Refunds: p.refunds,
				Postings: a.admin(p).Postings,
			},
			Reconciliation: p.treasury, Comparisons: p.treasury, Findings: p.treasury, Transfers: p.treasury,
			Challenges: p.signIns,
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
		Providers: a.config.providerNames(),
		Products:  listed(p.products, func(p sold) admin.Product { return p }), Confirm: settlement.ConfirmJob,
		Configured: closedProducts(a.products),
	}
}

// resumed are the kinds of jobs that go on by a command of their own, with it.
func (a *App) resumed(p *Parts) map[job.Kind]string {
	by := map[job.Kind]string{settlement.Fulfilling: "admin orders"}
	for _, w := range a.works(p) {
		if w.Resume != "" {
			by[w.Kind] = w.Resume
		}
	}
	return by
}

// closedProducts are the products whose sale the configuration closes.
func closedProducts(products []Made) map[order.Kind]bool {
	all := map[order.Kind]bool{}
	for _, p := range products {
		if on := p.Availability(); on.Closed {
			all[on.Kind] = true
		}
	}
	return all
}
