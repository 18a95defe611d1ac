package card

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
)

// Provider is a card issuer, as cards are sold over it. An order names the provider that was chosen for it, and so
// does its card: everything about the card goes to that provider from then on, whatever the routing says later.
type Provider struct {
	// Name is the provider's name in the settings. Cards are stored with it.
	Name string
	// Programme identifies the issuer's programme that cards are opened in; empty where it has none.
	Programme string
	Issuer    Issuer
	Vault     Vault
	Stock     Stock
	// Lister lists the cards, for the job that reads their states only.
	Lister CardLister
	// Controls is needed where the capabilities say so.
	Controls Controls
	// Closer is needed where the capabilities say Close.
	Closer Closer
	// Embed is needed where the capabilities say RevealEmbed.
	Embed  Embed
	Traits fulfilment.Traits
	// Capabilities are the issuer's.
	Capabilities Capabilities
	// Retired says that no cards are sold over it any more. It serves those that it has sold.
	Retired bool
}

// Route lists the names of the providers that a card at a price is sold over, in order of preference.
type Route func(price money.Cents) []string

// provider is a Provider with its cached inventory.
type provider struct {
	*Provider
	stock *availability.Memo[Inventory]
}

// resource names the float in reservations. Each provider has a float of its own.
func (p *provider) resource() string { return path.Join(floatResource, p.Name) }

// errNotConfigured says that a card's provider is not in the configuration any more.
var errNotConfigured = errors.New("the card's issuer is not configured")

// at finds the provider that an order or a card names. There is never another one instead.
func (c *Cards) at(name string) (*provider, error) {
	for _, p := range c.providers {
		if p.Name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("find the issuer %q: %w", name, errors.Join(errNotConfigured, issuerDown()))
}

// ProviderOf finds the provider that a card names.
func (c *Cards) ProviderOf(name string) (Provider, error) {
	p, err := c.at(name)
	if err != nil {
		return Provider{}, err
	}
	return *p.Provider, nil
}

// Closes reports whether a provider closes cards.
func (c *Cards) Closes(name string) bool {
	p, err := c.at(name)
	return err == nil && p.Capabilities.Close
}

// selling are the providers that a card at a price is sold over, in order of preference.
func (c *Cards) selling(price money.Cents) []*provider {
	all := c.providers
	if c.Route != nil {
		all = nil
		for _, name := range c.Route(price) {
			if p, err := c.at(name); err == nil {
				all = append(all, p)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(p *provider) bool { return p.Retired })
}

// choose finds the first provider that can sell a card at a price now. While none can, the error is that of the most
// preferred one. A provider that an order names already is the only choice.
func (c *Cards) choose(ctx context.Context, price money.Cents, remembered string) (*provider, error) {
	candidates := c.selling(price)
	if remembered != "" {
		p, err := c.at(remembered)
		if err != nil {
			return nil, err
		}
		candidates = []*provider{p}
	}
	return first(ctx, candidates, func(ctx context.Context, p *provider) error { return c.canSell(ctx, p, price) })
}

// canSell fails while operators have closed the sale over a provider, and while it does not answer, has no open range,
// or has too little float.
func (c *Cards) canSell(ctx context.Context, p *provider, price money.Cents) error {
	if err := c.sells(ctx, p); err != nil {
		return err
	}
	if err := hasRange(ctx, p); err != nil {
		return err
	}
	return covers(ctx, p, price)
}

// hedgeDelay is how long a provider is waited for before the next one is asked, too.
const hedgeDelay = time.Second

// first finds the first provider without an error, else the error of the most preferred one.
func first(
	ctx context.Context, all []*provider, check func(context.Context, *provider) error,
) (*provider, error) {
	if len(all) == 0 {
		return nil, fault.New(fault.IssuePaused, "No cards are sold at the moment.")
	}
	at, errs := availability.FirstOf(ctx, len(all), hedgeDelay, func(ctx context.Context, i int) error {
		return check(ctx, all[i])
	})
	if at < 0 {
		return nil, errs[0]
	}
	return all[at], nil
}

// Capabilities are those that a buyer can rely on before the provider is chosen: those of the preferred provider, with
// the controls that all providers offer that sell cards.
func (c *Cards) Capabilities() Capabilities {
	var all Capabilities
	for i, p := range c.selling(Price) {
		if i == 0 {
			all = p.Capabilities
			continue
		}
		all.Freeze = all.Freeze && p.Capabilities.Freeze
		all.Transactions = all.Transactions && p.Capabilities.Transactions
		all.Limits = all.Limits.And(p.Capabilities.Limits)
		all.Details = all.Details.And(p.Capabilities.Details)
	}
	return all
}
