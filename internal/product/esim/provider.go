package esim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
)

// Provider is an eSIM supplier, as eSIMs are sold over it. A plan is of one provider, and so is each eSIM that is sold
// of it: everything about the eSIM goes to that provider from then on, whatever the routing says later.
type Provider struct {
	// Name is the provider's name in the settings. Plans and profiles are stored with it; buyers never see it.
	Name     string
	Supplier Supplier
	Traits   fulfilment.Traits
	// Capabilities are the supplier's, and Controls what they promise; nil when they promise nothing.
	Capabilities Capabilities
	Controls     Controls
	// Canceller takes profiles back; nil when the supplier does not.
	Canceller Canceller
	// Topper adds data to profiles; nil when the supplier does not.
	Topper Topper
	// CallTimeout bounds one call to the supplier; Config.CallTimeout if zero.
	CallTimeout time.Duration
	// Retired says that nothing is sold over it any more. It serves what it has sold.
	Retired bool
}

// Route says who sells a plan: the providers of the first tier in which one can sell now.
type Route func(Plan) (tiers [][]string)

// provider is a Provider with its cached float.
type provider struct {
	*Provider
	funds *availability.Memo[funds]
}

// funds is the float at a supplier, all of it, and what orders have reserved of it.
type funds struct {
	all, reserved money.USDC
	// unpaid is how much of reserved is for payments that are not settled.
	unpaid money.USDC
	asOf   time.Time
}

func (f funds) free() money.USDC { return f.all - f.reserved }

// covers fails while less than a cost is free.
func (f funds) covers(cost money.USDC) error {
	switch {
	case f.free() >= cost:
		return nil
	case f.free()+f.unpaid >= cost:
		return order.Awaited()
	}
	return fault.New(fault.FloatUnavailable, noFloat)
}

// resource names the float in reservations. Each provider has a float of its own.
func (p *provider) resource() string { return path.Join(floatResource, p.Name) }

// errNotConfigured says that an eSIM's provider is not in the configuration any more.
var errNotConfigured = errors.New("the eSIM's supplier is not configured")

// at finds the provider of a plan or a profile. There is never another one instead.
func (e *Esims) at(name string) (*provider, error) {
	for _, p := range e.providers {
		if p.Name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("find the supplier %q: %w", name, errors.Join(errNotConfigured, supplierDown()))
}

// timeout bounds one call to a provider.
func (e *Esims) timeout(p *provider) time.Duration { return cmp.Or(p.CallTimeout, e.CallTimeout) }

// Capabilities are those that a buyer can rely on before a plan is chosen: those of all providers that sell.
func (e *Esims) Capabilities() Capabilities {
	selling := e.selling()
	some := len(selling) > 0
	all := Capabilities{Status: some, Usage: some, Cancel: some, Topup: some}
	for _, p := range selling {
		all.Status = all.Status && p.Capabilities.Status
		all.Usage = all.Usage && p.Capabilities.Usage
		all.Cancel = all.Cancel && p.Capabilities.Cancel
		all.Topup = all.Topup && p.Capabilities.Topup
	}
	return all
}

// selling are the providers that plans are sold of.
func (e *Esims) selling() (all []*provider) {
	for _, p := range e.providers {
		if !p.Retired {
			all = append(all, p)
		}
	}
	return all
}

// sold fails with a fault while operators have closed the sale over a provider.
func (e *Esims) sold(ctx context.Context, p *provider) error {
	return e.Switches.Sells(ctx, p.Name, fault.EsimPaused)
}

// onSale are the providers that plans are sold of, without those over which operators have closed the sale.
func (e *Esims) onSale(ctx context.Context) (all []*provider, err error) {
	for _, p := range e.selling() {
		switch err := e.sold(ctx, p); {
		case err == nil:
			all = append(all, p)
		case fault.Of(err) != fault.EsimPaused:
			return nil, err
		}
	}
	return all, nil
}

// sellers are the names of the providers that plans are sold of.
func (e *Esims) sellers() (all []string) {
	for _, p := range e.selling() {
		all = append(all, p.Name)
	}
	return all
}

// forSale are the plans of a catalogue that the routing sells now, in their order.
func (e *Esims) forSale(ctx context.Context, on catalogue) ([]Plan, error) {
	able, open := map[string]bool{}, map[string]bool{}
	selling, err := e.onSale(ctx)
	if err != nil {
		return nil, err
	}
	funded := make([]bool, len(selling))
	var asked sync.WaitGroup // at once: they share a caller's deadline
	for i, p := range selling {
		if open[p.Name] = true; e.Route != nil {
			asked.Go(func() { _, err := p.funds.Get(ctx); funded[i] = err == nil })
		}
	}
	asked.Wait()
	for i, p := range selling {
		able[p.Name] = funded[i] && e.isFresh(on, p)
	}
	return slices.DeleteFunc(slices.Clone(on.plans), func(p Plan) bool {
		if !open[p.Provider] || e.Route == nil {
			return !open[p.Provider]
		}
		for _, tier := range e.Route(p) {
			if slices.Contains(tier, p.Provider) {
				return false
			}
			if slices.ContainsFunc(tier, func(name string) bool { return able[name] }) {
				return true
			}
		}
		return true
	}), nil
}

// isFresh reports whether a provider's plans are as it showed them lately.
func (e *Esims) isFresh(on catalogue, p *provider) bool {
	return e.Now().Sub(on.synced[p.Name]) <= e.StaleAfter
}
