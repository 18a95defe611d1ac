package app

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/transport/rpc"
	"github.com/roamcard/roamcard/internal/transport/web"
)

func cardRegistration() Registration {
	return Registration{
		Rows: store.CardProduct(), Make: (*App).cards, Provided: (*App).cardsProvided, settings: cardSettings,
		Examine: examineIssuer,
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

// cards makes the card product over its issuer.
func (a *App) cards(p *Parts) (Made, error) {
	c := a.config
	capabilities := a.issuer.Capabilities()
	if err := capabilities.Check(); err != nil {
		return Made{}, err
	}
	controls, offered := a.issuer.(card.Controls)
	if _, ends := a.issuer.(card.Closer); capabilities.Close && !ends {
		return Made{}, errors.New("the card issuer declares that it closes cards, which its adapter does not")
	}
	if !offered && (capabilities.Freeze || capabilities.Transactions) {
		return Made{}, errors.New("the card issuer declares controls for owners that its adapter does not have")
	}
	embed, offered := a.issuer.(card.Embed)
	if !offered && capabilities.Reveal == card.RevealEmbed {
		return Made{}, errors.New("the card issuer declares pages that show cards, and its adapter has none")
	}
	p.cards = card.New(card.Config{
		Store: a.store.Cards(), Issuer: a.issuer, Vault: a.issuer, Stock: a.issuer, Roll: a.issuer, Traits: a.issuer.Traits(),
		Capabilities: capabilities, Controls: controls, Embed: embed, Links: a.store.CardLinks(), Origin: c.BaseURL,
		Log: a.log, Now: time.Now,
		Paused: c.IssuePaused, Switches: p.Switches, Payments: p.Payments,
		Workers: p.Workers(settlement.Fulfilling, card.FeeJob),
		Poll:    c.IssuerPoll, CallTimeout: c.IssuerCallTimeout, Deadline: c.IssuerDeadline,
		UnsettledPercent: c.Fairness.UnsettledPercent, StatesEvery: c.IssuerStatesEvery,
	})
	made := Made{
		Product: p.cards, View: rpc.CardView(p.cards.Store), Describe: rpc.DescribeCards,
		Serve: func(all *rpc.Services, s Selling) {
			all.Cards = rpc.CardService{
				Sales: s.Sales, Cards: p.cards, Controls: p.cards, Capabilities: capabilities, Credentials: p.cards,
				Links: p.cards, Reveals: s.who, Availability: s.availability, Terms: c.terms(),
			}
			all.Runtime.ReadyFor = card.Kind // top-ups depend on the same
		},
	}
	if capabilities.Reveal == card.RevealEmbed {
		made.Routes = func(Selling) map[string]http.Handler {
			return web.RevealPages(web.Config{Cards: p.cards, Parts: embed.PageParts(), Origin: c.BaseURL, Log: a.log})
		}
	}
	return made, nil
}

// closings are the jobs that close cards, where the issuer does that. They refund what is left.
func (a *App) closings(p *Parts) []job.Work {
	closer, offered := a.issuer.(card.Closer)
	if !offered {
		return nil
	}
	c := &card.Closings{Cards: p.cards, Store: a.store.Cards(), Issuer: closer, Refunds: p.settles}
	return c.Jobs()
}

// cardsProvided is what the issuer has made of cards.
func (a *App) cardsProvided() (reconcile.Product, error) {
	return card.Made{Book: a.issuer, Cards: a.store.Cards()}, nil
}

func examineIssuer(ctx context.Context, cfg Config) Examination {
	issuer, err := cfg.dialIssuer(discard(), nil)
	if err != nil {
		return Examination{Name: "issuer", Err: err, Fix: "check issuer.url"}
	}
	if p, ok := issuer.(provider.Prober); ok {
		seen, err := p.Probe(ctx)
		return Examination{
			Name: "issuer", Detail: cfg.IssuerProvider + ": " + seen, Err: err,
			Fix: "check issuer.url, issuer.key and the issuer's own settings",
		}
	}
	stock, err := issuer.Stock(ctx)
	return Examination{
		Name: "issuer", Detail: "float " + stock.Float.String() + " USD", Err: err,
		Fix: "check issuer.url and issuer.key",
	}
}
