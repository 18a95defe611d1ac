package edge

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/x402"
)

const purchase = "/api/card/purchase"

var key = []byte(`{"idempotencyKey":"k"}`)

func TestEveryAnswerHasRequestID(t *testing.T) {
	e := start(t, &shop{purchase: unpaid}, nil)
	for _, c := range []struct {
		method, target string
		headers        []string
	}{
		{"POST", purchase, []string{"Content-Type", "application/json"}},
		{"POST", roamcardv1connect.CardServicePurchaseCardProcedure, []string{"Content-Type", "application/json"}},
		{"GET", "/nope", nil},
		{"OPTIONS", purchase, []string{"Origin", "https://shop.example", "Access-Control-Request-Method", "POST"}},
	} {
		w := e.ask(t, c.method, c.target, key, append(c.headers, "X-Request-Id", "caller-1")...)
		if got := w.Header().Get("X-Request-Id"); got != "caller-1" {
			t.Errorf("%s %s: the caller's id became %q", c.method, c.target, got)
		}
		if strings.Contains(w.Header().Get("Content-Type"), "problem") &&
			!strings.Contains(w.Body.String(), `"requestId":"caller-1"`) {
			t.Errorf("%s %s: %s", c.method, c.target, w.Body)
		}
		w = e.ask(t, c.method, c.target, key, append(c.headers, "X-Request-Id", "bad id")...)
		if got := w.Header().Get("X-Request-Id"); len(got) != 36 {
			t.Errorf("%s %s: a bad id became %q", c.method, c.target, got)
		}
	}
}

func TestAnswersHaveSecurityAndCacheHeaders(t *testing.T) {
	e := start(t, &shop{}, func(cfg *Config) {
		cfg.Raw = map[string]http.Handler{"GET /page": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Cache-Control", "public, max-age=300")
			w.Header().Set("Content-Security-Policy", "default-src 'self'")
		})}
	})
	want := map[string]string{
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Content-Security-Policy":      "default-src 'none'; frame-ancestors 'none'",
		"Strict-Transport-Security":    "max-age=31536000",
	}
	for _, c := range []struct{ method, target, cache string }{
		{"POST", purchase, "private, no-store"},
		{"GET", "/api/card/discovery", "no-store"},
		{"GET", "/nope", "no-store"},
		{"DELETE", purchase, "no-store"},
		{"POST", roamcardv1connect.CardServicePurchaseCardProcedure, "private, no-store"},
	} {
		h := e.ask(t, c.method, c.target, key, "Content-Type", "application/json").Header()
		for name, value := range want {
			if h.Get(name) != value {
				t.Errorf("%s %s: %s is %q, want %q", c.method, c.target, name, h.Get(name), value)
			}
		}
		if got := h.Values("Cache-Control"); !slices.Equal(got, []string{c.cache}) {
			t.Errorf("%s %s: Cache-Control %q, want %q", c.method, c.target, got, c.cache)
		}
	}
	h := e.ask(t, "GET", "/page", nil).Header()
	if h.Get("Cache-Control") != "public, max-age=300" || h.Get("Content-Security-Policy") != "default-src 'self'" {
		t.Errorf("a handler's own headers are lost: %v", h)
	}
}

func TestHTTPSAloneSetsStrictTransportSecurity(t *testing.T) {
	e := start(t, &shop{}, func(cfg *Config) { cfg.BaseURL = "http://127.0.0.1:8402" })
	if got := e.ask(t, "GET", "/nope", nil).Header().Get("Strict-Transport-Security"); got != "" {
		t.Errorf("Strict-Transport-Security %q", got)
	}
}

func TestCORSAllowsPreflightsOfOfficialClients(t *testing.T) {
	e := start(t, &shop{}, nil)
	for name, headers := range map[string]string{
		"connect-web":          "connect-protocol-version,connect-timeout-ms,content-type",
		"connect-web, paid":    "connect-protocol-version,content-type,payment-signature",
		"connect-web grpc-web": "content-type,grpc-timeout,x-grpc-web,x-user-agent",
		"x402 fetch, paid":     "access-control-expose-headers,content-type,idempotency-key,payment-signature",
		"x402 version 1, paid": "access-control-expose-headers,content-type,x-payment",
		"signed in":            "authorization,content-type",
		"delivery":             "x-esim-delivery-token",
		"MCP":                  "content-type,mcp-protocol-version",
	} {
		w := e.ask(t, "OPTIONS", purchase, nil, "Origin", "https://shop.example", "Access-Control-Request-Method",
			"POST",
			"Access-Control-Request-Headers", headers)
		h := w.Header()
		if w.Code != 204 || h.Get("Access-Control-Allow-Origin") != "*" ||
			h.Get("Access-Control-Allow-Methods") != "POST" ||
			h.Get("Access-Control-Allow-Headers") != headers || h.Get("Access-Control-Max-Age") != "7200" ||
			h.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %d %v", name, w.Code, h)
		}
	}
	w := e.ask(t, "OPTIONS", "/api/cards/1/limits", nil, "Origin", "https://shop.example",
		"Access-Control-Request-Method", "PUT", "Access-Control-Request-Headers", "authorization,content-type")
	if w.Code != 204 || w.Header().Get("Access-Control-Allow-Methods") != "PUT" {
		t.Errorf("limits are set from a page: %d %v", w.Code, w.Header())
	}
	w = e.ask(t, "OPTIONS", purchase, nil, "Origin", "https://shop.example", "Access-Control-Request-Method", "DELETE")
	if w.Header().Get("Access-Control-Allow-Methods") != "" {
		t.Errorf("DELETE is allowed: %v", w.Header())
	}
}

func TestCORSExposesRefusalsAndTerms(t *testing.T) {
	e := start(t, &shop{purchase: unpaid}, nil)
	for _, target := range []string{purchase, roamcardv1connect.CardServicePurchaseCardProcedure, "/nope"} {
		h := e.ask(t, "POST", target, key, "Content-Type", "application/json", "Origin",
			"https://shop.example").Header()
		exposed := strings.ToLower(h.Get("Access-Control-Expose-Headers"))
		if h.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %v", target, h)
		}
		for _, name := range []string{"payment-required", "payment-response", "retry-after", "location", "grpc-status",
			"x-request-id", "date"} {
			if !strings.Contains(exposed, name) {
				t.Errorf("%s: %s is not exposed in %q", target, name, exposed)
			}
		}
	}
}

func TestCORSLeavesOutOperatorRoutes(t *testing.T) {
	e := start(t, &shop{}, nil)
	for _, method := range []string{"OPTIONS", "GET"} {
		w := e.ask(t, method, "/api/admin/jobs", nil, "Origin", "https://shop.example", "Access-Control-Request-Method",
			"GET")
		if w.Header().Get("Access-Control-Allow-Origin") != "" || w.Code != 404 {
			t.Errorf("%s: %d %v", method, w.Code, w.Header())
		}
	}
}

func TestLimitRefusesPaymentHeadersNoWalletMakes(t *testing.T) {
	e := start(t, &shop{}, nil)
	large := strings.Repeat("A", x402.MaxHeader+1)
	for _, target := range []string{purchase, roamcardv1connect.CardServicePurchaseCardProcedure} {
		for name, headers := range map[string][]string{
			"two":       {"PAYMENT-SIGNATURE", "a", "payment-signature", "b"},
			"too large": {"PAYMENT-SIGNATURE", large},
		} {
			w := e.ask(t, "POST", target, key, append(headers, "Content-Type", "application/json")...)
			if w.Code != 400 || !strings.Contains(w.Body.String(), `"payment_malformed"`) {
				t.Errorf("%s %s: %d %s", target, name, w.Code, w.Body)
			}
		}
		w := e.ask(t, "POST", target, key, "PAYMENT-SIGNATURE", large[:x402.MaxHeader], "Content-Type",
			"application/json")
		if w.Code != 200 {
			t.Errorf("%s: the largest header: %d %s", target, w.Code, w.Body)
		}
	}
	for name, client := range e.clients(t) {
		ctx, call := connect.NewClientContext(t.Context())
		call.RequestHeader().Set("Payment-Signature", large)
		_, err := client.PurchaseCard(ctx, buy)
		connectErr, p := problem(t, err)
		if connectErr.Code() != connect.CodeInvalidArgument || p.GetCode() != "payment_malformed" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPanicBecomesProblemWithoutItsText(t *testing.T) {
	e := start(t, &shop{purchase: func(context.Context) error { panic(errors.New("4111111111111111")) }}, nil)
	w := e.ask(t, "POST", purchase, key, "Content-Type", "application/json", "Origin", "https://shop.example",
		"X-Request-Id", "r1")
	if w.Code != 500 || codeIn(t, w.Body.Bytes()) != "internal" ||
		w.Header().Get("Access-Control-Allow-Origin") != "*" || w.Header().Get("X-Request-Id") != "r1" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
	for name, client := range e.clients(t) {
		_, err := client.PurchaseCard(t.Context(), buy)
		if connectErr, p := problem(t, err); connectErr.Code() != connect.CodeInternal || p.GetCode() != "internal" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if strings.Contains(e.logs.String(), "4111111111111111") {
		t.Error("the log shows the panic's value")
	}
}

func TestPanicAfterAnswerBeganClosesConnection(t *testing.T) {
	e := start(t, &shop{}, func(cfg *Config) {
		cfg.Raw = map[string]http.Handler{"GET /half": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "half")
			panic("lost")
		})}
	})
	res, err := http.Get(e.url + "/half")
	if err == nil {
		_, err = io.ReadAll(res.Body)
		_ = res.Body.Close()
	}
	if err == nil {
		t.Error("half an answer looks whole")
	}
	if !strings.Contains(e.logs.String(), `"panic":"lost"`) {
		t.Errorf("log: %s", e.logs)
	}
}

func TestLogHasOneLinePerRequestWithoutSecrets(t *testing.T) {
	e := start(t, &shop{}, nil)
	e.ask(t, "GET", "/api/cards/secret-path/balance?secret=query", nil, "Authorization", "Bearer secret-header",
		"X-Request-Id", "r1")
	e.ask(t, "SECRET", "/secret-path", nil)
	lines := strings.Split(strings.TrimSpace(e.logs.String()), "\n")
	if len(lines) != 2 || strings.Contains(strings.ToLower(e.logs.String()), "secret") {
		t.Fatalf("log: %s", e.logs)
	}
	var line map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &line); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"msg": "request", "method": "GET", "route": "/api/cards/{id}/balance", "status": 400.0,
		"protocol": "HTTP/1.1", "request_id": "r1"}
	for name, value := range want {
		if line[name] != value {
			t.Errorf("%s is %v, want %v", name, line[name], value)
		}
	}
	if line["bytes"].(float64) == 0 {
		t.Error("no bytes are counted")
	}
}

func TestLogLineOfInternalErrorHasCause(t *testing.T) {
	for name, c := range map[string]struct {
		err          error
		level, error string
	}{
		"ours": {fmt.Errorf("ask the issuer: %w", io.ErrUnexpectedEOF), "ERROR",
			`"error":"ask the issuer: unexpected EOF"`},
		"a caller's": {fault.New(fault.CardNotFound, ""), "INFO", `"code":"card_not_found"`},
		// Whose context ended decides, and the caller's has not.
		"by its type": {fmt.Errorf("wait: %w", context.Canceled), "ERROR", `"error":"wait: context canceled"`},
		"none at all": {nil, "INFO", `"procedure":"/roamcard.v1.CardService/PurchaseCard","rpc":"rest"`},
	} {
		e := start(t, &shop{purchase: func(context.Context) error { return c.err }}, nil)
		e.ask(t, "POST", purchase, key, "Content-Type", "application/json")
		if line := e.logs.String(); !strings.Contains(line, `"level":"`+c.level+`"`) ||
			!strings.Contains(line, c.error) || strings.Count(line, "\n") != 1 {
			t.Errorf("%s: %s", name, line)
		}
	}
}

func TestSpanOfRequestIsLinkedWithTheCallersTrace(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	var inner trace.SpanContext
	e := start(t, &shop{}, func(cfg *Config) {
		cfg.Tracing = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		cfg.Raw = map[string]http.Handler{"GET /inner/{id}": http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			inner = trace.SpanContextFromContext(r.Context())
			w.WriteHeader(503)
		})}
	})
	e.ask(t, "GET", "/inner/7", nil, "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	e.ask(t, "GET", "/nope", nil)
	ended := spans.Ended()
	if len(ended) != 2 || ended[0].Name() != "GET /inner/{id}" || ended[1].Name() != "GET" {
		t.Fatalf("%d spans, %v", len(ended), ended)
	}
	span := ended[0]
	if links := span.Links(); span.Parent().IsValid() || len(links) != 1 ||
		links[0].SpanContext.SpanID().String() != "b7ad6b7169203331" ||
		links[0].SpanContext.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" || len(ended[1].Links()) != 0 {
		t.Errorf("parent %v of %v, links %v", span.Parent(), span.SpanContext(), span.Links())
	}
	if !inner.Equal(span.SpanContext()) {
		t.Errorf("inside the span is %v, want %v", inner, span.SpanContext())
	}
	if span.Status().Code.String() != "Error" || ended[1].Status().Code.String() != "Unset" {
		t.Errorf("statuses %v and %v", span.Status(), ended[1].Status())
	}
	for _, a := range ended[1].Attributes() {
		if strings.Contains(a.Value.String(), "nope") {
			t.Errorf("the span shows the path: %v", a)
		}
	}
}

func TestRecorderKeepsCapabilitiesOfWriter(t *testing.T) {
	inner := httptest.NewRecorder()
	w := &statusWriter{ResponseWriter: &recorder{ResponseWriter: inner}}
	w.Flush()
	if !inner.Flushed {
		t.Error("Flush does not reach the connection")
	}
	if err := http.NewResponseController(&recorder{ResponseWriter: inner}).Flush(); err != nil {
		t.Errorf("ResponseController: %v", err)
	}
}

// raw sends bytes and reads the answers that come back on the connection.
func raw(t *testing.T, e *edge, text string, methods ...string) []*http.Response {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", e.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(conn, text) }()
	reader := bufio.NewReader(conn)
	var all []*http.Response
	for _, method := range methods {
		res, err := http.ReadResponse(reader, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("%q: %v", text[:min(len(text), 80)], err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		res.Body = io.NopCloser(strings.NewReader(string(body)))
		all = append(all, res)
	}
	return all
}

func TestServerSetsLimitsOfConnection(t *testing.T) {
	e := start(t, &shop{}, nil)
	post := "POST " + purchase + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	for _, c := range []struct {
		name, text, method string
		status             int
		code               string
	}{
		{"two payment headers", post + "PAYMENT-SIGNATURE: a\r\nPayment-Signature: b\r\nContent-Length: 2\r\n\r\n{}",
			"POST", 400, "payment_malformed"},
		{"two authorizations", post + "Authorization: Bearer a\r\nauthorization: Bearer a\r\nContent-Length: 2\r\n\r\n{}",
			"POST", 400, "schema_invalid"},
		{"headers over the limit", post + "X-Filler: " + strings.Repeat("x", 40<<10) + "\r\n\r\n", "POST", 431, ""},
		{"chunked body over the limit", post + "Transfer-Encoding: chunked\r\n\r\n1001\r\n" + strings.Repeat(" ",
			0x1001) + "\r\n0\r\n\r\n", "POST", 413, "body_too_large"},
		{"announced body over the limit", post + "Content-Length: 1000000\r\nExpect: 100-continue\r\n\r\n", "POST", 413,
			"body_too_large"},
		{"chunked body", post + "Transfer-Encoding: chunked\r\n\r\n16\r\n" + string(key) + "\r\n0\r\n\r\n", "POST", 200,
			""},
		{"broken chunks", post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "POST", 400, "schema_invalid"},
		{"head of a POST", "HEAD " + purchase + " HTTP/1.1\r\nHost: x\r\n\r\n", "HEAD", 405, ""},
		{"unclean path", "GET //api/card/discovery HTTP/1.1\r\nHost: x\r\n\r\n", "GET", 404, "route_not_found"},
		{"absolute form", "GET http://evil.example/nope HTTP/1.1\r\nHost: x\r\n\r\n", "GET", 404, "route_not_found"},
		{"made-up method", "BREW /api/card/discovery HTTP/1.1\r\nHost: x\r\n\r\n", "BREW", 405, "method_not_allowed"},
		{"escaped slash", "GET /api/cards/a%2Fb/balance HTTP/1.1\r\nHost: x\r\n\r\n", "GET", 400, "schema_invalid"},
		{"no host", "GET /nope HTTP/1.1\r\n\r\n", "GET", 400, ""},
	} {
		res := raw(t, e, c.text, c.method)[0]
		body, _ := io.ReadAll(res.Body)
		if res.StatusCode != c.status || c.code != "" && codeIn(t, body) != c.code ||
			res.Header.Get("Location") != "" || res.Header.Get("Server") != "" {
			t.Errorf("%s: %d %v %s", c.name, res.StatusCode, res.Header, body)
		}
		if c.method == "HEAD" && (len(body) != 0 || res.Header.Get("Allow") != "POST") {
			t.Errorf("%s: Allow %q, body %q", c.name, res.Header.Get("Allow"), body)
		}
	}
}

func TestRequestIDIsEqualInHeaderAndContext(t *testing.T) {
	var seen string
	e := start(t, &shop{purchase: func(ctx context.Context) error { seen = telemetry.RequestID(ctx); return nil }}, nil)
	w := e.ask(t, "POST", purchase, key, "Content-Type", "application/json")
	if seen == "" || seen != w.Header().Get("X-Request-Id") {
		t.Errorf("context %q, header %q", seen, w.Header().Get("X-Request-Id"))
	}
}

// TestEveryInternalErrorIsLoggedAsOne, also that of a handler which is no call.
func TestEveryInternalErrorIsLoggedAsOne(t *testing.T) {
	e := start(t, &shop{}, func(cfg *Config) {
		cfg.Raw = map[string]http.Handler{"GET /page": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
		})}
	})
	e.ask(t, "GET", "/page", nil)
	if !strings.Contains(e.logs.String(), `"level":"ERROR"`) {
		t.Errorf("log: %s", e.logs)
	}
}

// TestDoubledSingletonsAreRefused on every kind of route, before anything of the request is read: of two credentials
// none is chosen.
func TestDoubledSingletonsAreRefused(t *testing.T) {
	e := start(t, &shop{purchase: func(context.Context) error { t.Error("it was called"); return nil }},
		func(cfg *Config) {
			cfg.Raw = map[string]http.Handler{"GET /page": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				t.Error("the page was called")
			})}
		})
	for _, name := range []string{
		"Authorization", "X-Esim-Delivery-Token", "X-Order-Watch-Token", "Idempotency-Key", "Connect-Timeout-Ms",
		"Mcp-Protocol-Version", "Origin",
	} {
		for _, route := range [][2]string{
			{"POST", purchase}, {"POST", roamcardv1connect.CardServicePurchaseCardProcedure}, {"GET", "/page"},
			{"GET", "/nope"},
		} {
			w := e.ask(t, route[0], route[1], key, "Content-Type", "application/json", name, "1", name, "1")
			if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "schema_invalid") ||
				!strings.Contains(w.Body.String(), name) {
				t.Errorf("two of %s at %s: %d %s", name, route[1], w.Code, w.Body)
			}
		}
	}
}
