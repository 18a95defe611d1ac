package app

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/provider/sandbox/trigger"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/transport/rpc"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// registered are the products, in the order in which they are shown: a line for each.
func registered() []Registration {
	return []Registration{
		cardRegistration(),
		topupRegistration(),
		esimRegistration(),
		esimTopupRegistration(),
	}
}

// Registration is one product, as the program takes it up.
type Registration struct {
	// Rows is what the store knows of it.
	Rows store.Product
	// Make makes it, with what the API shows of it. A product of another package needs Parts alone.
	Make func(*App, *Parts) (Made, error)
	// Provided is what its provider has made.
	Provided func(*App) (reconcile.Product, error)
	// Own are its settings in Config.Own, for a product that has no part of Config; nil when there are none. One without
	// a default has to be set, unless it is optional.
	Own []provider.Setting
	// settings are its own in its part of Config; nil when there are none.
	settings func(Modules) []setting
	// Validate are those that show only when several settings are seen together; nil when there are none.
	Validate func(Config) []error
	// Develop configures it for a development server; nil when nothing has to be.
	Develop func(*Config, Development) error
	// Examine asks its providers; nil when another product's examination does.
	Examine func(context.Context, Config) []Examination
	// Try tries its providers out, by calls that take effect there, and buys nothing that costs more than spend; nil when
	// another product's trial does.
	Try func(ctx context.Context, c Config, s *store.Store, spend money.USDC) ([]Trial, error)
	// role is who provides it; nil when another product's role does.
	role func(Config) role
}

// Development is a development server, as products are configured for it.
type Development struct {
	// SandboxURL is where the sandbox providers are.
	SandboxURL string
	// Keep reads a secret that is kept in a file next to the data, or makes one with a prefix.
	Keep func(file, prefix string) (string, error)
}

// Examination is what asking a provider showed.
type Examination struct {
	Name, Detail string
	// Err is what is wrong, and Fix what to do about it.
	Err error
	Fix string
}

// ProductConfig is the part of the configuration that is about single products.
type ProductConfig struct {
	CardConfig
	TopupConfig
	// Esim is everything about eSIMs.
	Esim EsimConfig
}

// Made is a product, and how the API gets it.
type Made struct {
	Product
	// View shows its orders, and Describe its terms; nil where there is nothing to add to those of all products.
	View     rpc.View
	Describe rpc.Describe
	// Serve adds its service; nil when another product's service has its methods.
	Serve func(*rpc.Services, Selling)
	// Routes are its handlers outside of the Connect services, by patterns of http.ServeMux; nil when there are none.
	// Their requests are counted as requests for terms.
	Routes func(Selling) map[string]http.Handler
	// Returns are its jobs that refund goods which are handed back; nil when there are none.
	Returns func(*settlement.Settlement) []job.Work
	// Deliveries knows the tokens that open its orders; nil when it has none.
	Deliveries rpcx.Deliveries
	// Float is the reservation of so many units of a float of its providers, as known now, for an order that is paid after
	// its reservation was released. ok is false for a float of others. Nil when its orders reserve of no float.
	Float func(ctx context.Context, resource string, units int64) (r order.Reservation, ok bool, err error)
}

// sold is what checkout sells and settlement delivers.
type sold interface {
	checkout.Product
	settlement.Product
}

// Product is what is sold and delivered, with its jobs.
type Product interface {
	sold
	// Jobs are those that are its own; an order's delivery is none of them.
	Jobs() []job.Work
}

// registered are the products of the program, and those that are added to it.
func (m Modules) registered() []Registration { return append(registered(), m.Products...) }

// StoredProducts are the products as the store knows them.
func (c Config) StoredProducts() (all []store.Product) {
	for _, r := range c.Added.registered() {
		all = append(all, r.Rows)
	}
	return all
}

// productSettings are those of all products.
func (m Modules) productSettings() (all []setting) {
	for _, r := range m.registered() {
		if r.settings != nil {
			all = append(all, r.settings(m)...)
		}
		all = append(all, ownSettings(r.Own)...)
	}
	return all
}

// productMistakes are those of all products.
func (c Config) productMistakes() (all []error) {
	for _, r := range c.Added.registered() {
		if r.Validate != nil {
			all = append(all, r.Validate(c)...)
		}
	}
	return all
}

// Develop configures all products for a development server.
func (c *Config) Develop(d Development) error {
	for _, r := range c.Added.registered() {
		if r.Develop == nil {
			continue
		}
		if err := r.Develop(c, d); err != nil {
			return err
		}
	}
	return nil
}

// ExamineProviders asks the providers of all products.
func (c Config) ExamineProviders(ctx context.Context) (all []Examination) {
	for _, r := range c.Added.registered() {
		if r.Examine != nil {
			all = append(all, r.Examine(ctx, c)...)
		}
	}
	return all
}

// makeProducts makes all that is sold.
func (a *App) makeProducts(p *Parts) error {
	for _, r := range a.config.Added.registered() {
		made, err := r.Make(a, p)
		if err != nil {
			return err
		}
		a.products = append(a.products, made)
		a.metrics.BeginProduct(string(made.Product.Kind()))
		if made.Deliveries != nil {
			p.deliveries = made.Deliveries
		}
		// The product itself: checkout asks it for more than the interface promises.
		p.products = append(p.products, a.config.triggered(made.Product))
	}
	return nil
}

// triggered is a product. In the sandbox it plays the scenarios of idempotency keys.
func (c Config) triggered(p sold) sold {
	if c.Environment != Sandbox {
		return p
	}
	return trigger.Product{Inner: p}
}

// triggeredSettlement is the settlement. In the sandbox it plays the scenarios of idempotency keys.
func (c Config) triggeredSettlement(s *settlement.Settlement) checkout.Settlement {
	if c.Environment != Sandbox {
		return s
	}
	return trigger.Settlement{Settler: s, Wait: c.Wait}
}

// listed is the products as one of their users sees them.
func listed[T any](products []sold, as func(sold) T) []T {
	all := make([]T, len(products))
	for i, p := range products {
		all[i] = as(p)
	}
	return all
}

// recoverable are the products as their providers' books have them.
func (a *App) recoverable() (all []reconcile.Product, err error) {
	for _, r := range a.config.Added.registered() {
		made, err := r.Provided(a)
		if err != nil {
			return nil, err
		}
		all = append(all, made)
	}
	return all, nil
}

// pathOf is where a product is bought.
func (a *App) pathOf(kind order.Kind) string {
	for _, p := range a.products {
		if p.Kind() == kind {
			return p.Path()
		}
	}
	return ""
}

// pausedPaths names what is not sold by where it is bought. What cannot be read soon counts as sold: the purchase
// itself says more, and documents do not wait for a database.
func pausedPaths(products []Made) func(context.Context) map[string]bool {
	return func(ctx context.Context) map[string]bool {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		all := map[string]bool{}
		for _, p := range products {
			paused, err := p.Availability().Paused(ctx)
			if err != nil {
				break // the others would be waited for as long
			}
			if paused {
				all[p.Path()] = true
			}
		}
		return all
	}
}

func availabilities(products []Made) map[order.Kind]availability.Product {
	all := map[order.Kind]availability.Product{}
	for _, p := range products {
		all[p.Kind()] = p.Availability()
	}
	return all
}

// productJobs are the jobs of all products.
func (a *App) productJobs() (all []job.Work) {
	for _, p := range a.products {
		all = append(all, p.Jobs()...)
	}
	return all
}

// queueStarted queues what products do at each start.
func (a *App) queueStarted(ctx context.Context) error {
	for _, w := range a.productJobs() {
		if w.Start == nil {
			continue
		}
		if _, err := a.store.Jobs().Enqueue(ctx, *w.Start); err != nil {
			return fmt.Errorf("queue %s: %w", w.Kind, err)
		}
	}
	return nil
}
