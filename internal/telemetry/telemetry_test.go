package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/secret"
)

// collector keeps what is sent to it, by path.
type collector struct {
	mu   sync.Mutex
	sent map[string]*bytes.Buffer
}

// ServeHTTP implements http.Handler.
func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(r.Body) // a bad body is an empty one, which the test notices
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent[r.URL.Path] == nil {
		c.sent[r.URL.Path] = &bytes.Buffer{}
	}
	_, _ = c.sent[r.URL.Path].ReadFrom(body)
}

func (c *collector) at(path string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent[path] == nil {
		return ""
	}
	return c.sent[path].String()
}

// emit makes one trace, metric and log record.
func emit(t *testing.T, out *Telemetry) {
	t.Helper()
	ctx, span := otel.Tracer("test").Start(WithRequestID(t.Context(), "request-1"), "a step", trace.WithAttributes(
		attribute.String("http.route", "/api/cards/{id}"), attribute.String("job.kind", "fulfill"), attribute.String("wallet",
			"0xCanary")))
	span.RecordError(errors.New("quotes canary text"))
	span.SetStatus(codes.Error, "canary status")
	out.Logger(slog.New(slog.DiscardHandler)).InfoContext(ctx, "not written, so not sent")
	out.Logger(NewLogger(io.Discard, slog.LevelInfo, true)).InfoContext(ctx, "something happened", "token",
		secret.New("canary secret"), "order", "ord_1")
	out.Metrics.Settled(ctx, "card_issue", "paid")
	span.End()
	if err := out.Stop(context.WithoutCancel(ctx)); err != nil {
		t.Error(err)
	}
}

func TestCollectorGetsTracesMetricsAndLogs(t *testing.T) {
	c := &collector{sent: map[string]*bytes.Buffer{}}
	server := httptest.NewServer(c)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_SERVICE_NAME", "named-by-the-operator")
	out, err := Start(t.Context(), "roamcard", "1.2.3", outward.Rule{})
	if err != nil {
		t.Fatal(err)
	}
	emit(t, out)
	for path, wants := range map[string][]string{
		"/v1/traces":  {"a step", "/api/cards/{id}", "job.kind", "named-by-the-operator", "1.2.3"},
		"/v1/metrics": {"payment.settlements", "card_issue"},
		"/v1/logs":    {"something happened", "ord_1", "request-1", secret.Redacted},
	} {
		got := c.at(path)
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s lacks %q", path, want)
			}
		}
		if strings.Contains(strings.ToLower(got), "canary") {
			t.Errorf("%s shows what nobody meant to show", path)
		}
		if strings.Contains(got, "not written") {
			t.Errorf("%s has what the log's level leaves out", path)
		}
	}
}

func TestSignalsAreExportedOnlyToAnEndpoint(t *testing.T) {
	c := &collector{sent: map[string]*bytes.Buffer{}}
	server := httptest.NewServer(c)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", server.URL+"/v1/traces")
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", server.URL+"/v1/metrics")
	t.Setenv("OTEL_METRICS_EXPORTER", "none")
	out, err := Start(t.Context(), "roamcard", "1.2.3", outward.Rule{})
	if err != nil {
		t.Fatal(err)
	}
	emit(t, out)
	if c.at("/v1/traces") == "" || c.at("/v1/metrics")+c.at("/v1/logs") != "" {
		t.Errorf("sent: %d, %d, %d bytes", len(c.at("/v1/traces")), len(c.at("/v1/metrics")), len(c.at("/v1/logs")))
	}
}

// TestDeadCollectorDelaysNothing reports more than is queued to a collector that answers when all is reported.
func TestDeadCollectorDelaysNothing(t *testing.T) {
	reported := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-reported }))
	defer server.Close()
	done := sync.OnceFunc(func() { close(reported) })
	defer done()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600000") // an hour, in which nothing gives up
	out, err := Start(t.Context(), "roamcard", "1.2.3", outward.Rule{})
	if err != nil {
		t.Fatal(err)
	}
	log := out.Logger(NewLogger(io.Discard, slog.LevelInfo, true))
	for range 5_000 {
		_, span := otel.Tracer("test").Start(t.Context(), "a step")
		span.End()
		log.Info("a line")
		out.Metrics.Replayed(t.Context(), "card_issue")
	}
	done()
	if err := out.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTelemetryCanBeTurnedOff(t *testing.T) {
	t.Setenv("OTEL_SDK_DISABLED", "true")
	out, err := Start(t.Context(), "roamcard", "1.2.3", outward.Rule{})
	if err != nil {
		t.Fatal(err)
	}
	if out.Metrics != nil {
		t.Error("something is counted")
	}
	out.Metrics.Settled(t.Context(), "card_issue", "paid")
	if err := out.Metrics.Observe(nil); err != nil {
		t.Error(err)
	}
	w := httptest.NewRecorder()
	out.Page.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if w.Code != 404 {
		t.Errorf("the page answers %d", w.Code)
	}
}

// The test counts one of everything and lints the page as `promtool check metrics` does.
func TestMetricsPassPromtool(t *testing.T) {
	out, err := Start(t.Context(), "roamcard", "1", outward.Rule{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Stop(context.WithoutCancel(t.Context())) })
	ctx, m, one, age := t.Context(), out.Metrics, int64(1), time.Second
	m.Challenged(ctx, "esim")
	m.Replayed(ctx, "esim")
	m.Settled(ctx, "esim", "paid")
	m.Moved(ctx, "esim", "settling", "paid")
	m.Attempted(ctx, "fulfill", "done")
	m.SignIn(ctx, "issued")
	m.Revealed(ctx, "shown")
	m.Event(ctx, "accepted")
	m.Limited(ctx, "poll")
	m.Sent(ctx, "closed", 1e9)
	m.Unaffordable(ctx, "payer")
	m.NodeAnswered(ctx, "1", "ok")
	m.Served(ctx, Request{
		Method: "GET", Route: "/health", Status: 200, Call: Call{Procedure: "/roamcard.v1.RuntimeService/GetHealth"},
		Took: age,
	})
	m.Asked(ctx, "issuer", "load", "ok", age)
	m.Waited(ctx, "delivered", age)
	m.Proven(ctx, "esim", age)
	m.Ended(ctx, "esim", "fulfilled", age)
	m.Cost(ctx, 1e12)
	if err := m.Observe(func(context.Context) Gauges {
		return Gauges{
			Jobs: []JobGauge{{"fulfill", "ready", 1, age}}, Orders: []OrderGauge{{"esim", age}},
			Findings:   []FindingGauge{{"lost", 1, 1}},
			FloatCents: map[string]int64{"acme": 1}, BalanceUnits: &one, ReceivableCents: &one, Asset: "USD Coin",
			BooksAge: &age, RefundUnits: &one, Gas: []RelayerGauge{{"0x1", false, 1}},
			ClassAges: map[string]time.Duration{"settle": age}, Parked: []ParkedGauge{{"fulfill", "gave_up", 1}},
			HeadAges: map[string]time.Duration{"1": age}, CatalogueAges: map[string]time.Duration{"acme": age},
			Checks: []CheckGauge{{"esim", "chain", true}}, Pool: &PoolGauge{1, 1, 2, 1, age},
		}
	}); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	out.Page.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/metrics", nil))
	page := w.Body.String()
	// Every instrument of ours is on the page: 15 counters, 7 histograms, 17 gauges.
	ours := 0
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "# TYPE ") && !strings.HasPrefix(line, "# TYPE go_") &&
			!strings.HasPrefix(line, "# TYPE target_info ") {
			ours++
		}
	}
	if ours != 39 || !strings.Contains(page, "\ngo_goroutines ") {
		t.Errorf("%d instruments of ours on the page:\n%s", ours, page)
	}
	problems, err := promlint.New(strings.NewReader(page)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestCountersOfAlertsBeginAtZero: one that appears with its first count has not increased.
func TestCountersOfAlertsBeginAtZero(t *testing.T) {
	out, err := Start(t.Context(), "roamcard", "1", outward.Rule{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Stop(context.WithoutCancel(t.Context())) })
	out.Metrics.BeginProduct("esim")
	out.Metrics.BeginNode("2", "forked")
	w := httptest.NewRecorder()
	out.Page.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	for _, line := range []string{
		`payment_settlements_total{outcome="unknown",product="esim"} 0`,
		`chain_node_answers_total{node="2",outcome="forked"} 0`, `relayer_budget_exceeded_total{budget="hour"} 0`,
		`auth_challenges_total{outcome="refused"} 0`, `reveal_attempts_total{outcome="refused"} 0`,
	} {
		if !strings.Contains(w.Body.String(), "\n"+line+"\n") {
			t.Errorf("%s is not shown", line)
		}
	}
	var none *Metrics
	none.BeginProduct("esim")
	none.BeginNode("1", "forked")
}

// TestRefusalsAreOneSeriesEach, whatever route, method and procedure they were at.
func TestRefusalsAreOneSeriesEach(t *testing.T) {
	out, err := Start(t.Context(), "roamcard", "1", outward.Rule{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Stop(context.WithoutCancel(t.Context())) })
	serve := func(status int, code, problem string) {
		for _, route := range []string{"/a", "/b", ""} {
			for _, method := range []string{"GET", "PUT", "_OTHER"} {
				out.Metrics.Served(t.Context(), Request{Method: method, Route: route, Status: status, Call: Call{
					Procedure: "/roamcard.v1.Service" + route + "/Get", Code: code, Problem: problem,
				}})
			}
		}
	}
	serve(404, "unimplemented", "route_not_found")
	serve(405, "unimplemented", "method_not_allowed")
	serve(400, "invalid_argument", "schema_invalid")
	serve(401, "unauthenticated", "session_invalid")
	w := httptest.NewRecorder()
	out.Page.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	series := map[string]int{}
	for line := range strings.Lines(w.Body.String()) {
		if name, _, ok := strings.Cut(line, "_count{"); ok {
			series[name]++
		}
	}
	// Of the calls that are known, each procedure has its own.
	if series["http_server_request_duration_seconds"] != 4 || series["rpc_server_call_duration_seconds"] != 3+3 {
		t.Errorf("%v series:\n%s", series, w.Body)
	}
}

func TestExemplarNamesTheTraceOfAPayment(t *testing.T) {
	server := httptest.NewServer(&collector{sent: map[string]*bytes.Buffer{}})
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", server.URL+"/v1/traces")
	page := func(out *Telemetry) string {
		ctx, span := otel.Tracer("test").Start(t.Context(), "a payment")
		defer span.End()
		out.Metrics.Proven(ctx, "esim", time.Second)
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil)
		r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
		w := httptest.NewRecorder()
		out.Page.ServeHTTP(w, r)
		return w.Body.String()
	}
	for _, traced := range []bool{true, false} {
		if !traced {
			t.Setenv("OTEL_TRACES_EXPORTER", "none")
		}
		out, err := Start(t.Context(), "roamcard", "1", outward.Rule{})
		if err != nil {
			t.Fatal(err)
		}
		got := page(out)
		if !strings.Contains(got, `order_settlement_duration_seconds_bucket{product="esim",le="1.0"} 1`) {
			t.Errorf("the payment is not counted:\n%s", got)
		}
		if strings.Contains(got, `} 1 # {`) != traced || strings.Contains(got, `trace_id="`) != traced {
			t.Errorf("with traces %t, the page is\n%s", traced, got)
		}
		if err := out.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
}
