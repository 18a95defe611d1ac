package endtoend_test

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestProgramsGetAtTheAddressWhatTheyAlwaysGot compares every answer but the page's with that of a path that never had
// one: status, headers and body.
func TestProgramsGetAtTheAddressWhatTheyAlwaysGot(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	ask := func(method, path, accept string, more http.Header) (int, http.Header, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, w.instances[0].url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = maps.Clone(more)
		if req.Header == nil {
			req.Header = http.Header{}
		}
		if accept != "" {
			req.Header.Set("Accept", accept)
		}
		req.Header.Set("X-Request-Id", "the-same-one")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, moves := range []string{"Date", "Ratelimit-Remaining", "Ratelimit-Reset"} {
			res.Header.Del(moves)
		}
		return res.StatusCode, res.Header, string(body)
	}
	status, header, body := ask("GET", "/", browser, nil)
	if status != http.StatusOK || !strings.HasPrefix(header.Get("Content-Type"), "text/html") ||
		!strings.Contains(body, "/ui/assets/shop-") {
		t.Fatalf("a browser gets %d %v", status, header)
	}
	exposing := http.Header{"Access-Control-Expose-Headers": {"PAYMENT-RESPONSE"}}
	for name, c := range map[string]struct {
		method, accept string
		more           http.Header
	}{
		"curl":                              {"GET", "*/*", nil},
		"curl that asks for the head":       {"HEAD", "*/*", nil},
		"fetch of Node":                     {"GET", "*/*", http.Header{"Sec-Fetch-Mode": {"cors"}}},
		"fetch of a page":                   {"GET", "*/*", http.Header{"Origin": {"https://app.example"}}},
		"@x402/fetch":                       {"GET", "*/*", exposing},
		"@x402/axios":                       {"GET", "application/json, text/plain, */*", nil},
		"the x402 client of Python":         {"GET", "*/*", http.Header{"User-Agent": {"python-httpx/0.28"}}},
		"the x402 client of Go":             {"GET", "", nil},
		"x402scan and other crawlers":       {"GET", "application/json", nil},
		"agentcash":                         {"GET", "application/json, */*;q=0.5", nil},
		"an MCP client":                     {"GET", "application/json, text/event-stream", nil},
		"a browser that brings a payment":   {"GET", browser, http.Header{"Payment-Signature": {"e30="}}},
		"a browser that sends a form":       {"POST", browser, nil},
		"a program that prefers the answer": {"GET", "application/json, text/html;q=0.9", nil},
	} {
		status, header, body := ask(c.method, "/", c.accept, c.more)
		before, headers, answer := ask(c.method, "/no-such-page", c.accept, c.more)
		if status != http.StatusNotFound || status != before || body != answer {
			t.Errorf("%s: %d %s, before %d %s", name, status, body, before, answer)
		}
		if !maps.EqualFunc(header, headers, slices.Equal[[]string]) {
			t.Errorf("%s: %v, before %v", name, header, headers)
		}
	}
}
