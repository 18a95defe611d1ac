package discovery

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"net/http"
	"strconv"
	"strings"
)

var (
	//go:embed docs/index.html
	docsPage []byte
	//go:embed docs/init.js
	docsInit []byte
	// docsScript is the API reference from npm, compressed; see docs/README.md.
	//
	//go:embed docs/scalar.js.gz
	docsScript []byte
)

// docsPolicy lets the page load from this origin only. The reference sets inline styles.
const docsPolicy = "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"font-src 'self' data:; " +
	"connect-src 'self'; worker-src 'self' blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

// reference is the API reference in HTML and its scripts, by their patterns.
func reference() map[string]http.Handler {
	index := page{asHTML, docsPage}.handler()
	return map[string]http.Handler{
		"GET /docs": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Security-Policy", docsPolicy)
			index.ServeHTTP(w, r)
		}),
		"GET /docs/init.js":   page{"text/javascript; charset=utf-8", docsInit}.handler(),
		"GET /docs/scalar.js": compressed("text/javascript; charset=utf-8", docsScript),
	}
}

// compressed serves gzipped bytes, unpacked for a client that does not accept gzip.
func compressed(mediaType string, packed []byte) http.Handler {
	tag := etag(packed)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept-Encoding")
		if public(w, r, tag) {
			return
		}
		w.Header().Set("Content-Type", mediaType)
		if takesGzip(r.Header.Get("Accept-Encoding")) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Length", strconv.Itoa(len(packed)))
			// A failed write means that the client has disconnected.
			_, _ = w.Write(packed)
			return
		}
		plain, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			// The bytes are embedded, and a test unpacks them.
			panic(err)
		}
		_, _ = io.Copy(w, plain)
	})
}

// takesGzip reports whether a client accepts gzip.
func takesGzip(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		coding, weight, _ := strings.Cut(part, ";")
		if strings.TrimSpace(coding) == "gzip" {
			q, given := strings.CutPrefix(strings.ReplaceAll(weight, " ", ""), "q=")
			return !given || strings.Trim(q, "0.") != ""
		}
	}
	return false
}
