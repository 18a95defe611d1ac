package discovery

import (
	_ "embed"
	"net/http"

	"github.com/roamcard/roamcard/internal/transport/static"
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

// script is one for all sites of a process.
var script = static.Unpack(public("text/javascript; charset=utf-8"), docsScript)

// reference is the API reference in HTML and its scripts, by their patterns.
func reference() map[string]http.Handler {
	header := public(asHTML)
	header.Set("Content-Security-Policy", docsPolicy)
	return map[string]http.Handler{
		"GET /docs":           static.New(header, docsPage),
		"GET /docs/init.js":   document("text/javascript; charset=utf-8", docsInit),
		"GET /docs/scalar.js": script,
	}
}
