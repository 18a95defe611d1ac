package static_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/transport/static"
)

var header = http.Header{"Content-Type": {"text/plain"}, "Cache-Control": {"public"}}

func get(h http.Handler, headers ...string) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w.Header().Set("Vary", "Origin") // as the edge does
	h.ServeHTTP(w, r)
	return w
}

func unpacked(t *testing.T, packed []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestBodyIsSentInTheFormThatTheClientTakes(t *testing.T) {
	text := []byte(strings.Repeat("roamcard ", 1000))
	made := static.New(header, text)
	packed := get(made, "Accept-Encoding", "gzip").Body.Bytes()
	read := static.Unpack(header, packed)
	for name, b := range map[string]*static.Body{"made": made, "read": read} {
		for accept, gzipped := range map[string]bool{
			"gzip": true, "br, gzip;q=0.5": true, "GZIP": true, "gzip; q=1": true, "deflate,gzip": true,
			"": false, "br": false, "gzip;q=0": false, "gzip; q=0.000": false, "*": false, "xgzip": false, ";;,": false,
		} {
			w := get(b, "Accept-Encoding", accept)
			h := w.Header()
			if (h.Get("Content-Encoding") == "gzip") != gzipped || w.Code != http.StatusOK ||
				strings.Join(h.Values("Vary"), ", ") != "Origin, Accept-Encoding" || h.Get("Cache-Control") != "public" ||
				h.Get("Content-Type") != "text/plain" {
				t.Errorf("%s, %q: %d %v", name, accept, w.Code, h)
			}
			content := w.Body.Bytes()
			if gzipped {
				content = unpacked(t, content)
			}
			if !bytes.Equal(content, text) {
				t.Errorf("%s, %q: %d bytes", name, accept, len(content))
			}
		}
	}
	short := get(static.New(header, []byte("short")), "Accept-Encoding", "gzip").Header()
	if short.Get("Vary") != "Origin" || short.Get("Content-Encoding") != "" {
		t.Errorf("a short body: %v", short)
	}
	half := static.Unpack(header, packed[:len(packed)/2])
	defer func() {
		if recover() == nil {
			t.Error("half a body is sent")
		}
	}()
	get(half)
}

func TestClientThatHasAFormGetsNoBody(t *testing.T) {
	b := static.New(header, []byte(strings.Repeat("roamcard ", 1000)))
	tags := map[string]string{}
	for _, accept := range []string{"gzip", "identity"} {
		tag := get(b, "Accept-Encoding", accept).Header().Get("ETag")
		tags[tag] = accept
		for _, has := range []string{tag, "W/" + tag, `"other", ` + tag, "*"} {
			w := get(b, "Accept-Encoding", accept, "If-None-Match", has)
			if h := w.Header(); w.Code != http.StatusNotModified || w.Body.Len() > 0 || h.Get("ETag") != tag ||
				h.Get("Cache-Control") == "" || h.Get("Content-Type") != "" || h.Get("Content-Length") != "" {
				t.Errorf("%s with %s: %d %v", accept, has, w.Code, h)
			}
		}
		if w := get(b, "Accept-Encoding", accept, "If-None-Match", `"other"`); w.Code != http.StatusOK {
			t.Errorf("%s with another: %d", accept, w.Code)
		}
	}
	if len(tags) != 2 {
		t.Errorf("two forms have the ETags %v", tags)
	}
	r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
	r.Header.Set("If-None-Match", "*")
	if b.Send(w, r, http.StatusPaymentRequired); w.Code != http.StatusPaymentRequired || w.Header().Get("ETag") != "" {
		t.Errorf("another status: %d %v", w.Code, w.Header())
	}
}

// TestBodyIsPackedOnce: it is packed for the first request; each further answer allocates a few headers, and nothing of
// the body's size.
func TestBodyIsPackedOnce(t *testing.T) {
	b := static.New(header, bytes.Repeat([]byte("roamcard "), 1<<20))
	get(b)
	for _, accept := range []string{"gzip", "identity"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", accept)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 100 {
			b.ServeHTTP(nowhere{http.Header{}}, r)
		}
		runtime.ReadMemStats(&after)
		if per := (after.TotalAlloc - before.TotalAlloc) / 100; per > 4<<10 {
			t.Errorf("%s: a request allocates %d bytes", accept, per)
		}
	}
}

// nowhere is a client that keeps nothing.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) WriteHeader(int)             {}
func (n nowhere) Write(p []byte) (int, error) { return len(p), nil }
