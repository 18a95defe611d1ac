package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/telemetry"
)

const (
	gaugeTTL     = 5 * time.Second
	gaugeTimeout = 3 * time.Second
)

// cachedGauges caches the gauges for levelsTTL: several readers may ask for the same numbers.
func (a *App) cachedGauges() func(context.Context) telemetry.Gauges {
	memo := availability.NewMemo(availability.MemoConfig[telemetry.Gauges]{
		Read: func(ctx context.Context) (telemetry.Gauges, error) { return a.gauges(ctx, time.Now()), nil },
		TTL:  gaugeTTL, Timeout: gaugeTimeout, Now: time.Now,
	})
	return func(ctx context.Context) telemetry.Gauges {
		levels, err := memo.Get(ctx)
		if err != nil { // the reader has left
			return telemetry.Gauges{Asset: a.config.AssetName}
		}
		return levels
	}
}

// gauges asks everything at once. What does not answer is left out: a missing number is an alert, an old
// one is a lie.
func (a *App) gauges(ctx context.Context, now time.Time) telemetry.Gauges {
	out := telemetry.Gauges{Asset: a.config.AssetName}
	failed := func(what string, err error) {
		a.log.WarnContext(ctx, "a level cannot be read", slog.String("level", what), slog.Any("error", err))
	}
	var all sync.WaitGroup
	all.Go(func() {
		depths, err := a.store.Jobs().Depth(ctx)
		if err != nil {
			failed("jobs", err)
		}
		seen := map[job.Kind]map[job.Status]bool{}
		for _, d := range depths {
			if seen[d.Kind] == nil {
				seen[d.Kind] = map[job.Status]bool{}
			}
			seen[d.Kind][d.Status] = true
			out.Jobs = append(out.Jobs,
				telemetry.JobGauge{Kind: string(d.Kind), State: string(d.Status), Depth: d.Count, Age: max(0, now.Sub(d.Oldest))})
		}
		if err != nil {
			return
		}
		// None is a number too: a series that is not there cannot rise.
		for _, kind := range a.gaugedJobs() {
			for _, status := range []job.Status{job.Queued, job.OperatorReview} {
				if !seen[kind][status] {
					out.Jobs = append(out.Jobs, telemetry.JobGauge{Kind: string(kind), State: string(status)})
				}
			}
		}
	})
	all.Go(func() {
		oldest, err := a.store.Orders().Oldest(ctx)
		if err != nil {
			failed("orders", err)
			return
		}
		for _, p := range a.products {
			age := time.Duration(0)
			if at, waiting := oldest[p.Kind()]; waiting {
				age = max(0, now.Sub(at))
			}
			out.Orders = append(out.Orders, telemetry.OrderGauge{Product: string(p.Kind()), Age: age})
		}
	})
	all.Go(func() {
		stock, err := a.issuer.Stock(ctx)
		if err != nil {
			failed("float", err)
			return
		}
		cents := int64(stock.Float)
		out.FloatCents = &cents
	})
	all.Go(func() {
		owed, err := a.store.Cards().Receivable(ctx)
		if err != nil {
			failed("receivable", err)
			return
		}
		cents := int64(owed)
		out.ReceivableCents = &cents
	})
	all.Go(func() {
		balance, err := a.chain.Balance(ctx, a.config.PayTo)
		if err != nil {
			failed("balance", err)
			return
		}
		units := int64(balance)
		out.BalanceUnits = &units
	})
	all.Go(func() {
		if err := a.bookGauges(ctx, now, &out); err != nil {
			failed("books", err)
		}
	})
	all.Wait()
	return out
}

// gaugedJobs are the kinds of jobs that somebody waits for.
func (a *App) gaugedJobs() []job.Kind {
	all := []job.Kind{settlement.Fulfilling, settlement.Confirming}
	for _, w := range a.productJobs() {
		if w.Args == nil {
			all = append(all, w.Kind)
		}
	}
	return all
}

// bookGauges tells how the books stand.
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
	if !at.IsZero() {
		age := max(0, now.Sub(at))
		out.BooksAge = &age
	}
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

// metricsPage is the listener for Prometheus, apart from the API: what it shows is no caller's business.
type metricsPage struct {
	listener net.Listener
	server   *http.Server
}

func listenForMetrics(addr string, t *telemetry.Telemetry) (*metricsPage, error) {
	if addr == "" || t == nil {
		return nil, nil
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", t.Page)
	return &metricsPage{listener,
		&http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second}}, nil
}

// MetricsURL is where metrics are shown, or empty.
func (a *App) MetricsURL() string {
	if a.page == nil {
		return ""
	}
	return "http://" + a.page.listener.Addr().String() + "/metrics"
}

// serve shows the metrics until ctx ends.
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
