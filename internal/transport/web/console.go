package web

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/roamcard/roamcard/internal/transport/static"
)

// Console are the handlers of the operators' console, by patterns of http.ServeMux: its page at the root, and what the
// page loads. They are for an origin of their own, where nothing else is served.
func Console(notFound http.Handler) (map[string]http.Handler, error) {
	page, err := document("console/console.html", unlisted, fresh)
	if err != nil {
		return nil, err
	}
	all, err := handlers(consoleAssets, notFound)
	if err != nil {
		return nil, fmt.Errorf("make the console: %w", err)
	}
	all["GET /{$}"] = page
	return all, nil
}

var consoleAssets = sync.OnceValues(func() (map[string]*static.Body, error) { return assetsIn("dist/console/assets") })
