package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/transport/edge"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	gaugeTTL     = 5 * time.Second
	gaugeTimeout = 3 * time.Second
	checkTimeout = 2 * time.Second
)

// cachedGauges caches gauge values for gaugeTTL, since several readers may ask for the same values.
func (a *App) cachedGauges() func(context.Context) telemetry.Gauges {
	memo := availability.NewMemo(availability.MemoConfig[telemetry.Gauges]{
		Read: func(ctx context.Context) (telemetry.Gauges, error) { return a.gauges(ctx, a.config.now()), nil },
		TTL:  gaugeTTL, Timeout: gaugeTimeout, Now: a.config.now,
	})
	return func(ctx context.Context) telemetry.Gauges {
		gauges, err := memo.Get(ctx)
		if err != nil { // the reader has disconnected
			return telemetry.Gauges{Asset: a.config.AssetName}
		}
		return gauges
	}
}

// unread are the gauges that could not be read the last time. The log says so once, and once when they are read again:
// they are read every few seconds, by several.
type unread struct {
	mu sync.Mutex
	of map[string]bool
}

func (u *unread) note(ctx context.Context, log *slog.Logger, gauge string, err error) {
	u.mu.Lock()
	before := u.of[gauge]
	if u.of == nil {
		u.of = map[string]bool{}
	}
	u.of[gauge] = err != nil
	u.mu.Unlock()
	switch {
	case err != nil && !before:
		log.WarnContext(ctx, "gauge not read", slog.String("gauge", gauge), slog.Any("error", err))
	case err == nil && before:
		log.InfoContext(ctx, "gauge read again", slog.String("gauge", gauge))
	}
}

// gauges reads all values concurrently. A value that cannot be read is left out: a missing value alerts, an old one
// misleads.
func (a *App) gauges(ctx context.Context, now time.Time) telemetry.Gauges {
	out := telemetry.Gauges{Asset: a.config.AssetName}
	var all sync.WaitGroup
	read := func(what string, fill func() error) {
		all.Go(func() { a.unread.note(ctx, a.log, what, fill()) })
	}
	read("jobs", func() error { return a.jobGauges(ctx, now, &out) })
	read("orders", func() error { return a.orderGauges(ctx, now, &out) })
	a.moneyGauges(ctx, read, &out)
	read("heads", func() error { out.HeadAges = a.chain.HeadAges(ctx); return nil })
	read("catalogue", func() (err error) { out.CatalogueAges, err = a.catalogueAges(ctx, now); return err })
	if a.server != nil {
		read("readiness", func() error { out.Checks = a.checkGauges(ctx); return nil })
	}
	read("books", func() error { return a.bookGauges(ctx, now, &out) })
	pool := a.store.PoolUse()
	out.Pool = &telemetry.PoolGauge{
		Used: pool.Used, Idle: pool.Idle, Max: pool.Max, Waits: pool.Waits, Waited: pool.Waited,
	}
	all.Wait()
	return out
}

// orderGauges reads the ages of the oldest orders.
func (a *App) orderGauges(ctx context.Context, now time.Time, out *telemetry.Gauges) error {
	oldest, err := a.store.Orders().Oldest(ctx)
	if err != nil {
		return err
	}
	for _, p := range a.products {
		age := time.Duration(0)
		if at, waiting := oldest[p.Kind()]; waiting {
			age = max(0, now.Sub(at))
		}
		out.Orders = append(out.Orders, telemetry.OrderGauge{Product: string(p.Kind()), Age: age})
	}
	return nil
}

// moneyGauges reads what there is to sell, to pay from and to pay gas with.
func (a *App) moneyGauges(ctx context.Context, read func(what string, fill func() error), out *telemetry.Gauges) {
	read("float", func() (errs error) {
		floats := map[string]int64{}
		for _, of := range a.issuers {
			stock, err := of.client.Stock(ctx)
			if err != nil {
				errs = errors.Join(errs, fmt.Errorf("%s: %w", of.Name, err))
				continue
			}
			floats[of.Name] = int64(stock.Float)
		}
		out.FloatCents = floats
		return errs
	})
	read("receivable", func() error {
		owed, err := a.store.Cards().Receivable(ctx)
		cents := int64(owed)
		return given(&out.ReceivableCents, &cents, err)
	})
	holdings := func(of x402.Address, gauge **int64) error {
		balance, err := a.chain.Balance(ctx, of)
		units := int64(balance)
		return given(gauge, &units, err)
	}
	read("balance", func() error { return holdings(a.config.PayTo, &out.BalanceUnits) })
	if of := a.keys.Treasury; of != nil {
		out.RefundTreasury = of.Address().String()
		read("treasury", func() error { return holdings(of.Address(), &out.RefundUnits) })
	}
	if a.relayer != nil {
		read("gas", func() error {
			balances, err := a.relayer.GasBalances(ctx)
			var open []x402.Address
			retired := addressesOf(a.keys.Retired)
			if len(retired) > 0 {
				var unread error
				if open, unread = a.store.Transactions().Relayers(ctx); unread != nil {
					open, err = retired, errors.Join(err, unread) // it may be any of them
				}
			}
			out.Gas = relayerGauges(balances, retired, open)
			return err
		})
	}
}

// relayerGauges are the gauges of relayers' ether. A retired one is shown while a transaction of it is open: with
// nothing left to do it needs no ether, and what it had was sent somewhere else.
func relayerGauges(balances map[x402.Address]*big.Int, retired, open []x402.Address) (all []telemetry.RelayerGauge) {
	for address, wei := range balances {
		gone := slices.Contains(retired, address)
		if gone && !slices.Contains(open, address) {
			continue
		}
		all = append(all, telemetry.RelayerGauge{
			Address: address.String(), Retired: gone, Gwei: new(big.Int).Div(wei, gwei(1)).Int64(),
		})
	}
	return all
}

func addressesOf(keys []payment.Signer) (all []x402.Address) {
	for _, key := range keys {
		all = append(all, key.Address())
	}
	return all
}

// given sets a gauge that was read.
func given[T any](gauge **T, value *T, err error) error {
	if err == nil {
		*gauge = value
	}
	return err
}

// jobGauges reads the gauges of jobs: by kind and state, by class, and those that wait for an operator by reason.
func (a *App) jobGauges(ctx context.Context, now time.Time, out *telemetry.Gauges) error {
	depths, err := a.store.Jobs().Depth(ctx)
	if err != nil {
		return err
	}
	type of struct {
		kind  job.Kind
		state job.Status
	}
	found, parked := map[of]telemetry.JobGauge{}, map[telemetry.ParkedGauge]int{}
	// Zero is reported, too, because an alert needs the series.
	for _, kind := range a.gaugedJobs() {
		for _, state := range []job.Status{job.Queued, job.OperatorReview} {
			found[of{kind, state}] = telemetry.JobGauge{Kind: string(kind), State: string(state)}
		}
		parked[telemetry.ParkedGauge{Kind: string(kind), Reason: parkedGaveUp}] = 0
		parked[telemetry.ParkedGauge{Kind: string(kind), Reason: parkedAsked}] = 0
	}
	out.ClassAges = map[string]time.Duration{}
	for _, class := range job.Classes() {
		out.ClassAges[string(class)] = 0
	}
	for _, d := range depths {
		age, at := max(0, now.Sub(d.Oldest)), of{d.Kind, d.Status}
		of := found[at]
		found[at] = telemetry.JobGauge{
			Kind: string(d.Kind), State: string(d.Status), Depth: of.Depth + d.Count, Age: max(of.Age, age),
		}
		switch {
		case d.Status == job.Queued:
			out.ClassAges[string(d.Class)] = max(out.ClassAges[string(d.Class)], age)
		case d.Status == job.OperatorReview && d.GaveUp:
			parked[telemetry.ParkedGauge{Kind: string(d.Kind), Reason: parkedGaveUp}] += d.Count
		case d.Status == job.OperatorReview:
			parked[telemetry.ParkedGauge{Kind: string(d.Kind), Reason: parkedAsked}] += d.Count
		}
	}
	out.Jobs = slices.Collect(maps.Values(found))
	for at, count := range parked {
		at.Count = count
		out.Parked = append(out.Parked, at)
	}
	return nil
}

// The reasons why jobs wait for an operator.
const (
	parkedGaveUp = "gave_up"
	parkedAsked  = "needs_decision"
)

// checkGauges runs the readiness checks of all products. One that does not end within checkTimeout does not hold.
func (a *App) checkGauges(ctx context.Context) []telemetry.CheckGauge {
	ctx, cancel := fault.Within(ctx, checkTimeout)
	defer cancel()
	of := make([][]telemetry.CheckGauge, len(a.products))
	var all sync.WaitGroup
	for i, p := range a.products {
		all.Go(func() {
			for _, c := range p.Availability().Ready(ctx) {
				of[i] = append(of[i], telemetry.CheckGauge{Product: string(p.Kind()), Check: c.Name, OK: c.Err == nil})
			}
		})
	}
	all.Wait()
	return slices.Concat(of...)
}

// gaugedJobs are the kinds of jobs that a buyer waits for.
func (a *App) gaugedJobs() []job.Kind {
	all := []job.Kind{settlement.Fulfilling, settlement.Confirming}
	for _, w := range a.productJobs() {
		if w.Args == nil {
			all = append(all, w.Kind)
		}
	}
	return all
}

// bookGauges reads the gauges of reconciliation.
func (a *App) bookGauges(ctx context.Context, now time.Time, out *telemetry.Gauges) error {
	books := a.store.Treasury(a.config.Asset, a.config.PayTo)
	at, _, err := books.Compared(ctx)
	if err != nil {
		return err
	}
	sums, err := books.Counts(ctx)
	if err != nil {
		return err
	}
	out.BooksAge = booksAge(at, a.began, now, a.config.ReconcileEvery)
	open := map[reconcile.Code]reconcile.Sum{}
	for _, s := range sums {
		open[s.Code] = s
	}
	for _, code := range reconcile.Codes() {
		out.Findings = append(out.Findings,
			telemetry.FindingGauge{Code: string(code), Open: open[code].Open, Blocking: open[code].Blocking})
	}
	return nil
}

// booksAge is the time since the last comparison of the books. Before the first one it is that since the process began,
// so that books which can never be compared grow old, too. It is nil where none is compared.
func booksAge(compared, began, now time.Time, every time.Duration) *time.Duration {
	if compared.IsZero() {
		if every == 0 {
			return nil
		}
		compared = began
	}
	age := max(0, now.Sub(compared))
	return &age
}

// metricsPage serves metrics on a listener of its own, because API callers must not see them.
type metricsPage struct {
	listener net.Listener
	server   *http.Server
}

func listenForMetrics(addr string, t *telemetry.Telemetry, log *slog.Logger) (*metricsPage, error) {
	if addr == "" || t == nil {
		return nil, nil
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", t.Page)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, ErrorLog: edge.ErrorLog(log),
	}
	return &metricsPage{listener, server}, nil
}

// MetricsURL is the URL of the metrics, or empty.
func (a *App) MetricsURL() string {
	if a.page == nil {
		return ""
	}
	return "http://" + a.page.listener.Addr().String() + "/metrics"
}

// serve serves the metrics until ctx ends.
func (m *metricsPage) serve(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- m.server.Serve(m.listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve metrics: %w", err)
	case <-ctx.Done():
	}
	err := m.server.Close()
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func (m *metricsPage) close() error {
	// Serving closes it too.
	if err := m.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the metrics listener: %w", err)
	}
	return nil
}
