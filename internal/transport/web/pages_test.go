package web_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/transport/web"
)

// accepts are what callers say they take, and whether that is the page.
var accepts = map[string]struct {
	accept []string
	page   bool
}{
	"Chrome": {[]string{"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng," +
		"*/*;q=0.8,application/signed-exchange;v=b3;q=0.7"}, true},
	"Firefox": {[]string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, true},
	"Safari":  {[]string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, true},
	"Lynx":    {[]string{"text/html, text/plain, text/sgml, text/css, application/xhtml+xml, */*;q=0.01"}, true},
	"Googlebot": {[]string{"text/html,application/xhtml+xml,application/signed-exchange;v=b3,application/xml;q=0.9," +
		"*/*;q=0.8"}, true},
	"in two lines":                   {[]string{"application/xml;q=0.9", "text/html"}, true},
	"HTML alone":                     {[]string{"text/html"}, true},
	"HTML, else JSON":                {[]string{"text/html, application/json;q=0.9"}, true},
	"nothing":                        {nil, false},
	"curl, fetch and requests":       {[]string{"*/*"}, false},
	"axios":                          {[]string{"application/json, text/plain, */*"}, false},
	"JSON":                           {[]string{"application/json"}, false},
	"problems":                       {[]string{"application/problem+json"}, false},
	"JSON, else HTML":                {[]string{"application/json, text/html;q=0.9"}, false},
	"either":                         {[]string{"application/json, text/html"}, false},
	"any text":                       {[]string{"text/*"}, false},
	"images":                         {[]string{"image/avif,image/webp,*/*;q=0.8"}, false},
	"no HTML":                        {[]string{"text/html;q=0, */*"}, false},
	"a weight that is none":          {[]string{"text/html;q=x"}, false},
	"a weight above one":             {[]string{"text/html;q=7"}, false},
	"x402 crawlers":                  {[]string{"application/json, */*;q=0.5"}, false},
	"MCP clients":                    {[]string{"application/json, text/event-stream"}, false},
	"what looks like HTML":           {[]string{"text/htmlx, application/text/html"}, false},
	"what cannot be read":            {[]string{";;;,,, text/html;;=\""}, false},
	"a word":                         {[]string{"html"}, false},
	"Java's URLConnection":           {[]string{"text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"}, true},
	"feed readers":                   {[]string{"application/rss+xml, application/xml;q=0.9, */*;q=0.1"}, false},
	"link previews that take it all": {[]string{"*/*, text/html;q=0"}, false},
}

func payPage(t *testing.T) web.Document { t.Helper(); return pageOf(t, web.PayDocument) }

func pageOf(t *testing.T, document func() (web.Document, error)) web.Document {
	t.Helper()
	page, err := document()
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// TestShopIsForThoseWhoTakeHTML also holds that everybody else gets the other answer and nothing of the page.
func TestShopIsForThoseWhoTakeHTML(t *testing.T) {
	otherwise := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	home := web.Home(pageOf(t, web.ShopDocument), otherwise)
	ask := func(method string, header http.Header) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest(method, "/", nil), httptest.NewRecorder()
		r.Header = header
		home.ServeHTTP(w, r)
		return w
	}
	for name, tt := range accepts {
		for method, read := range map[string]bool{
			"GET": true, "HEAD": true, "POST": false, "PUT": false, "DELETE": false, "OPTIONS": false,
		} {
			w := ask(method, http.Header{"Accept": tt.accept})
			if page := w.Code == http.StatusOK; page != (tt.page && read) {
				t.Errorf("%s, %s: %d", name, method, w.Code)
			}
			if w.Code != http.StatusOK && (len(w.Header()) > 0 || w.Body.Len() > 0) {
				t.Errorf("%s, %s: %v %s", name, method, w.Header(), w.Body)
			}
		}
		paying := http.Header{"Accept": tt.accept, "Payment-Signature": {""}}
		if w := ask("GET", paying); w.Code != http.StatusNotFound {
			t.Errorf("%s with a payment gets the page", name)
		}
	}
	w := ask("GET", http.Header{"Accept": {"text/html"}})
	if w.Header().Get("Cache-Control") != "no-cache" || w.Header().Get("X-Robots-Tag") != "" {
		t.Errorf("search engines and caches: %v", w.Header())
	}
}

func TestPageIsForThoseWhoTakeHTML(t *testing.T) {
	page := payPage(t)
	for name, tt := range accepts {
		r := httptest.NewRequest(http.MethodGet, "/pay/ord_1", nil)
		for _, line := range tt.accept {
			r.Header.Add("Accept", line)
		}
		if got := page.Wanted(r); got != tt.page {
			t.Errorf("%s: %v", name, got)
		}
		for _, payment := range []string{"PAYMENT-SIGNATURE", "X-PAYMENT"} {
			paying := r.Clone(t.Context())
			paying.Header.Set(payment, "")
			if page.Wanted(paying) {
				t.Errorf("%s with %s gets the page", name, payment)
			}
		}
	}
}

// loads are the paths that a page loads.
var loads = regexp.MustCompile(`(?:src|href)="([^"]+)"`)

func TestPageLoadsOnlyItsOwnWithinItsBudget(t *testing.T) {
	for name, document := range map[string]func() (web.Document, error){
		"pay": web.PayDocument, "shop": web.ShopDocument,
	} {
		t.Run(name, func(t *testing.T) { testLoads(t, pageOf(t, document)) })
	}
}

func testLoads(t *testing.T, page web.Document) {
	t.Helper()
	w := httptest.NewRecorder()
	page.Send(w, httptest.NewRequest(http.MethodGet, "/", nil), http.StatusPaymentRequired)
	document := w.Body.String()
	if w.Code != http.StatusPaymentRequired || w.Header().Get("Content-Type") != "text/html; charset=utf-8" ||
		w.Header().Get("Vary") != "Accept" || w.Header().Get("Cross-Origin-Opener-Policy") != "same-origin" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	policy := w.Header().Get("Content-Security-Policy")
	for _, rule := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'",
		"form-action 'none'", "base-uri 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'"} {
		if !slices.Contains(strings.Split(policy, "; "), rule) {
			t.Errorf("the policy %q lacks %s", policy, rule)
		}
	}
	if inline := regexp.MustCompile(`<script[^>]*>[^<]|<style|style=|\son\w+=`).FindString(document); inline != "" {
		t.Errorf("the page has %q", inline)
	}
	assets := muxOf(t, web.Assets)
	budgets := map[string]int{".js": 75 << 10, ".css": 10 << 10, ".svg": 2 << 10}
	spent := map[string]int{}
	for _, found := range loads.FindAllStringSubmatch(document, -1) {
		if !strings.HasPrefix(found[1], web.AssetsPath) {
			continue // a link that a person follows, where no script runs
		}
		spent[found[1][strings.LastIndexByte(found[1], '.'):]] += len(load(t, assets, found[1]))
	}
	for kind, most := range budgets {
		if spent[kind] == 0 || spent[kind] > most {
			t.Errorf("%s: %d bytes compressed, at most %d", kind, spent[kind], most)
		}
	}
}

// muxOf serves handlers by their patterns; what they do not have is 404.
func muxOf(
	t *testing.T, handlers func(notFound http.Handler) (map[string]http.Handler, error),
) *http.ServeMux {
	t.Helper()
	all, err := handlers(http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for pattern, handler := range all {
		mux.Handle(pattern, handler)
	}
	return mux
}

// load is an asset as browsers get it, compressed; it checks the headers and what is in it.
func load(t *testing.T, asset http.Handler, path string) []byte {
	t.Helper()
	plain, packed := httptest.NewRecorder(), httptest.NewRecorder()
	asset.ServeHTTP(plain, httptest.NewRequest(http.MethodGet, path, nil))
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept-Encoding", "br;q=1, gzip;q=0.8")
	asset.ServeHTTP(packed, r)
	for _, w := range []*httptest.ResponseRecorder{plain, packed} {
		h := w.Header()
		if w.Code != http.StatusOK || h.Get("Cache-Control") != "public, max-age=31536000, immutable" ||
			h.Get("Vary") != "Accept-Encoding" || h.Get("Content-Type") == "" {
			t.Errorf("%s: %d %v", path, w.Code, maps.Clone(h))
		}
	}
	if plain.Header().Get("Content-Encoding") != "" || packed.Header().Get("Content-Encoding") != "gzip" {
		t.Errorf("%s is encoded as %v and %v", path, plain.Header(), packed.Header())
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(unpacked)
	if err != nil || !bytes.Equal(content, plain.Body.Bytes()) || len(content) == 0 {
		t.Errorf("%s: %d bytes compressed, %d not, %v", path, len(content), plain.Body.Len(), err)
	}
	return packed.Body.Bytes()
}
