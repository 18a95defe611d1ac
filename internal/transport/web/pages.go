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
type Document struct{ *static.Body }

// PayDocument is the page that pays an order at its link.
func PayDocument() (Document, error) { return document("pay.html", unlisted) }

// ShopDocument is the page at the service's address, which sells and shows what was bought. Search engines may list it.
func ShopDocument() (Document, error) { return document("shop.html", fresh) }

var (
	unlisted = http.Header{"X-Robots-Tag": {"noindex"}}
	// fresh is of a page that names what it loads by digests: an old one would ask for what is not there any more.
	fresh = http.Header{"Cache-Control": {"no-cache"}}
)

func document(name string, headers ...http.Header) (Document, error) {
	content, err := dist.ReadFile("dist/" + name)
	if err != nil {
		return Document{}, fmt.Errorf("read the page: %w", err)
	}
	return documentOf(content, headers...), nil
}

// documentOf is a page with the headers of every page, but for those that it has otherwise.
func documentOf(content []byte, headers ...http.Header) Document {
	all := http.Header{
		"Vary": {"Accept"}, "Content-Type": {"text/html; charset=utf-8"}, "Content-Security-Policy": {policyOfPages},
		"Cross-Origin-Opener-Policy": {"same-origin"},
	}
	for _, more := range headers {
		maps.Copy(all, more)
	}
	return Document{static.New(all, content)}
}

// MissingDocument is the page at an address where there is nothing.
func MissingDocument() (Document, error) {
	content, err := files.ReadFile("missing.html")
	if err != nil {
		return Document{}, fmt.Errorf("read the page: %w", err)
	}
	own := http.Header{"Content-Security-Policy": {statusPolicy}, "Cache-Control": {"no-store"}}
	return documentOf(content, unlisted, own), nil
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
		page.ServeHTTP(w, r)
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

// Assets is the handler of what pages load, by its pattern of http.ServeMux. notFound answers for what there is not.
func Assets(notFound http.Handler) (map[string]http.Handler, error) {
	return handlers(assets, notFound)
}

func handlers(
	read func() (map[string]*static.Body, error), notFound http.Handler,
) (map[string]http.Handler, error) {
	files, err := read()
	if err != nil {
		return nil, err
	}
	return map[string]http.Handler{
		"GET " + AssetsPath + "{file}": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if file, ok := files[r.PathValue("file")]; ok {
				file.ServeHTTP(w, r)
				return
			}
			notFound.ServeHTTP(w, r)
		}),
	}, nil
}

// assets are read once for all servers of a process, because they take long to compress.
var assets = sync.OnceValues(func() (map[string]*static.Body, error) { return assetsIn("dist/assets") })

// assetsIn are what pages load from one folder, by name.
func assetsIn(folder string) (map[string]*static.Body, error) {
	all := map[string]*static.Body{}
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
		all[f.Name()] = static.New(http.Header{"Content-Type": {kind}, "Cache-Control": {forAYear}}, content)
	}
	return all, nil
}

// kinds are the media types of assets by their names' ends; those of the system may differ.
var kinds = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}
