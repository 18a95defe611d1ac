package discovery

import (
	_ "embed"
	"errors"
	"fmt"

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

// reference is the API reference in HTML and its scripts, by their patterns.
func reference() (map[string]page, error) {
	const asScript = "text/javascript; charset=utf-8"
	script, err := static.Zipped(asScript, docsScript)
	if err != nil {
		return nil, fmt.Errorf("read the API reference: %w", err)
	}
	index, err := newPage(asHTML, docsPage)
	index.policy = docsPolicy
	first, second := newPage(asScript, docsInit)
	return map[string]page{
		"/docs": index, "/docs/init.js": first, "/docs/scalar.js": {Content: script},
	}, errors.Join(err, second)
}
