// Package app wires the program: configuration, New, Run and Close, and the commands that use them.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/facilitator"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/transport/edge"
	"github.com/roamcard/roamcard/internal/x402"
)

// Version is the program's own; the build sets it.
var Version = "0.3.1"

// Commit is what the program was built from; the build sets it, where it knows.
var Commit = ""

// BuiltFrom is the commit that the program was built from; empty when nobody knows.
func BuiltFrom() string {
	if Commit != "" {
		return Commit
	}
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}

// Options differ between the ways to run the program.
type Options struct {
	Log *slog.Logger
	// Listener is used instead of listening on the configured address.
	Listener net.Listener
	// Telemetry may be nil, which disables metrics.
	Telemetry *telemetry.Telemetry
	// Migrate migrates the database first.
	Migrate bool
}

// App is the program, wired.
type App struct {
	config Config
	// began is when the process was made, and stopping says that it was asked to end.
	began    time.Time
	stopping atomic.Bool
	log      *slog.Logger
	store    *store.Store
	chain    *chain.Chain
	// keys are nil until openSettlers.
	keys *Keys
	// relayer and facilitator are nil when nothing needs them.
	relayer     *chain.Relayer
	facilitator *facilitator.Facilitator
	// settlerUnknown says that too few nodes have told whether there is a contract for batches.
	settlerUnknown bool
	issuers        []issuerAt
	// suppliers are nil until they are dialled.
	suppliers []supplierAt
	runner    *job.Runner
	server    *edge.Server
	// operators is nil when the public listener serves their routes.
	operators *operatorListener
	// catchUp is nil in a process without a server.
	catchUp *reconcile.CatchUp
	// products are the products sold, and payments the checks that every sale depends on.
	products []Made
	payments *availability.Payments
	// board reports how the products stand; nil without a server.
	board   *availability.Board
	metrics *telemetry.Metrics
	unread  unread
	// page is nil when metrics are not served.
	page *metricsPage
	// console serves operators at consoleAt; both are nil without a console.
	console   *edge.Server
	consoleAt net.Listener
	close     closers
}

// New connects to all dependencies and wires the program. It does not serve yet.
func New(ctx context.Context, c Config, o Options) (_ *App, err error) {
	if err := armFaults(c.Environment, os.LookupEnv); err != nil {
		return nil, err
	}
	a := &App{config: c, log: o.Log, began: time.Now()}
	if o.Telemetry != nil {
		a.metrics = o.Telemetry.Metrics
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close.all())
		}
	}()
	if o.Migrate {
		if _, err := c.migrate(ctx, o.Log); err != nil {
			return nil, fmt.Errorf("migrate: %w", err)
		}
	}
	if err := a.openStore(ctx); err != nil {
		return nil, err
	}
	if err := a.dialChain(ctx); err != nil {
		return nil, err
	}
	if err := a.openSettlers(ctx); err != nil {
		return nil, err
	}
	if err := a.dialIssuers(); err != nil {
		return nil, err
	}
	if err := a.checkInUse(ctx); err != nil {
		return nil, err
	}
	if a.page, err = listenForMetrics(c.MetricsAddr, o.Telemetry, a.log); err != nil {
		return nil, err
	}
	if a.page != nil {
		a.close.add(a.page.close)
	}
	if err := a.listenForConsole(); err != nil {
		return nil, err
	}
	if err := a.wire(o.Listener); err != nil {
		return nil, err
	}
	// A reader may ask for gauges from here on, and they are of everything that is wired.
	if err := a.metrics.Observe(a.cachedGauges()); err != nil {
		return nil, err
	}
	return a, a.queueStarted(ctx)
}

func (a *App) openStore(ctx context.Context) (err error) {
	stored := a.config.StoreConfig()
	stored.Log = a.log
	a.store, err = store.Open(ctx, stored)
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	a.close.add(func() error { a.store.Close(); return nil })
	if err := a.store.CheckSchema(ctx); err != nil {
		return fmt.Errorf("check the schema (run roamcard migrate): %w", err)
	}
	return nil
}

func (a *App) dialChain(ctx context.Context) (err error) {
	cfg := a.config.chainConfig()
	cfg.Metrics = a.metrics
	if a.chain, err = chain.New(ctx, cfg); err != nil {
		return fmt.Errorf("dial the chain: %w", err)
	}
	a.close.add(func() error { a.chain.Close(); return nil })
	return nil
}

func (a *App) dialIssuers() (err error) {
	if a.issuers, err = a.config.dialIssuers(a.log, a.metrics); err != nil {
		return fmt.Errorf("dial the issuers: %w", err)
	}
	return nil
}

// Run runs server and worker until ctx ends, then, after the drain delay, drains both.
func (a *App) Run(ctx context.Context) error {
	asked := ctx
	serving, end := context.WithCancel(context.WithoutCancel(asked))
	defer end()
	group, ctx := errgroup.WithContext(serving)
	group.Go(func() error { a.awaitEnd(asked, ctx, end); return nil })
	// The worker outlives the server: draining requests still claim orders and wait for their settlement.
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error { return a.runner.Run(working) })
	group.Go(func() error {
		defer stop()
		if a.server != nil {
			return a.server.Serve(ctx)
		}
		<-ctx.Done()
		return nil
	})
	if a.settlerUnknown {
		group.Go(func() error { a.awaitSettler(ctx); return nil })
	}
	if a.catchUp != nil {
		group.Go(func() error { return a.catchUp.Run(ctx) })
	}
	if a.operators != nil {
		group.Go(func() error { return a.operators.Serve(ctx) })
	}
	if a.page != nil {
		group.Go(func() error { return a.page.serve(ctx) })
	}
	if a.console != nil {
		group.Go(func() error { return a.console.Serve(ctx) })
	}
	if a.server != nil {
		group.Go(func() error { a.payments.Watch(ctx); return nil })
		group.Go(func() error { a.board.Watch(ctx); return nil })
	}
	return group.Wait()
}

// awaitEnd ends the serving when it was asked to, or at once when a part of it has failed. In between, what sends the
// requests can see that this process is not ready any more, while all of them are still served.
func (a *App) awaitEnd(asked, serving context.Context, end func()) {
	defer end()
	select {
	case <-asked.Done():
	case <-serving.Done():
		return
	}
	a.stopping.Store(true)
	if a.server == nil || a.config.DrainDelay == 0 {
		return
	}
	a.server.Drain()
	a.log.Info("stopping", slog.Duration("drain_delay", a.config.DrainDelay))
	wait := time.NewTimer(a.config.DrainDelay)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-serving.Done():
	}
}

// Close closes everything that New opened.
func (a *App) Close() error { return a.close.all() }

func (c Config) domain() x402.Domain {
	return x402.Domain{Name: c.AssetName, Version: "2", ChainID: x402.ChainID, Contract: c.Asset}
}

// terms are the terms of every payment. A payer is asked to sign for two minutes; clients that always sign for an hour
// are accepted, too.
func (c Config) terms() payment.Terms {
	return payment.Terms{
		Network: x402.NetworkID, Asset: c.Asset, PayTo: c.PayTo, Domain: c.domain(),
		SmartAccountKinds: c.Fairness.SmartAccounts.Names(),
		MaxTimeout:        2 * time.Minute, Margin: payment.MinMargin,
		MaxValidity: cmp.Or(c.Fairness.MaxValidity, maxValidity),
	}
}

// closers close in reverse order.
type closers []func() error

func (c *closers) add(f func() error) { *c = append(*c, f) }

func (c *closers) all() error {
	var errs []error
	for i := len(*c) - 1; i >= 0; i-- {
		errs = append(errs, (*c)[i]())
	}
	return errors.Join(errs...)
}

func gwei(n int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), big.NewInt(1_000_000_000)) }
