package app

import (
	"context"
	"fmt"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/provider/sandbox/trigger"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/transport/rpc"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// registered are the products, in the order in which they are shown: a line for each.
func registered() []registration {
	return []registration{
		cardRegistration(),
		topupRegistration(),
		esimRegistration(),
	}
}

// registration is one product, as the program takes it up.
type registration struct {
	// rows is what the store knows of it.
	rows store.Product
	// make makes it, with what the API shows of it.
	make func(*App, *parts) (made, error)
	// provided is what its provider has made.
	provided func(*App) (reconcile.Product, error)
	// settings are its own, and mistakes those that show only when several are seen together; nil when there are none.
	settings func(Modules) []setting
	mistakes func(Config) []error
	// develop configures it for a development server; nil when nothing has to be.
	develop func(*Config, Development) error
	// examine asks its provider; nil when another product's examination does.
	examine func(context.Context, Config) Examination
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

// made is a product, and how the API gets it.
type made struct {
	product
	// view shows its orders, and describe its terms.
	view     rpc.View
	describe rpc.Describe
	// serve adds its service; nil when another product's service has its methods.
	serve func(*rpc.Services, selling)
	// deliveries knows the tokens that open its orders; nil when it has none.
	deliveries rpcx.Deliveries
}

// sold is what checkout sells and settlement delivers.
type sold interface {
	checkout.Product
	settlement.Product
}

// product is what is sold and delivered, with its jobs.
type product interface {
	sold
	// Jobs are those that are its own; an order's delivery is none of them.
	Jobs() []job.Work
}

// StoredProducts are the products as the store knows them.
func StoredProducts() (all []store.Product) {
	for _, r := range registered() {
		all = append(all, r.rows)
	}
	return all
}

// productSettings are those of all products.
func (m Modules) productSettings() (all []setting) {
	for _, r := range registered() {
		if r.settings != nil {
			all = append(all, r.settings(m)...)
		}
	}
	return all
}

// productMistakes are those of all products.
func (c Config) productMistakes() (all []error) {
	for _, r := range registered() {
		if r.mistakes != nil {
			all = append(all, r.mistakes(c)...)
		}
	}
	return all
}

// Develop configures all products for a development server.
func (c *Config) Develop(d Development) error {
	for _, r := range registered() {
		if r.develop == nil {
			continue
		}
		if err := r.develop(c, d); err != nil {
			return err
		}
	}
	return nil
}

// ExamineProviders asks the providers of all products.
func (c Config) ExamineProviders(ctx context.Context) (all []Examination) {
	for _, r := range registered() {
		if r.examine != nil {
			all = append(all, r.examine(ctx, c))
		}
	}
	return all
}

// makeProducts makes all that is sold.
func (a *App) makeProducts(p *parts) error {
	for _, r := range registered() {
		made, err := r.make(a, p)
		if err != nil {
			return err
		}
		a.products = append(a.products, made)
		if made.deliveries != nil {
			p.deliveries = made.deliveries
		}
		// The product itself: checkout asks it for more than the interface promises.
		p.products = append(p.products, a.config.triggered(made.product))
	}
	return nil
}

// triggered is a product. In the sandbox it plays the scenarios of idempotency keys.
func (c Config) triggered(p sold) sold {
	if c.Environment != Sandbox {
		return p
	}
	return trigger.Product{Sold: p}
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
	for _, r := range registered() {
		made, err := r.provided(a)
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

// pausedPaths names what is not sold by where it is bought. What cannot be read counts as sold: the purchase itself
// says more.
func pausedPaths(products []made) func(context.Context) map[string]bool {
	return func(ctx context.Context) map[string]bool {
		all := map[string]bool{}
		for _, p := range products {
			if paused, err := p.Availability().Paused(ctx); err == nil && paused {
				all[p.Path()] = true
			}
		}
		return all
	}
}

func availabilities(products []made) map[order.Kind]availability.Product {
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
