package rpcx

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// echo answers with the text that it is sent, or another, over HTTP with messages of a bounded size.
func echo(most int, instead string) http.Handler {
	server := connect.NewServer()
	server.Register(connect.Method{
		Spec: connect.Spec{Procedure: "/test.v1.Test/Echo"},
		Handler: func(_ context.Context, _ connect.Spec, stream connect.ServerStream) error {
			var text wrapperspb.StringValue
			if err := stream.Receive(&text); err != nil {
				return err
			}
			return stream.Send(wrapperspb.String(cmp.Or(instead, text.GetValue())))
		},
	})
	mux := http.NewServeMux()
	connecthttp.Mount(mux, server, OverHTTP(most)...)
	return mux
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
	handler := echo(most, "")
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
	handler := echo(1<<20, long)
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
