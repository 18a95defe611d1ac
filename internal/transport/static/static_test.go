package static_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/transport/static"
)

func ask(c static.Content, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

func TestContentIsServedInTheFormThatTheClientTakes(t *testing.T) {
	long := []byte(strings.Repeat("a document ", 1000))
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(long)
	_ = z.Close()
	made, err := static.New("text/plain", long)
	if err != nil {
		t.Fatal(err)
	}
	given, err := static.Zipped("text/plain", packed.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]static.Content{"made": made, "given": given} {
		for accept, want := range map[string]string{
			"gzip": "gzip", "br, gzip;q=0.5": "gzip", "gzip;q=0": "", "": "", "br": "", "gzip;q=x": "",
		} {
			w := ask(c, "Accept-Encoding", accept)
			var body io.Reader = w.Body
			if want == "gzip" {
				if body, err = gzip.NewReader(w.Body); err != nil {
					t.Fatalf("%s, %q: %v", name, accept, err)
				}
			}
			got, err := io.ReadAll(body)
			if err != nil || !bytes.Equal(got, long) || w.Header().Get("Content-Encoding") != want ||
				w.Header().Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s, %q: %d bytes, %v, %v", name, accept, len(got), w.Header(), err)
			}
		}
	}
	if _, err := static.Zipped("text/plain", []byte("not packed")); err == nil {
		t.Error("what is not compressed is taken")
	}
}

func TestClientThatHasContentGetsNone(t *testing.T) {
	c, err := static.New("text/plain", []byte(strings.Repeat("a", 1000)))
	if err != nil {
		t.Fatal(err)
	}
	plain, packed := ask(c), ask(c, "Accept-Encoding", "gzip")
	tag, zipped := plain.Header().Get("ETag"), packed.Header().Get("ETag")
	if tag == "" || tag == zipped {
		t.Errorf("tags %s and %s of different bytes", tag, zipped)
	}
	for _, has := range []string{tag, zipped, "W/" + tag, `"other", ` + tag, "*"} {
		if w := ask(c, "If-None-Match", has); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
			t.Errorf("who has %s: %d, %d bytes", has, w.Code, w.Body.Len())
		}
	}
	if w := ask(c, "If-None-Match", `"other"`); w.Code != http.StatusOK {
		t.Errorf("who has another: %d", w.Code)
	}
}

// TestBodiesAreKeptReady: no request packs or unpacks one, whatever it takes.
func TestBodiesAreKeptReady(t *testing.T) {
	c, err := static.New("text/plain", bytes.Repeat([]byte("0123456789abcdef"), 1<<18))
	if err != nil {
		t.Fatal(err)
	}
	for _, accept := range []string{"gzip", ""} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", accept)
		w := discard{http.Header{}}
		if n := testing.AllocsPerRun(10, func() { c.ServeHTTP(w, r) }); n > 30 {
			t.Errorf("%q: %.0f allocations for an answer of 4 MiB", accept, n)
		}
	}
	if got := c.Weight(); got != 17 {
		t.Errorf("4 MiB count as %d requests", got)
	}
}

type discard struct{ h http.Header }

func (d discard) Header() http.Header       { return d.h }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}
