package edge

import (
	"bytes"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/limit"
)

// TestLongAnswersCountAsManyRequests: an announced one before it is sent, another one after it, and neither one that is
// not sent.
func TestLongAnswersCountAsManyRequests(t *testing.T) {
	const long = 5*bytesPerRequest + 1
	var handled int
	e := start(t, &shop{}, func(cfg *Config) {
		cfg.Limits = limit.New(limit.Rates{limit.Poll: {Count: 10, Per: time.Hour}}, time.Now)
		page := func(announced bool) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				handled++
				w.Header().Set("Etag", `"1"`)
				if r.Header.Get("If-None-Match") != "" {
					w.WriteHeader(http.StatusNotModified)
					return
				}
				if announced {
					w.Header().Set("Content-Length", strconv.Itoa(long))
				}
				_, _ = w.Write(make([]byte, long))
			})
		}
		cfg.Raw = map[string]http.Handler{"GET /page": page(true), "GET /list": page(false), "POST /done": page(true)}
	})
	ask := func(from, method, path string, status int, remaining string, headers ...string) {
		t.Helper()
		w := e.askFrom(t, from, method, path, headers...)
		h := w.Header()
		if w.Code != status || h.Get("Ratelimit-Remaining") != remaining {
			t.Errorf("%s %s from %s: %d, %s left, want %d, %s", method, path, from, w.Code, h.Get("Ratelimit-Remaining"),
				status, remaining)
		}
		refused := w.Code == http.StatusTooManyRequests
		if whole := w.Body.Len() == long; whole == refused && status != http.StatusNotModified ||
			refused && (h.Get("Retry-After") == "" || h.Get("Etag") != "" ||
				!bytes.Contains(w.Body.Bytes(), []byte(`"rate_limited"`))) {
			t.Errorf("%s %s from %s: %d, %d bytes, %v", method, path, from, w.Code, w.Body.Len(), h)
		}
	}
	ask("1", "GET", "/page", 200, "4")
	ask("1", "GET", "/page", 304, "3", "If-None-Match", "1")
	ask("1", "GET", "/page", 429, "2") // which costs one request
	ask("1", "GET", "/page", 304, "1", "If-None-Match", "1")
	ask("1", "GET", "/page", 304, "0", "If-None-Match", "1")

	// One whose length is known at its end is sent, and the next ones wait for it.
	ask("2", "GET", "/list", 200, "9")
	ask("2", "GET", "/list", 200, "3")
	ask("2", "GET", "/list", 429, "0")
	// So is what was done already.
	ask("3", "POST", "/done", 200, "9")
	ask("3", "POST", "/done", 200, "3")
	ask("3", "POST", "/done", 429, "0")
	if handled != 9 {
		t.Errorf("%d requests reached a handler", handled)
	}
}
