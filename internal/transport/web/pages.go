package web

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/roamcard/roamcard/internal/transport/static"
	"github.com/roamcard/roamcard/internal/x402"
)

// dist is what `make gen` makes of web/: a document for each page, and what the documents load.
//
//go:embed dist
var dist embed.FS

const (
	// AssetsPath is below which lies what pages load. The names of files have a digest of their content.
	AssetsPath = "/ui/assets/"
	// policyOfPages lets a page load, run, call and show what is ours, and nothing else.
	policyOfPages = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; " +
		"connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
		"require-trusted-types-for 'script'; trusted-types 'none'"
	forAYear = "public, max-age=31536000, immutable"
)

// Document is a page that runs in the browser. It is the same for everyone: what it shows it asks the API for.
type Document struct {
	content []byte
	// found says that search engines may list it.
	found bool
}

// PayDocument is the page that pays an order at its link.
func PayDocument() (Document, error) { return document("pay.html") }

// ShopDocument is the page at the service's address, which sells and shows what was bought.
func ShopDocument() (Document, error) {
	d, err := document("shop.html")
	d.found = true
	return d, err
}

func document(name string) (Document, error) {
	content, err := dist.ReadFile("dist/" + name)
	if err != nil {
		return Document{}, fmt.Errorf("read the page: %w", err)
	}
	return Document{content: content}, nil
}

// HomePattern is the service's address, whatever the method.
const HomePattern = "/{$}"

// Home is a page at the service's address, for those who want one. Everybody else gets the other answer.
func Home(page Document, otherwise http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead || !page.Wanted(r) {
			otherwise.ServeHTTP(w, r)
			return
		}
		// It names what it loads by digests: an old one would ask for what is not there any more.
		w.Header().Set("Cache-Control", "no-cache")
		page.Send(w, http.StatusOK)
	})
}

// Wanted implements rest.Page: a request without a payment that takes HTML rather than JSON. A client that takes
// anything, as programs do, gets what is documented.
func (d Document) Wanted(r *http.Request) bool {
	for _, payment := range []string{x402.HeaderSignature, x402.HeaderSignatureV1} {
		if len(r.Header.Values(payment)) > 0 {
			return false
		}
	}
	page, answer := 0.0, 0.0
	for _, list := range r.Header.Values("Accept") {
		for item := range strings.SplitSeq(list, ",") {
			kind, params, err := mime.ParseMediaType(item)
			if err != nil {
				continue
			}
			quality := static.Quality(params)
			switch {
			case kind == "text/html":
				page = max(page, quality)
			case kind == "application/json", kind == "application/problem+json":
				answer = max(answer, quality)
			}
		}
	}
	return page > answer
}

// Send implements rest.Page.
func (d Document) Send(w http.ResponseWriter, status int) {
	h := w.Header()
	h.Add("Vary", "Accept")
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(d.content)))
	h.Set("Content-Security-Policy", policyOfPages)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if !d.found {
		h.Set("X-Robots-Tag", "noindex")
	}
	w.WriteHeader(status)
	_, _ = w.Write(d.content) // the browser may have gone
}

// Assets are the handlers of what pages load, by patterns of http.ServeMux.
func Assets() (map[string]http.Handler, error) {
	all, err := assets()
	return maps.Clone(all), err
}

// assets are made once for all servers of a process, because they take long to compress.
var assets = sync.OnceValues(func() (map[string]http.Handler, error) { return assetsIn("dist/assets") })

// assetsIn are the handlers of what pages load from one folder.
func assetsIn(folder string) (map[string]http.Handler, error) {
	routes := map[string]http.Handler{}
	files, err := fs.ReadDir(dist, folder)
	if err != nil {
		return nil, fmt.Errorf("list what pages load: %w", err)
	}
	for _, f := range files {
		content, err := dist.ReadFile(folder + "/" + f.Name())
		if err != nil {
			return nil, fmt.Errorf("read what pages load: %w", err)
		}
		kind, ok := kinds[path.Ext(f.Name())]
		if !ok {
			return nil, fmt.Errorf("%s has no known media type", f.Name())
		}
		asset, err := static.New(kind, content)
		if err != nil {
			return nil, err
		}
		routes["GET "+AssetsPath+f.Name()] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", forAYear)
			asset.ServeHTTP(w, r)
		})
	}
	return routes, nil
}

// kinds are the media types of assets by their names' ends; those of the system may differ.
var kinds = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}
