package store_test

import (
	"slices"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// TestStatementsAreInTheTrace of who asks, without their values, and not where nothing is recorded.
func TestStatementsAreInTheTrace(t *testing.T) {
	const secret = "ord_the-value-of-a-statement"
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(telemetry.Redacting(spans)))
	s, err := store.Open(t.Context(), store.Config{
		URL: storetest.URL(t), Products: storetest.Products(), Tracer: telemetry.SQL(provider),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Orders().Find(t.Context(), secret); err == nil {
		t.Fatal("there is such an order")
	}
	if got := spans.GetSpans(); len(got) != 0 {
		t.Errorf("%d spans of no trace, of %q first", len(got), got[0].Name)
	}
	ctx, request := provider.Tracer("test").Start(t.Context(), "request")
	_, _ = s.Orders().Find(ctx, secret)
	request.End()
	isSelect := func(s tracetest.SpanStub) bool { return strings.HasSuffix(s.Name, "SELECT") }
	at := slices.IndexFunc(spans.GetSpans(), isSelect)
	if at < 0 {
		t.Fatalf("no statement is in %v", spans.GetSpans())
	}
	selects, said := spans.GetSpans()[at], map[string]string{}
	for _, a := range selects.Attributes {
		said[string(a.Key)] = a.Value.String()
	}
	if selects.Parent.SpanID() != request.SpanContext().SpanID() || said["db.system.name"] != "postgresql" ||
		!strings.Contains(said["db.query.text"], "orders") {
		t.Errorf("below %s: %q, %v", selects.Parent.SpanID(), selects.Name, said)
	}
	for _, s := range spans.GetSpans() {
		for _, a := range s.Attributes {
			if strings.Contains(a.Value.String(), secret) {
				t.Errorf("%s has the value in %s", s.Name, a.Key)
			}
		}
	}
}
