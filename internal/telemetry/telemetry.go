package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/contrib/instrumentation/runtime"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"

	"github.com/roamcard/roamcard/internal/outward"
)

// Telemetry exports what the program reports about itself: metrics on a page, and traces, metrics and logs to a
// collector if one is configured.
type Telemetry struct {
	Metrics *Metrics
	// Page shows the metrics to Prometheus.
	Page http.Handler
	logs *sdklog.LoggerProvider
	rule outward.Rule
	stop []func(context.Context) error
}

// Start makes the metrics, and exports by OTLP over HTTP the signals that have an endpoint:
// OTEL_EXPORTER_OTLP_ENDPOINT, or its variants for TRACES, METRICS and LOGS. The other standard OTEL_ variables apply.
// A slow or missing collector never delays the program: what it does not accept is dropped. Stop sends what is queued.
// The rule says whether the collector may be sent to without TLS.
func Start(ctx context.Context, service, version string, rule outward.Rule) (_ *Telemetry, err error) {
	otel.SetTextMapPropagator(propagation.TraceContext{})
	t := &Telemetry{Page: http.NotFoundHandler(), rule: rule}
	if os.Getenv("OTEL_SDK_DISABLED") == "true" {
		return t, nil
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Stop(ctx))
		}
	}()
	res, err := resource.Merge(resource.Default(),
		resource.NewSchemaless(semconv.ServiceName(cmp.Or(os.Getenv("OTEL_SERVICE_NAME"), service)),
			semconv.ServiceVersion(version)))
	if err != nil {
		return nil, fmt.Errorf("describe the service: %w", err)
	}
	for _, start := range []func(context.Context, *resource.Resource) error{t.startTraces, t.startMetrics, t.startLogs} {
		if err := start(ctx, res); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// exported reports whether a signal has an endpoint: TRACES, METRICS or LOGS.
func exported(signal string) bool {
	return os.Getenv("OTEL_"+signal+"_EXPORTER") != "none" &&
		cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT")) != ""
}

func (t *Telemetry) startTraces(ctx context.Context, res *resource.Resource) error {
	opts := []sdktrace.TracerProviderOption{sdktrace.WithResource(res)}
	if exported("TRACES") {
		client, err := t.collector("TRACES")
		if err != nil {
			return err
		}
		exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithHTTPClient(client))
		if err != nil {
			return fmt.Errorf("make the trace exporter: %w", err)
		}
		opts = append(opts, sdktrace.WithBatcher(Redacting(exporter)))
	} else {
		// Log records name their spans anyway; spans that are not exported are not kept.
		opts = append(opts, sdktrace.WithSampler(sdktrace.NeverSample()))
	}
	provider := sdktrace.NewTracerProvider(opts...)
	otel.SetTracerProvider(provider)
	t.stop = append(t.stop, provider.Shutdown)
	return nil
}

// goroutines has the name that Prometheus' own client gives it: _count ends a histogram's series.
var goroutines = sdkmetric.NewView(sdkmetric.Instrument{Name: "go.goroutine.count"}, sdkmetric.Stream{
	Name: "go.goroutines",
})

func (t *Telemetry) startMetrics(ctx context.Context, res *resource.Resource) error {
	registry := prometheus.NewRegistry()
	page, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
	if err != nil {
		return fmt.Errorf("make the metrics page: %w", err)
	}
	opts := []sdkmetric.Option{sdkmetric.WithResource(res), sdkmetric.WithReader(page), sdkmetric.WithView(goroutines)}
	if exported("METRICS") {
		client, err := t.collector("METRICS")
		if err != nil {
			return err
		}
		exporter, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithHTTPClient(client))
		if err != nil {
			return fmt.Errorf("make the metrics exporter: %w", err)
		}
		opts = append(opts, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter)))
	}
	provider := sdkmetric.NewMeterProvider(opts...)
	t.stop = append(t.stop, provider.Shutdown)
	if err := runtime.Start(runtime.WithMeterProvider(provider)); err != nil {
		return fmt.Errorf("watch the runtime: %w", err)
	}
	// OpenMetrics, for those who ask for it, has exemplars: the traces of single payments.
	t.Page = promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, EnableOpenMetrics: true,
	})
	t.Metrics, err = NewMetrics(provider)
	return err
}

func (t *Telemetry) startLogs(ctx context.Context, res *resource.Resource) error {
	if !exported("LOGS") {
		return nil
	}
	client, err := t.collector("LOGS")
	if err != nil {
		return err
	}
	exporter, err := otlploghttp.New(ctx, otlploghttp.WithHTTPClient(client))
	if err != nil {
		return fmt.Errorf("make the log exporter: %w", err)
	}
	t.logs = sdklog.NewLoggerProvider(sdklog.WithResource(res), sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter)))
	t.stop = append(t.stop, t.logs.Shutdown)
	return nil
}

// Logger writes to log and, when a collector takes logs, to it too.
func (t *Telemetry) Logger(log *slog.Logger) *slog.Logger {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("telemetry not exported", slog.Any("error", err))
	}))
	if t.logs == nil {
		return log
	}
	out := otelslog.NewHandler("github.com/roamcard/roamcard", otelslog.WithLoggerProvider(t.logs))
	return slog.New(both{log.Handler(), correlated{out}})
}

// Stop sends what is queued and ends the exports.
func (t *Telemetry) Stop(ctx context.Context) error {
	var errs []error
	for _, stop := range t.stop {
		errs = append(errs, stop(ctx))
	}
	return errors.Join(errs...)
}

// both writes records to two handlers; the first one's level holds for both.
type both struct{ first, second slog.Handler }

// Enabled implements slog.Handler.
func (b both) Enabled(ctx context.Context, level slog.Level) bool { return b.first.Enabled(ctx, level) }

// Handle implements slog.Handler.
func (b both) Handle(ctx context.Context, r slog.Record) error {
	return errors.Join(b.first.Handle(ctx, r.Clone()), b.second.Handle(ctx, r.Clone()))
}

// WithAttrs implements slog.Handler.
func (b both) WithAttrs(attrs []slog.Attr) slog.Handler {
	return both{b.first.WithAttrs(attrs), b.second.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (b both) WithGroup(name string) slog.Handler {
	return both{b.first.WithGroup(name), b.second.WithGroup(name)}
}
