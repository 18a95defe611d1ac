package rpcx

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// counting counts what is read of a body.
type counting struct {
	io.Reader
	n int
}

// Read implements io.Reader.
func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestCompressedMessageIsUnpackedToItsBound: 24 kB may hold a thousand times as much, and nobody unpacks it.
func TestCompressedMessageIsUnpackedToItsBound(t *testing.T) {
	const most = 4 << 10
	bomb := zipped(t, strings.Repeat(" ", 24<<20))
	from := &counting{Reader: bytes.NewReader(bomb)}
	b := &boundedGzip{most: most}
	if err := b.Reset(from); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, b); n != most+1 || err != nil || from.n > len(bomb)/4 {
		t.Errorf("%d bytes are unpacked of %d of %d read, %v", n, from.n, len(bomb), err)
	}
	handler := connect.NewUnaryHandlerSimple("/test.v1.Test/Echo",
		func(_ context.Context, m *wrapperspb.StringValue) (*wrapperspb.StringValue, error) { return m, nil },
		MaxBytes(most))
	for name, c := range map[string]struct {
		body []byte
		want int
	}{
		"a small one":       {zipped(t, `"fine"`), http.StatusOK},
		"one at its bound":  {zipped(t, `"`+strings.Repeat("a", most-2)+`"`), http.StatusOK},
		"one byte too long": {zipped(t, `"`+strings.Repeat("a", most-1)+`"`), http.StatusTooManyRequests},
		"a bomb":            {bomb, http.StatusTooManyRequests},
	} {
		r := httptest.NewRequest(http.MethodPost, "/test.v1.Test/Echo", bytes.NewReader(c.body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Content-Encoding", "gzip")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: %d %.200s", name, w.Code, w.Body)
		}
	}
}

// TestNoAnswerIsPackedForACaller, by any protocol.
func TestNoAnswerIsPackedForACaller(t *testing.T) {
	long := strings.Repeat("a", 8<<10)
	handler := connect.NewUnaryHandlerSimple("/test.v1.Test/Echo",
		func(context.Context, *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
			return wrapperspb.String(long), nil
		}, MaxBytes(1<<20))
	for kind, body := range map[string]string{
		"application/json": `""`, "application/proto": "", "application/grpc-web+proto": "\x00\x00\x00\x00\x00",
	} {
		r := httptest.NewRequest(http.MethodPost, "/test.v1.Test/Echo", strings.NewReader(body))
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Accept-Encoding", "gzip")
		r.Header.Set("Grpc-Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), long) || w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s: %d, %d bytes, %v", kind, w.Code, w.Body.Len(), w.Header())
		}
	}
}
