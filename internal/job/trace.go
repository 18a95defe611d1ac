package job

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
)

// Traceparent is the W3C form of ctx's span, kept with a job so that its attempts join the trace.
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get("traceparent")
}

func withTraceparent(ctx context.Context, traceparent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}
