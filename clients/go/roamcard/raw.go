package roamcard

import (
	"context"
	"net/http"
)

// RawResponse is what else an answer said. Its body is not kept: it may hold what installs an eSIM.
type RawResponse struct {
	Status int
	Header http.Header
	// err is why there is none.
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
	return res, err
}
