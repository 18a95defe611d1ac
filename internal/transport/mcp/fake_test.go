package mcp

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/roamcard/roamcard/gen"
)

// fakeAPI answers routes with fixed answers, and records the requests.
type fakeAPI struct {
	mu      sync.Mutex
	answers map[string]answer
	asked   []*http.Request
}

type answer struct {
	status    int
	mediaType string
	body      string
	header    http.Header
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked = append(f.asked, r)
	a, ok := f.answers[r.URL.Path]
	f.mu.Unlock()
	if !ok {
		a = answer{status: http.StatusNotFound, mediaType: "application/problem+json",
			body: `{"code":"route_not_found"}`}
	}
	if a.body == "panic" {
		panic("the route broke")
	}
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", a.mediaType)
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

func found(body string) answer {
	return answer{status: http.StatusOK, mediaType: "application/json", body: body}
}

// endpoint is the whole MCP endpoint over a fake API.
func endpoint(t testing.TB, api *fakeAPI) http.Handler {
	t.Helper()
	handlers, err := Handlers(Config{
		API: api, OpenAPI: gen.OpenAPI, Descriptor: []byte(`{"name":"card"}`), BaseURL: base,
		Origins: []string{"https://app.partner.test"},
		Version: "0.3.1", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for pattern, h := range handlers {
		mux.Handle(pattern, h)
	}
	return mux
}

// call is one request to the endpoint.
type call struct {
	method, body string
	header       map[string]string
	host         string
}

func (c call) to(h http.Handler) *httptest.ResponseRecorder {
	if c.method == "" {
		c.method = http.MethodPost
	}
	r := httptest.NewRequest(c.method, base+"/mcp", strings.NewReader(c.body))
	if c.method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range c.header {
		if value == "" {
			r.Header.Del(name)
			continue
		}
		r.Header.Set(name, value)
	}
	if c.host != "" {
		r.Host = c.host
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// outcome is a JSON-RPC answer.
type outcome struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func read(t *testing.T, w *httptest.ResponseRecorder) outcome {
	t.Helper()
	var o outcome
	if err := json.Unmarshal(w.Body.Bytes(), &o); err != nil || o.JSONRPC != "2.0" {
		t.Fatalf("%d %s is no JSON-RPC answer: %v", w.Code, w.Body, err)
	}
	return o
}
