// Package static serves bytes that do not change while the process runs. They are kept as they are and compressed, so
// that no request packs or unpacks anything.
package static

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// Content is one body in both forms.
type Content struct {
	mediaType     string
	plain, zipped []byte
	// tag begins the ETag of both.
	tag string
}

// New keeps a body.
func New(mediaType string, plain []byte) (Content, error) {
	c := Once(mediaType, plain)
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(plain)
		err = errors.Join(err, z.Close())
	}
	if err != nil {
		return Content{}, fmt.Errorf("compress: %w", err)
	}
	if b.Len() < len(plain) {
		c.zipped = b.Bytes()
	}
	return c, nil
}

// Once is a body that is made for one answer, and not compressed.
func Once(mediaType string, plain []byte) Content {
	return Content{mediaType: mediaType, plain: plain, tag: tagOf(plain)}
}

// Zipped keeps a body that is compressed already.
func Zipped(mediaType string, zipped []byte) (Content, error) {
	z, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return Content{}, fmt.Errorf("unpack: %w", err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		return Content{}, fmt.Errorf("unpack: %w", err)
	}
	return Content{mediaType: mediaType, plain: plain, zipped: zipped, tag: tagOf(plain)}, nil
}

func tagOf(plain []byte) string {
	sum := sha256.Sum256(plain)
	return hex.EncodeToString(sum[:16])
}

// Plain is the body as it is.
func (c Content) Plain() []byte { return c.plain }

// perRequest is how many bytes one request may have for its one.
const perRequest = 256 << 10

// Weight is for how many requests one of this body counts.
func (c Content) Weight() int { return 1 + len(c.plain)/perRequest }

// ServeHTTP implements http.Handler: the form that the client takes, with its ETag, or 304 to a client that has it.
// Headers that are set already stay.
func (c Content) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, tag := c.plain, `"`+c.tag+`"`
	h := w.Header()
	zip := c.zipped != nil && takesGzip(r)
	if c.zipped != nil {
		h.Add("Vary", "Accept-Encoding")
	}
	if zip {
		body, tag = c.zipped, `"`+c.tag+`-gzip"`
	}
	h.Set("ETag", tag)
	if known(r, c.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", c.mediaType)
	if zip {
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(body) // the client may have gone
}

// known reports whether a client has the body, in either form.
func known(r *http.Request, tag string) bool {
	for _, list := range r.Header.Values("If-None-Match") {
		for given := range strings.SplitSeq(list, ",") {
			given = strings.Trim(strings.TrimPrefix(strings.TrimSpace(given), "W/"), `"`)
			if given == "*" || strings.TrimSuffix(given, "-gzip") == tag {
				return true
			}
		}
	}
	return false
}

func takesGzip(r *http.Request) bool {
	for _, list := range r.Header.Values("Accept-Encoding") {
		for item := range strings.SplitSeq(list, ",") {
			name, params, err := mime.ParseMediaType(item)
			if err == nil && name == "gzip" && Quality(params) > 0 {
				return true
			}
		}
	}
	return false
}

// Quality is a media type's weight (RFC 9110, 12.4.2): 1 when it has none, and 0 when it has none that can be read.
func Quality(params map[string]string) float64 {
	text, ok := params["q"]
	if !ok {
		return 1
	}
	q, err := strconv.ParseFloat(text, 64)
	if err != nil || q < 0 || q > 1 {
		return 0
	}
	return q
}
