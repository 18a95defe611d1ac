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

// cachedGauges caches gauge values for gaugeTTL, since several readers may ask for the same values.
func (a *App) cachedGauges() func(context.Context) telemetry.Gauges {
	memo := availability.NewMemo(availability.MemoConfig[telemetry.Gauges]{
		Read: func(ctx context.Context) (telemetry.Gauges, error) { return a.gauges(ctx, time.Now()), nil },
		TTL:  gaugeTTL, Timeout: gaugeTimeout, Now: time.Now,
	})
	return func(ctx context.Context) telemetry.Gauges {
		gauges, err := memo.Get(ctx)
		if err != nil { // the reader has disconnected
			return telemetry.Gauges{Asset: a.config.AssetName}
		}
		return gauges
	}
}

// gauges reads all values concurrently. A value that cannot be read is left out: a missing value alerts, an old one
// misleads.
func (a *App) gauges(ctx context.Context, now time.Time) telemetry.Gauges {
	out := telemetry.Gauges{Asset: a.config.AssetName}
	failed := func(what string, err error) {
		a.log.WarnContext(ctx, "gauge not read", slog.String("gauge", what), slog.Any("error", err))
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
		// Zero is reported, too, because an alert needs the series.
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
		floats := map[string]int64{}
		for _, of := range a.issuers {
			stock, err := of.client.Stock(ctx)
			if err != nil {
				failed("float of "+of.Name, err)
				continue
			}
			floats[of.Name] = int64(stock.Float)
		}
		out.FloatCents = floats
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

// metricsPage serves metrics on a listener of its own, because API callers must not see them.
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
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second}
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
