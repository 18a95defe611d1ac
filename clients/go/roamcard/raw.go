package roamcard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// RawResponse is what else an answer said. Its body is not kept: it may hold what installs an eSIM.
type RawResponse struct {
	Status int         `json:"status"`
	Header http.Header `json:"header"`
	// err is why there is none, or only a part.
	err error
}

// RequestID is what the service's operators ask for.
func (r RawResponse) RequestID() string { return r.Header.Get("X-Request-Id") }

type rawKey struct{}

// WithRawResponse fills to in with the answer to the call made with ctx, the last one when there were several.
func WithRawResponse(ctx context.Context, to *RawResponse) context.Context {
	outer, _ := ctx.Value(rawKey{}).([]*RawResponse)
	return context.WithValue(ctx, rawKey{}, append(outer[:len(outer):len(outer)], to))
}

// recorder keeps answers for those who asked for them.
type recorder struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := r.next.RoundTrip(req)
	to, _ := req.Context().Value(rawKey{}).([]*RawResponse)
	for _, raw := range to {
		*raw = RawResponse{err: err}
		if err == nil {
			raw.Status, raw.Header = res.StatusCode, res.Header.Clone()
		}
	}
	if err == nil && len(to) > 0 && !streams(res) {
		res.Body = &recordedBody{res.Body, to}
	}
	return res, err
}

// recordedBody tells those who asked for an answer that it ended before its end.
type recordedBody struct {
	io.ReadCloser
	to []*RawResponse
}

// Read implements io.Reader.
func (b *recordedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		for _, raw := range b.to {
			raw.err = err
		}
	}
	return n, err
}

// limited bounds what is read of an answer, decompressed.
type limited struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := l.next.RoundTrip(req)
	if err == nil && res.Body != nil && !streams(res) {
		res.Body = &limitedBody{ReadCloser: res.Body, left: maxAnswer}
	}
	return res, err
}

var errTooLong = fmt.Errorf("the answer has more than %d bytes", maxAnswer)

// streams says that an answer is a stream, whose messages are bounded one by one.
func streams(res *http.Response) bool {
	return strings.HasPrefix(res.Header.Get("Content-Type"), "application/connect+")
}

type limitedBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	if b.left -= n; b.left < 0 {
		return 0, errTooLong
	}
	return n, err
}
