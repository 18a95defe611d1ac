package web

import (
	"fmt"
	"net/http"
	"sync"
)

// Console are the handlers of the operators' console, by patterns of http.ServeMux: its page at the root, and what the
// page loads. They are for an origin of their own, where nothing else is served.
func Console() (map[string]http.Handler, error) {
	page, err := document("console/console.html")
	if err != nil {
		return nil, err
	}
	routes, err := consoleAssets()
	if err != nil {
		return nil, fmt.Errorf("make the console: %w", err)
	}
	all := map[string]http.Handler{"GET /{$}": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		page.Send(w, http.StatusOK)
	})}
	for pattern, handler := range routes {
		all[pattern] = handler
	}
	return all, nil
}

var consoleAssets = sync.OnceValues(func() (map[string]http.Handler, error) { return assetsIn("dist/console/assets") })
