// Package discovery is the documents by which strangers find out what the service offers.
package discovery

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/roamcard/roamcard/gen"
)

// OpenAPI serves the OpenAPI 3.1 description, generated from the protos that serve the routes.
func OpenAPI() http.Handler { return document("application/json", gen.OpenAPI) }

// document serves bytes that do not change while the process runs. Caches ask whether they did.
func document(mediaType string, body []byte) http.Handler {
	sum := sha256.Sum256(body)
	etag := `"` + hex.EncodeToString(sum[:16]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("ETag", etag)
		h.Set("Cache-Control", "public, max-age=300")
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", mediaType)
		// The client has gone away when this fails; there is nobody to tell.
		_, _ = w.Write(body)
	})
}
