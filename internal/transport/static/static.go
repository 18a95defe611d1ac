// Package static serves bodies that do not change while the process runs, from memory.
package static

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Body is one body in both forms: as it is and, where that is shorter, compressed by gzip. Each is made once, for the
// first request that needs it: most bodies of a process that starts are never asked for.
type Body struct {
	header        http.Header
	plain, packed func() form
}

// form is a body as it is sent. Each has an ETag of its own, because their bytes differ.
type form struct {
	content               []byte
	encoding, length, tag string
}

func newForm(content []byte, encoding string) form {
	sum := sha256.Sum256(content)
	return form{content, encoding, strconv.Itoa(len(content)), `"` + hex.EncodeToString(sum[:16]) + `"`}
}

// New makes a body. The header is set on each answer with it, and has at least the Content-Type.
func New(header http.Header, content []byte) *Body {
	return &Body{header.Clone(), sync.OnceValue(func() form { return newForm(content, "") }), sync.OnceValue(func() form {
		if packed := pack(content); len(packed) < len(content) {
			return newForm(packed, "gzip")
		}
		return form{}
	})}
}

// Unpack makes a body of its compressed form, which the program was built with: one that cannot be unpacked panics for
// the first request that needs it as it is.
func Unpack(header http.Header, packed []byte) *Body {
	return &Body{header.Clone(), sync.OnceValue(func() form { return newForm(unpack(packed), "") }),
		sync.OnceValue(func() form { return newForm(packed, "gzip") })}
}

func unpack(packed []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic(fmt.Errorf("unpack: %w", err))
	}
	content, err := io.ReadAll(r)
	if err != nil {
		panic(fmt.Errorf("unpack: %w", err))
	}
	return content
}

// writers are reused, because each takes a megabyte.
var writers = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestCompression) // the level is one that there is
	return w
}}

func pack(content []byte) []byte {
	var b bytes.Buffer
	w, _ := writers.Get().(*gzip.Writer)
	defer writers.Put(w)
	w.Reset(&b)
	_, _ = w.Write(content) // a buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

// Content is the body as it is.
func (b *Body) Content() []byte { return b.plain().content }

// ServeHTTP implements http.Handler.
func (b *Body) ServeHTTP(w http.ResponseWriter, r *http.Request) { b.Send(w, r, http.StatusOK) }

// Send answers with the body and a status, in the form that the client takes. One that has a 200 already gets a 304.
func (b *Body) Send(w http.ResponseWriter, r *http.Request, status int) {
	h := w.Header()
	for name, values := range b.header {
		if name == "Vary" {
			values = slices.Concat(h[name], values)
		}
		h[name] = values
	}
	sent := b.packed()
	if sent.content != nil {
		h.Add("Vary", "Accept-Encoding")
	}
	if sent.content == nil || !takesGzip(r.Header) {
		sent = b.plain()
	}
	if status == http.StatusOK {
		h.Set("ETag", sent.tag)
		if has(r.Header, sent.tag) {
			h.Del("Content-Type")
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	if sent.encoding != "" {
		h.Set("Content-Encoding", sent.encoding)
	}
	h.Set("Content-Length", sent.length)
	w.WriteHeader(status)
	// A failed write means that the client has disconnected.
	_, _ = w.Write(sent.content)
}

// has reports whether a client says that it has a form already.
func has(h http.Header, tag string) bool {
	for _, list := range h.Values("If-None-Match") {
		for given := range strings.SplitSeq(list, ",") {
			given = strings.TrimPrefix(strings.TrimSpace(given), "W/")
			if given == tag || given == "*" {
				return true
			}
		}
	}
	return false
}

// takesGzip reports whether a client accepts gzip.
func takesGzip(h http.Header) bool {
	for _, list := range h.Values("Accept-Encoding") {
		for part := range strings.SplitSeq(list, ",") {
			coding, weight, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
				q, given := strings.CutPrefix(strings.ReplaceAll(weight, " ", ""), "q=")
				return !given || strings.Trim(q, "0.") != ""
			}
		}
	}
	return false
}
