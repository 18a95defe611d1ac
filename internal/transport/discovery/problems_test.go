package discovery

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/fault"
)

func TestProblemPagesExplainEveryCode(t *testing.T) {
	h := muxOf(site(t, config()))
	for _, k := range fault.Catalogue() {
		get := func(accept string) *httptest.ResponseRecorder {
			r, w := httptest.NewRequest(http.MethodGet, k.Code.Path(), nil), httptest.NewRecorder()
			r.Header.Set("Accept", accept)
			h.ServeHTTP(w, r)
			if w.Code != http.StatusOK || w.Header().Get("Vary") != "Accept" {
				t.Errorf("%s: %d %v", k.Code, w.Code, w.Header())
			}
			return w
		}
		var e explained
		w := get("*/*")
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
			t.Fatalf("%s: %v", k.Code, err)
		}
		if e != (explained{"/problems/" + string(k.Code), failureOf(k), k.NextAction.Advice()}) ||
			w.Header().Get("Content-Type") != asJSON {
			t.Errorf("%s is explained as %s", k.Code, w.Body)
		}
		w = get("text/html")
		text := w.Body.String()
		for _, want := range []string{"<h1><code>" + e.Code + "</code></h1>", e.NextAction,
			strings.ReplaceAll(e.Title, "'", "&#39;")} {
			if !strings.Contains(text, want) {
				t.Errorf("the page of %s lacks %q:\n%s", k.Code, want, text)
			}
		}
		// The edge's Content-Security-Policy allows the page to load nothing.
		for _, loads := range []string{"<script", "<style", "<link", "<img", "style=", "onclick"} {
			if strings.Contains(text, loads) || w.Header().Get("Content-Type") != asHTML {
				t.Errorf("the page of %s has %s, as %s", k.Code, loads, w.Header().Get("Content-Type"))
			}
		}
	}
}

// TestPageListsTheProblems compares docs/api/problems.md, which `make gen` makes, with what the contract lists.
func TestPageListsTheProblems(t *testing.T) {
	page, err := os.ReadFile("../../../docs/api/problems.md")
	if err != nil {
		t.Fatal(err)
	}
	var contract struct{ Errors []failure }
	if err := json.Unmarshal(site(t, config()).Document("/api/agent"), &contract); err != nil {
		t.Fatal(err)
	}
	var listed, told []string
	for _, e := range contract.Errors {
		listed = append(listed, fmt.Sprintf("%s %d: %s", e.Code, e.Status, e.Title))
	}
	for section := range strings.SplitSeq(strings.TrimSpace(string(page)), "\n## ") {
		told = append(told, strings.Join(strings.Fields(section), " "))
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(listed)), slices.Sorted(slices.Values(told[1:]))); diff != "" {
		t.Errorf("docs/api/problems.md has other problems; run make gen (-listed +told):\n%s", diff)
	}
}

func TestUnknownProblemIsNotFound(t *testing.T) {
	c := config()
	c.NotFound = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for _, s := range []struct {
		site   *Site
		status int
	}{{site(t, c), http.StatusTeapot}, {site(t, config()), http.StatusNotFound}} {
		w := httptest.NewRecorder()
		muxOf(s.site).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/problems/nothing", nil))
		if w.Code != s.status {
			t.Errorf("%d, want %d", w.Code, s.status)
		}
	}
}

func TestProblemPagesFollowAccept(t *testing.T) {
	h := muxOf(site(t, config()))
	for accept, want := range map[string]string{
		"":    asJSON,
		"*/*": asJSON,
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": asHTML,
		"text/html":                              asHTML,
		"TEXT/HTML; charset=utf-8":               asHTML,
		"text/*":                                 asHTML,
		"application/json":                       asJSON,
		"application/json, text/html":            asJSON,
		"application/json;q=0.5, text/html":      asHTML,
		"text/html;q=0.5, application/json":      asJSON,
		"text/html;q=0, */*;q=0.1":               asJSON,
		"text/*;q=0.9, text/html;q=0.1, */*;q=1": asJSON,
		"image/png":                              asJSON,
		"text/html;q=many":                       asJSON,
		";;,=":                                   asJSON,
	} {
		r, w := httptest.NewRequest(http.MethodGet, "/problems/internal", nil), httptest.NewRecorder()
		if accept != "" {
			r.Header.Set("Accept", accept)
		}
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Content-Type"); got != want {
			t.Errorf("Accept %q gets %s", accept, got)
		}
	}
}
