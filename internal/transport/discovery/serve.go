package discovery

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/roamcard/roamcard/internal/transport/static"
)

// document is a body that anyone may read and cache.
func document(mediaType string, body []byte) *static.Body { return static.New(public(mediaType), body) }

func public(mediaType string) http.Header {
	h := http.Header{}
	h.Set("Content-Type", mediaType)
	h.Set("Cache-Control", "public, max-age=300")
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	return h
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
