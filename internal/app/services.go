package app

import (
	"time"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/transport/discovery"
	"github.com/roamcard/roamcard/internal/transport/rpc"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// services gives each Connect service what it needs.
func (a *App) services(p *parts, site *discovery.Site) rpc.Services {
	c := a.config
	views := rpc.OrderViews{Issued: a.store.Cards(), BaseURL: c.BaseURL}
	sales := rpc.Sales{OrderViews: views, Checkout: p.sells, Extensions: site.Bazaar, Metrics: a.metrics}
	products := availabilities(p.products)
	return rpc.Services{
		Cards: rpc.CardService{
			Sales: sales, Cards: p.cards, Credentials: p.cards, Reveals: p.who, Availability: products,
			Terms: c.terms(),
		},
		Orders: rpc.OrderService{Sales: sales, Orders: p.sells},
		Esims: rpc.EsimService{
			Sales: sales, Orders: p.sells, Plans: p.esims, Delivery: p.esims, Session: rpcx.SessionOf(p.who),
			Limits:       p.limits,
			Availability: products, Terms: c.terms(), Now: time.Now,
		},
		Auth: rpc.AuthService{SignIns: p.who, Metrics: a.metrics},
		Runtime: rpc.RuntimeService{
			Health: a.store.Ping, Availability: products, BaseURL: c.BaseURL, Terms: c.terms(),
			Environment: c.Environment, Version: Version,
		},
		Operator: rpc.OperatorService{
			OrderViews: views, Queue: a.admin(p), Switches: a.admin(p),
			FeeJobs:        card.FeeAdmin{Jobs: a.store.FeeJobs(), Issuer: a.issuer, CallTimeout: c.IssuerCallTimeout},
			Reconciliation: p.treasury, Findings: p.treasury, Transfers: p.treasury, Challenges: p.signIns,
		},
		Activity: rpc.ActivityService{Events: p.events, Metrics: a.metrics},
	}
}

func (a *App) admin(p *parts) admin.Admin {
	return admin.Admin{
		Records: a.store.Admin(), Switches: a.store.Admin(), Refunds: p.refunds, Evidence: a.chain,
		Products: listed(p.products, func(p product) admin.Product { return p }), Confirm: settlement.ConfirmJob,
	}
}
