package edge

import (
	"fmt"
	"net/http"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// TestOddRequestsMakeFewSeries sends each route and procedure each method, with bodies and headers that they do not
// take.
// What is refused is a series for each status and code; only answers have one for each route.
func TestOddRequestsMakeFewSeries(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	metrics, err := telemetry.NewMetrics(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	if err != nil {
		t.Fatal(err)
	}
	e := start(t, &shop{}, func(cfg *Config) {
		cfg.Metrics = metrics
		cfg.Raw = map[string]http.Handler{
			"GET /page": http.NotFoundHandler(), "POST /tool": http.NotFoundHandler(), "/any/{thing}": http.NotFoundHandler(),
		}
	})
	// Each of them has requests that are answered.
	for _, r := range [][2]string{{"POST", purchase}, {"POST", roamcardv1connect.CardServicePurchaseCardProcedure}} {
		if w := e.ask(t, r[0], r[1], key, "Content-Type", "application/json"); w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", r[1], w.Code, w.Body)
		}
	}
	paths := []string{
		purchase, "/api/cards/1/balance", "/api/cards", "/api/card/topup", "/page", "/tool", "/any/1", "/", "/nope", "//nope",
		roamcardv1connect.CardServicePurchaseCardProcedure, roamcardv1connect.CardServiceListCardsProcedure,
		roamcardv1connect.CardServiceGetCardBalanceProcedure, "/roamcard.v1.CardService/Nope", "/roamcard.v1.CardService",
		"/grpc.health.v1.Health/Check", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
	}
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"}
	sent := 0
	for n := range 4 {
		for _, path := range paths {
			for _, method := range methods {
				for _, kind := range []string{"application/json", "application/x-" + fmt.Sprint(n), "application/grpc", ""} {
					for _, body := range []string{"", "{", `{"no":1}`} {
						e.ask(t, method, fmt.Sprintf("%s?n=%d", path, n), []byte(body), "Content-Type", kind, "X-Odd", body)
						sent++
					}
				}
			}
		}
	}
	var page metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &page); err != nil {
		t.Fatal(err)
	}
	series := map[string]int{}
	for _, scope := range page.ScopeMetrics {
		for _, m := range scope.Metrics {
			if h, ok := m.Data.(metricdata.Histogram[float64]); ok {
				for _, p := range h.DataPoints {
					series[m.Name]++
					t.Log(m.Name, p.Attributes.Encoded(attribute.DefaultEncoder()))
				}
			}
		}
	}
	if n := series["http.server.request.duration"]; n == 0 || n > 14 {
		t.Errorf("%d requests made %d series of requests", sent, n)
	}
	if n := series["rpc.server.call.duration"]; n == 0 || n > 10 {
		t.Errorf("%d requests made %d series of calls", sent, n)
	}
}
