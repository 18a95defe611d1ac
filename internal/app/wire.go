package app

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"
	"time"

	"github.com/roamcard/roamcard/internal/activity"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/receipt"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/screening"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/webhook"
	"github.com/roamcard/roamcard/internal/x402"
)

// Parts are the domain packages, wired with the adapters. The exported ones are for products.
type Parts struct {
	Log *slog.Logger
	Now func() time.Time
	// Switches are the operators', and Payments what every payment depends on; see availability.Product.
	Switches *availability.Switches
	Payments *availability.Payments
	// Workers checks that every kind of job has a live worker.
	Workers func(kinds ...job.Kind) availability.Check
	// Own are the settings of Registration.Own.
	Own provider.Values

	limits *limit.Limiter

	cards    *card.Cards
	products []sold
	// second are products that were made with another one, by their kinds.
	second map[order.Kind]Product
	// deliveries verifies delivery tokens.
	deliveries rpcx.Deliveries
	refunds    settlement.Refunds
	settles    *settlement.Settlement
	sells      *checkout.Checkout
	// signer signs offers and receipts; nil when none are signed.
	signer *receipt.Signer

	screening *screening.Screening
	inbox     *webhook.Inbox
	treasury  *reconcile.Reconciler
	catchUp   *reconcile.CatchUp
	events    *activity.Activity
	signIns   auth.Retention
	who       *auth.Auth

	// noticed drop what is cached of what an event of a provider names.
	noticed []func(provider string, names []string)
}

// wire makes the domain with the adapters, and the transport with the domain.
func (a *App) wire(listener net.Listener) error {
	p, err := a.parts()
	if err != nil {
		return err
	}
	a.registerJobs(p)
	if a.config.NoServer {
		return nil
	}
	a.catchUp = p.catchUp
	return a.serveHTTP(listener, p)
}

func (a *App) parts() (p *Parts, err error) {
	c := a.config
	p = &Parts{
		Log: a.log, Now: a.config.now, Own: c.Own,
		Switches: availability.NewSwitches(a.store.Admin(), a.config.now),
		Workers:  availability.Workers(a.store.Jobs(), a.config.now),
		limits:   a.limiter(),
		treasury: a.newReconciler(),
		catchUp:  a.newCatchUp(),
		events:   c.activity(a.store),
		signIns:  c.retention(a.store),
		second:   map[order.Kind]Product{},
	}
	if p.screening, err = a.newScreening(); err != nil {
		return nil, err
	}
	p.inbox = a.inbox(p)
	if p.refunds, err = a.refunds(p.screening); err != nil {
		return nil, err
	}
	a.payments = a.newPayments(p)
	p.Payments = a.payments
	if err := a.makeProducts(p); err != nil {
		return nil, err
	}
	a.runner = a.newRunner(p)
	if !c.NoServer {
		if p.who, err = a.callers(p.limits); err != nil {
			return nil, err
		}
	}
	p.settles = a.settlement(p)
	p.sells, err = a.checkout(p)
	return p, err
}

// limiter counts requests. Addresses in the counters that processes share are hashed with a key that all of them have.
func (a *App) limiter() *limit.Limiter {
	return limit.NewLimiter(limit.Config{
		Rates: a.config.Limits, Now: a.config.now, Key: []byte(a.config.QuoteKey.Reveal()),
		Refused: func(class limit.Class) { a.metrics.Limited(context.Background(), string(class)) },
	})
}

// newRunner makes the job runner. An order whose job has used up its attempts goes to an operator.
func (a *App) newRunner(p *Parts) *job.Runner {
	c := a.config
	return job.NewRunner(job.Config{
		Queue: a.store.Jobs(), Log: a.log, Now: a.config.now, Slots: c.Slots, ClassSlots: c.classSlots(), TTL: c.LeaseTTL,
		AdoptOnly: c.NoWorker, Metrics: a.metrics,
		OnParked: func(ctx context.Context, l *job.Lease, reason string) error {
			if l.Row().Kind != settlement.Fulfilling {
				return nil
			}
			return p.settles.Park(ctx, l, reason)
		},
	})
}

// working is since when the runner, which is made after the products, has been claiming jobs.
func (a *App) working() time.Time { return a.runner.Working() }

func (a *App) settlement(p *Parts) *settlement.Settlement {
	following := a.chain.Following()
	final := following.Final()
	return settlement.New(settlement.Config{
		Store: a.store.Orders(), Products: listed(p.products, func(p sold) settlement.Product { return p }),
		Chain: a.simulating(), Final: final, FinalTime: final.Time, Evidence: a.chain.Final(),
		Collect: payment.NewCollector(payment.CollectorConfig{
			Chain: following, Settler: a.settler(), Timeout: collectTimeout, Log: a.log,
		}),
		Refunds: p.refunds, Log: a.log, Now: a.config.now, Working: a.working, Metrics: a.metrics,
		HeadTime: following.Time, Float: a.float,
	})
}

// float is the reservation of units of a float, by the product whose provider has it. A float that no product knows any
// more limits nothing: the provider decides.
func (a *App) float(ctx context.Context, resource string, units int64) (order.Reservation, error) {
	for _, p := range a.products {
		if p.Float == nil {
			continue
		}
		if r, ok, err := p.Float(ctx, resource, units); ok || err != nil {
			return r, err
		}
	}
	return order.Reservation{Resource: resource, Units: units, Limit: math.MaxInt64, AsOf: a.config.now()}, nil
}

func (a *App) checkout(p *Parts) (*checkout.Checkout, error) {
	c := a.config
	made, err := a.recoverable()
	if err != nil {
		return nil, err
	}
	quoteKey, former, err := c.quoteKeys()
	if err != nil {
		return nil, err
	}
	if p.signer, err = c.receiptSigner(); err != nil {
		return nil, err
	}
	doubts := reconcile.Doubts{
		Products: made, Explains: a.store.Explains, Chain: a.chain, Payers: a.keys.treasuries(),
		Refund: a.store.Orders().Refund, SentBack: a.store.Watermarks(c.Asset, c.PayTo).SentBack,
	}
	terms := c.terms()
	if len(c.Fairness.SmartAccounts) > 0 {
		terms.SmartAccounts = a.chain
	}
	config := checkout.Config{
		Store: a.store.Orders(), Products: listed(p.products, func(p sold) checkout.Product { return p }),
		Terms: terms, Chain: a.simulating(), Settlement: c.triggeredSettlement(p.settles), Runner: a.runner,
		Log: a.log, Now: a.config.now, QuoteKey: quoteKey, FormerQuoteKeys: former, Recovered: a.store.Orders(),
		Signer: p.signer, ReceiptStore: a.store.Receipts(),
		Session: rpcx.SessionOf(p.who), OfferSignIn: p.who.OfferRequestSignIn,
		BlockTime: a.chain.BlockTime, VerifyArrived: a.chain.VerifyArrived,
		Unexplained: doubts.Unexplained, MaybeRefunded: doubts.MaybeRefunded,
		Wait: c.Wait, PayableFor: c.PayableFor, MaxUnpaid: c.MaxUnpaid, Limits: p.limits, Metrics: a.metrics,
	}
	if p.screening != nil {
		config.Screener = p.screening
	}
	if c.Preconfirmed {
		config.Preconfirmed = chain.NewPreconfirmations(chain.PreconfirmationsConfig{
			Chain: a.chain.Following(), Transactions: a.store.Transactions(), Now: a.config.now,
		}).Preconfirmed
	}
	return checkout.New(config), nil
}

// quoteKeys are the key that signs what is not stored, and those that only verify it.
func (c Config) quoteKeys() (key []byte, former [][]byte, err error) {
	if key, err = hex.DecodeString(c.QuoteKey.Reveal()); err != nil {
		return nil, nil, errors.New("decode the quote key: not hex")
	}
	if former, err = hexBytes(c.FormerQuoteKeys); err != nil {
		return nil, nil, fmt.Errorf("decode the quote keys: %w", err)
	}
	return key, former, nil
}

func (a *App) registerJobs(p *Parts) {
	a.runner.Register(settlement.Fulfilling, p.settles.Fulfill)
	a.runner.Register(settlement.Confirming, p.settles.Confirm)
	a.runner.Register(settlement.RefundConfirming, p.settles.ConfirmRefund)
	for _, w := range a.works(p) {
		a.runner.Add(w)
	}
	a.registerMaintenance()
	a.registerScreening(p.screening)
	a.runner.Register(webhook.Job, p.inbox.Work)
	registerReconcile(a.runner, a.config.ReconcileEvery, p.treasury, a.log)
	registerRetention(a.runner, a.store, a.config, p.events, p.signIns)
}

// works are the jobs of the products, those that hand goods back among them.
func (a *App) works(p *Parts) []job.Work {
	all := append(a.productJobs(), a.closings(p)...)
	for _, m := range a.products {
		if m.Returns != nil {
			all = append(all, m.Returns(p.settles)...)
		}
	}
	return all
}

// callers authenticates callers.
func (a *App) callers(limits *limit.Limiter) (*auth.Auth, error) {
	site, err := url.Parse(a.config.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("read the base URL: %w", err)
	}
	nonceKey, former, err := a.config.quoteKeys()
	if err != nil {
		return nil, err
	}
	config := auth.Config{
		Challenges: a.store.Challenges(), Sessions: a.store.Sessions(), Domain: site.Host, URI: a.config.BaseURL,
		ChainID: x402.ChainID, Now: a.config.now, ActivityWallets: a.config.Activity, Operators: a.config.Operators,
		Minted: a.store.OperatorTokens(), Issuer: a.config.issuer(a.log),
		NonceKey: nonceKey, FormerNonceKeys: former,
		Limits: limits, RevealOnPage: a.issuers[0].client.Capabilities().Reveal == card.RevealEmbed,
	}
	if len(a.config.Fairness.SmartAccounts) > 0 {
		config.SmartAccounts = a.chain
	}
	return auth.New(config)
}
