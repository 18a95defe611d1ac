package web_test

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/transport/web"
)

func TestConsoleIsByItself(t *testing.T) {
	console, pages := muxOf(t, web.Console), muxOf(t, web.Assets)
	w := ask(console, http.MethodGet, "/", "")
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
		kind := found[1][strings.LastIndexByte(found[1], '.'):]
		spent[kind] += len(load(t, console, found[1]))
	}
	for kind, most := range map[string]int{".js": 75 << 10, ".css": 10 << 10} {
		if spent[kind] == 0 || spent[kind] > most {
			t.Errorf("%s: %d bytes compressed, at most %d", kind, spent[kind], most)
		}
	}
	served := map[string]int{}
	for folder, of := range map[string][2]http.Handler{
		"dist/assets": {pages, console}, "dist/console/assets": {console, pages},
	} {
		files, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			path := web.AssetsPath + f.Name()
			if own := ask(of[0], http.MethodGet, path, ""); own.Code == http.StatusOK {
				served[folder]++
			}
			// The texts of a language that both use are the same file, without code of a page.
			texts := strings.HasPrefix(f.Name(), "de-")
			if other := ask(of[1], http.MethodGet, path, ""); other.Code != http.StatusNotFound && !texts &&
				!strings.HasSuffix(path, ".svg") {
				t.Errorf("%s of %s is at the other origin, too", path, folder)
			}
		}
	}
	if served["dist/assets"] < 10 || served["dist/console/assets"] < 3 {
		t.Errorf("files that are served: %v", served)
	}
}
