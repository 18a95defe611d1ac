package web

import (
	"bytes"
	"compress/gzip"
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
			quality := qualityOf(params)
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

// qualityOf is a media type's weight: 1 when it has none, and 0 when it has none that can be read.
func qualityOf(params map[string]string) float64 {
	text, ok := params["q"]
	if !ok {
		return 1
	}
	q, err := strconv.ParseFloat(text, 64)
	if err != nil || q < 0 || q > 1 {
		return 0
	}
	return q
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
		a, err := newAsset(f.Name(), content)
		if err != nil {
			return nil, err
		}
		routes["GET "+AssetsPath+f.Name()] = a
	}
	return routes, nil
}

// asset is a file that never changes, also compressed.
type asset struct {
	kind            string
	content, zipped []byte
}

// kinds are the media types of assets by their names' ends; those of the system may differ.
var kinds = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

func newAsset(name string, content []byte) (asset, error) {
	kind, ok := kinds[path.Ext(name)]
	if !ok {
		return asset{}, fmt.Errorf("%s has no known media type", name)
	}
	zipped, err := compressed(content)
	return asset{kind, content, zipped}, err
}

func compressed(content []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	if _, err := z.Write(content); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return b.Bytes(), nil
}

// ServeHTTP implements http.Handler.
func (a asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", forAYear)
	h.Add("Vary", "Accept-Encoding")
	body := a.content
	if takesGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body = a.zipped
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(body) // the browser may have gone
}

func takesGzip(r *http.Request) bool {
	for _, list := range r.Header.Values("Accept-Encoding") {
		for item := range strings.SplitSeq(list, ",") {
			name, params, err := mime.ParseMediaType(item)
			if err == nil && name == "gzip" && qualityOf(params) > 0 {
				return true
			}
		}
	}
	return false
}
