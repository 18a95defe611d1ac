package web_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/transport/web"
)

func TestConsoleIsByItself(t *testing.T) {
	console, err := web.Console()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := web.Assets()
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	console["GET /{$}"].ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	document, policy := w.Body.String(), w.Header().Get("Content-Security-Policy")
	if w.Code != http.StatusOK || !strings.Contains(policy, "frame-ancestors 'none'") ||
		!strings.Contains(policy, "trusted-types 'none'") || w.Header().Get("Cross-Origin-Opener-Policy") != "same-origin" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if inline := regexp.MustCompile(`<script[^>]*>[^<]|<style|style=|\son\w+=`).FindString(document); inline != "" {
		t.Errorf("the console has %q", inline)
	}
	spent := map[string]int{}
	for _, found := range loads.FindAllStringSubmatch(document, -1) {
		asset, ok := console["GET "+found[1]]
		if !ok {
			t.Fatalf("the console loads %s, which is not there", found[1])
		}
		kind := found[1][strings.LastIndexByte(found[1], '.'):]
		spent[kind] += len(load(t, asset, found[1]))
		if _, ok := pages["GET "+found[1]]; ok && kind != ".svg" {
			t.Errorf("%s is at the buyers' origin, too", found[1])
		}
	}
	for kind, most := range map[string]int{".js": 75 << 10, ".css": 10 << 10} {
		if spent[kind] == 0 || spent[kind] > most {
			t.Errorf("%s: %d bytes compressed, at most %d", kind, spent[kind], most)
		}
	}
	for pattern := range pages {
		// The texts of a language that both use are the same file, without code of a page.
		texts := strings.HasPrefix(pattern, "GET /ui/assets/de-")
		if _, ok := console[pattern]; ok && !texts && !strings.HasSuffix(pattern, ".svg") {
			t.Errorf("the console's origin serves %s of the buyers' pages", pattern)
		}
	}
}
