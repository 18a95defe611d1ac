package discovery

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/roamcard/roamcard/internal/transport/static"
)

// page is one document, which anyone may read and cache.
type page struct {
	static.Content
	// policy is its Content-Security-Policy, where it has another than all answers.
	policy string
}

func newPage(mediaType string, body []byte) (page, error) {
	content, err := static.New(mediaType, body)
	return page{Content: content}, err
}

// ServeHTTP implements http.Handler.
func (p page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=300")
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	if p.policy != "" {
		h.Set("Content-Security-Policy", p.policy)
	}
	p.Content.ServeHTTP(w, r)
}

// encode writes indented JSON, with <, > and & unescaped.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return b.Bytes(), err
}
