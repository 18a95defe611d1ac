package edge

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
)

// TestOtherHostsAreRefused: a page whose own name resolves to this address gets nothing of what is served here.
func TestOtherHostsAreRefused(t *testing.T) {
	e := start(t, &shop{}, func(cfg *Config) {
		cfg.Hosts = []string{"10.0.0.5:8404", "Console.example", "0.0.0.0:8404", ":8404"}
		cfg.Raw = map[string]http.Handler{"GET /{$}": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	})
	ask := func(method, path, host string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey,
			&net.TCPAddr{IP: net.ParseIP("::ffff:192.0.2.7"), Port: 8404}), method, path, strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		r.Host = host
		w := httptest.NewRecorder()
		e.Handler().ServeHTTP(w, r)
		return w
	}
	for _, host := range []string{
		"10.0.0.5:8404", "10.0.0.5", "console.example", "CONSOLE.example:443", "console.example.", "localhost:8404",
		"localhost", "127.0.0.1:8404", "127.3.2.1", "[::1]:8404", "[::ffff:127.0.0.1]:1", "192.0.2.7:8404",
	} {
		if w := ask("GET", "/", host); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", host, w.Code, w.Body)
		}
	}
	for _, host := range []string{
		"", "evil.example", "evil.example:8404", "console.example.evil.example", "xconsole.example", "192.0.2.8:8404",
		"localhost.evil.example", "127.0.0.1.evil.example", "0.0.0.0:8404", "8404",
	} {
		for _, route := range [][2]string{
			{"GET", "/"}, {"HEAD", "/"}, {"GET", "/nope"}, {"POST", purchase},
			{"POST", roamcardv1connect.CardServicePurchaseCardProcedure},
		} {
			if w := ask(route[0], route[1], host); w.Code != http.StatusNotFound ||
				!strings.Contains(w.Body.String(), "This host is not served here.") {
				t.Errorf("%s %s at %q: %d %s", route[0], route[1], host, w.Code, w.Body)
			}
		}
	}
}
