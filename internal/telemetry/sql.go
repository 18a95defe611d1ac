package telemetry

import (
	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
)

// SQL makes a span of each statement and each wait for a connection, in traces that are recorded. It has the text of
// the statement, which holds no values.
func SQL(provider trace.TracerProvider) pgx.QueryTracer {
	return otelpgx.NewTracer(otelpgx.WithTracerProvider(provider), otelpgx.WithMeterProvider(noop.NewMeterProvider()),
		otelpgx.WithDisableConnectionDetailsInAttributes())
}
