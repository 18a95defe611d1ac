package discovery

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// page is one document, which does not change while the process runs.
type page struct {
	mediaType string
	body      []byte
}

// handler serves a page with an ETag.
func (p page) handler() http.Handler {
	tag := etag(p.body)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if public(w, r, tag) {
			return
		}
		w.Header().Set("Content-Type", p.mediaType)
		w.Header().Set("Content-Length", strconv.Itoa(len(p.body)))
		// A failed write means that the client has disconnected.
		_, _ = w.Write(p.body)
	})
}

// public sets the headers of a document that anyone may read and cache, and answers 304 to a client that has it.
func public(w http.ResponseWriter, r *http.Request, tag string) (known bool) {
	h := w.Header()
	h.Set("ETag", tag)
	h.Set("Cache-Control", "public, max-age=300")
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	for given := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
		given = strings.TrimPrefix(strings.TrimSpace(given), "W/")
		if given == tag || given == "*" {
			w.WriteHeader(http.StatusNotModified)
			return true
		}
	}
	return false
}

func etag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
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
