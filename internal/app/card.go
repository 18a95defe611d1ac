package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/routing"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/transport/rpc"
	"github.com/roamcard/roamcard/internal/transport/web"
)

func cardRegistration() Registration {
	return Registration{
		Rows: store.CardProduct(), Make: (*App).cards, Provided: (*App).cardsProvided, settings: cardSettings,
		Examine: examineIssuers, Try: tryIssuers, role: cardRole,
	}
}

// CardConfig is what concerns the sale of cards. What concerns their issuer concerns top-ups, too.
type CardConfig struct{ IssuePaused bool }

func cardSettings(Modules) []setting {
	return []setting{
		{
			key: "card.issue_paused", help: "closes the sale of cards", byDefault: "false",
			set: boolean(func(c *Config) *bool { return &c.IssuePaused }),
		},
	}
}

// cards makes the card product over its issuers.
func (a *App) cards(p *Parts) (Made, error) {
	c := a.config
	var providers []card.Provider
	for _, of := range a.issuers {
		made, err := c.cardProvider(of)
		if err != nil {
			return Made{}, err
		}
		providers = append(providers, made)
	}
	pages, err := embedPages(a.issuers)
	if err != nil {
		return Made{}, err
	}
	routed := c.routedCards()
	p.cards = card.New(card.Config{
		Store: a.store.Cards(), Providers: providers, Links: a.store.CardLinks(), Origin: c.BaseURL, Log: a.log,
		Now: a.config.now,
		Route: func(price money.Cents) []string {
			names, _ := c.Routing.For(routing.Sale{Product: card.Kind, Price: price}, routed)
			return names
		},
		Paused: c.IssuePaused, Switches: p.Switches, Payments: p.Payments,
		Workers: p.Workers(settlement.Fulfilling, card.FeeJob),
		Poll:    c.IssuerPoll, CallTimeout: c.IssuerCallTimeout, Deadline: c.IssuerDeadline,
		Working:          a.working,
		UnsettledPercent: c.Fairness.UnsettledPercent, StatesEvery: c.IssuerStatesEvery,
	})
	made := Made{
		Product: p.cards, View: rpc.CardView(p.cards.Store), Describe: rpc.DescribeCards, Float: p.cards.FloatOf,
		Serve: func(all *rpc.Services, s Selling) {
			all.Cards = rpc.CardService{
				Sales: s.Sales, Cards: p.cards, Controls: p.cards, Capabilities: p.cards.Capabilities(),
				Credentials: p.cards, Links: p.cards, Reveals: s.who, Availability: s.availability, Terms: c.terms(),
			}
			all.Runtime.ReadyFor = card.Kind // top-ups depend on the same
		},
	}
	if pages != nil {
		made.Routes = func(Selling) map[string]http.Handler {
			return web.RevealPages(web.Config{Cards: p.cards, Parts: *pages, Origin: c.BaseURL, Log: a.log})
		}
	}
	return made, nil
}

// embedPages are what pages that show cards may load besides the parts of each card's own issuer: one script at most is
// served from our origin. Nil when no issuer has such pages.
func embedPages(issuers []issuerAt) (parts *card.PageParts, err error) {
	onPages := func(of issuerAt) bool { return of.client.Capabilities().Reveal == card.RevealEmbed }
	for _, of := range issuers {
		if onPages(of) != onPages(issuers[0]) {
			// What owners sign to see a card says which it is, for all cards.
			return nil, fmt.Errorf(
				"%s and %s: one shows cards on a page only and the other one does not; use issuers that agree",
				issuers[0].Name, of.Name)
		}
		if !onPages(of) {
			continue
		}
		embed, offered := of.client.(card.Embed)
		if !offered {
			return nil, errors.New("the card issuer declares pages that show cards, and its adapter has none")
		}
		own := embed.PageParts()
		switch {
		case parts == nil || parts.VendorScript == "":
			parts = &own
		case own.VendorScript != "":
			return nil, errors.New("two card issuers need a script on the page that shows a card; there can be one")
		}
	}
	return parts, nil
}

// cardProvider is an issuer as cards are sold over it.
func (c Config) cardProvider(of issuerAt) (card.Provider, error) {
	capabilities := of.client.Capabilities()
	if err := capabilities.Check(); err != nil {
		return card.Provider{}, fmt.Errorf("sell cards of %s: %w", of.Name, err)
	}
	controls, offered := of.client.(card.Controls)
	if !offered &&
		(capabilities.Freeze || capabilities.Transactions || capabilities.Limits.Any() || capabilities.Details.Any()) {
		return card.Provider{}, errors.New("the card issuer declares controls for owners that its adapter does not have")
	}
	closer, ends := of.client.(card.Closer)
	if !ends && capabilities.Close {
		return card.Provider{}, errors.New("the card issuer declares that it closes cards, which its adapter does not")
	}
	embed, _ := of.client.(card.Embed) // its lack was told before
	return card.Provider{
		Name: of.Name, Programme: c.Own.Text(of.ProgrammeKey), Issuer: of.client, Vault: of.client, Stock: of.client,
		Lister: of.client, Controls: controls, Closer: closer, Embed: embed, Traits: of.client.Traits(),
		Capabilities: capabilities, Retired: of.retired,
	}, nil
}

// closings are the jobs that close cards. They refund what is left.
func (a *App) closings(p *Parts) []job.Work {
	c := &card.Closings{Cards: p.cards, Store: a.store.Cards(), Refunds: p.settles}
	return c.Jobs()
}

// routedCards is what routing rules may say about cards.
func (c Config) routedCards() routing.Product {
	return routing.Product{
		Kind: card.Kind, Setting: "issuer.provider", Providers: named(c.IssuerProvider), From: card.Price, To: card.Price,
	}
}

func cardRole(c Config) role {
	return role{
		name: "issuer", goods: "cards", sells: c.IssuerProvider, retired: c.IssuerRetired, routed: c.routedCards(),
		inUse: func(ctx context.Context, s *store.Store) ([]string, error) { return s.Cards().Providers(ctx) },
	}
}

// issuersBook is what all issuers have made.
func (a *App) issuersBook() (all card.Books) {
	for _, of := range a.issuers {
		all = append(all, card.NamedBook{Provider: of.Name, Book: of.client})
	}
	return all
}

// cardsProvided is what the issuers have made of cards.
func (a *App) cardsProvided() (reconcile.Product, error) {
	return card.IssuedRecords{Book: a.issuersBook(), Cards: a.store.Cards()}, nil
}

func examineIssuers(ctx context.Context, cfg Config) (all []Examination) {
	issuers, err := cfg.dialIssuers(discard(), nil)
	if err != nil {
		return []Examination{{Name: "issuer", Err: err, Fix: "check issuer.url"}}
	}
	for _, of := range issuers {
		all = append(all, examineIssuer(ctx, of))
	}
	return all
}

func tryIssuers(ctx context.Context, cfg Config, _ *store.Store, _ money.USDC) (all []Trial, err error) {
	issuers, err := cfg.dialIssuers(discard(), nil)
	if err != nil {
		return nil, err
	}
	for _, of := range issuers {
		all = append(all, Trial{of.Name, card.Try(ctx, of.client, cfg.IssuerCallTimeout)})
	}
	return all, nil
}

func examineIssuer(ctx context.Context, of issuerAt) Examination {
	if p, ok := of.client.(provider.Prober); ok {
		seen, err := p.Probe(ctx)
		return Examination{
			Name: "issuer", Detail: of.Name + ": " + seen, Err: err,
			Fix: "check " + of.reach.urlSetting + ", " + of.reach.keySetting + " and the issuer's own settings",
		}
	}
	stock, err := of.client.Stock(ctx)
	return Examination{
		Name: "issuer", Detail: "float " + stock.Float.String() + " USD", Err: err,
		Fix: "check " + of.reach.urlSetting + " and " + of.reach.keySetting,
	}
}
