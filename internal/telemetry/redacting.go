package telemetry

import (
	"context"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Redacting exports spans with known attributes only. It drops attributes that a library or a later change adds until
// they are listed here, and the texts of errors, which may quote secrets.
func Redacting(inner sdktrace.SpanExporter) sdktrace.SpanExporter { return redacting{inner} }

type redacting struct{ sdktrace.SpanExporter }

// ExportSpans implements sdktrace.SpanExporter.
func (d redacting) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	shown := make([]sdktrace.ReadOnlySpan, len(spans))
	for i, s := range spans {
		shown[i] = shownSpan{s}
	}
	return d.SpanExporter.ExportSpans(ctx, shown)
}

// Attributes that spans go out with: whole names, and prefixes that end in a dot.
var shownAttributes = []string{
	"http.request.method", "http.route", "http.response.status_code", "url.template", "network.protocol.name",
	"network.protocol.version",
	"rpc.method", "rpc.service", "rpc.system", "rpc.system.name", "rpc.response.status_code", "rpc.connect_rpc.error_code",
	"error.type", "exception.type",
	"db.system.name", "db.operation.name", "db.query.text",
	"order.id", "order.kind", "job.", "issuer.refusal", "facilitator.outcome", "facilitator.reason",
}

func isShown(a attribute.KeyValue) bool {
	return slices.ContainsFunc(shownAttributes, func(name string) bool {
		return string(a.Key) == name || (strings.HasSuffix(name, ".") && strings.HasPrefix(string(a.Key), name))
	})
}

func only(all []attribute.KeyValue) []attribute.KeyValue {
	return slices.DeleteFunc(slices.Clone(all), func(a attribute.KeyValue) bool { return !isShown(a) })
}

// shownSpan is the part of a span that may be seen.
type shownSpan struct{ sdktrace.ReadOnlySpan }

// Attributes implements sdktrace.ReadOnlySpan.
func (s shownSpan) Attributes() []attribute.KeyValue { return only(s.ReadOnlySpan.Attributes()) }

// Events implements sdktrace.ReadOnlySpan.
func (s shownSpan) Events() []sdktrace.Event {
	events := slices.Clone(s.ReadOnlySpan.Events())
	for i := range events {
		events[i].Attributes = only(events[i].Attributes)
	}
	return events
}

// Status implements sdktrace.ReadOnlySpan.
func (s shownSpan) Status() sdktrace.Status {
	return sdktrace.Status{Code: s.ReadOnlySpan.Status().Code}
}
