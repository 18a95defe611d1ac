package edge

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"

	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
	"github.com/roamcard/roamcard/internal/limit"
)

func limited(rates limit.Rates) func(*Config) {
	return func(cfg *Config) { cfg.Limits = limit.New(rates, time.Now) }
}

func TestThrottleTellsWhenToRetry(t *testing.T) {
	for _, target := range []string{purchase, roamcardv1connect.CardServicePurchaseCardProcedure} {
		proves := false
		asked := func(ctx context.Context) error {
			if proves {
				limit.NotUnpaid(ctx)
			}
			return unpaid(ctx)
		}
		e := start(t, &shop{purchase: asked}, limited(limit.Rates{limit.Unpaid: {Count: 2, Per: time.Hour}}))
		for left := range 2 {
			w := e.ask(t, "POST", target, key, "Content-Type", "application/json")
			if w.Code != 402 || w.Header().Get("RateLimit-Limit") != "2" ||
				w.Header().Get("RateLimit-Remaining") != []string{"1", "0"}[left] {
				t.Fatalf("%s: %d %v", target, w.Code, w.Header())
			}
		}
		w := e.ask(t, "POST", target, key, "Content-Type", "application/json", "Origin", "https://shop.example",
			"X-Request-Id", "r1")
		h := w.Header()
		if w.Code != 429 || !strings.Contains(w.Body.String(), `"rate_limited"`) || h.Get("Retry-After") != "1800" ||
			h.Get("RateLimit-Remaining") != "0" ||
			h.Get("RateLimit-Reset") != "3600" || h.Get("Access-Control-Allow-Origin") != "*" ||
			h.Get("X-Request-Id") != "r1" || h.Get("Cache-Control") == "" {
			t.Errorf("%s: %d %s %v", target, w.Code, w.Body, h)
		}
		if w := e.ask(t, "GET", "/api/card/discovery", nil); w.Code == 429 {
			t.Errorf("%s: another class is refused too", target)
		}
		for _, proves = range []bool{false, true, false} {
			w = e.ask(t, "POST", target, key, "Content-Type", "application/json", "PAYMENT-SIGNATURE", "x")
			if refused := w.Code == 429; refused == proves {
				t.Errorf("%s: a payment that proves something (%t): %d", target, proves, w.Code)
			}
		}
		for _, bad := range [][]string{{"PAYMENT-SIGNATURE", "x", "PAYMENT-SIGNATURE", "y"},
			{"PAYMENT-SIGNATURE", strings.Repeat("x", 17<<10)}} {
			w = e.ask(t, "POST", target, key, append(bad, "Content-Type", "application/json")...)
			if w.Code != 429 {
				t.Errorf("%s: a malformed payment header: %d", target, w.Code)
			}
		}
	}
}

func TestThrottleCountsEveryProtocol(t *testing.T) {
	e := start(t, &shop{}, limited(limit.Rates{limit.Unpaid: {Count: 1, Per: time.Hour}}))
	e.ask(t, "POST", purchase, key, "Content-Type", "application/json")
	spend := &http.Client{}
	// The clients' address is loopback, that of the request above is httptest's.
	res, err := spend.Post(e.url+purchase, "application/json", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	for name, client := range e.clients(t) {
		ctx, call := connect.NewClientContext(t.Context())
		_, err := client.PurchaseCard(ctx, buy)
		connectErr, p := problem(t, err)
		if connectErr.Code() != connect.CodeResourceExhausted || p.GetCode() != "rate_limited" ||
			told(call, "Retry-After") == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestThrottleCountsByClientAddress(t *testing.T) {
	e := start(t, &shop{}, func(cfg *Config) {
		cfg.Limits = limit.New(limit.Rates{limit.Unpaid: {Count: 1, Per: time.Hour}}, time.Now)
		// httptest's requests come from there.
		cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	})
	for _, c := range []struct {
		forwarded string
		status    int
	}{{"198.51.100.1", 200}, {"198.51.100.1", 429}, {"203.0.113.9, 198.51.100.1", 429}, {"198.51.100.2", 200}} {
		if w := e.ask(t, "POST", purchase, key, "Content-Type", "application/json", "X-Forwarded-For",
			c.forwarded); w.Code != c.status {
			t.Errorf("%s: %d, want %d", c.forwarded, w.Code, c.status)
		}
	}
}

func TestThrottleUsesRatesOfRawHandlers(t *testing.T) {
	e := start(t, &shop{}, func(cfg *Config) {
		cfg.Limits = limit.New(limit.Rates{limit.MCP: {Count: 1, Per: time.Hour}}, time.Now)
		cfg.Raw = map[string]http.Handler{"POST /tools": http.NotFoundHandler(), "GET /page": http.NotFoundHandler()}
		cfg.Rates = map[string]limit.Class{"POST /tools": limit.MCP}
	})
	for i, want := range []int{404, 429} {
		if w := e.ask(t, "POST", "/tools", nil); w.Code != want {
			t.Errorf("call %d: %d, want %d", i+1, w.Code, want)
		}
		if w := e.ask(t, "GET", "/page", nil); w.Code != 404 {
			t.Errorf("a page: %d", w.Code)
		}
	}
}
