package roamcard

import (
	"cmp"
	"context"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Version is this package's, and the service's own.
const Version = "0.3.1"

// userAgent is what requests say of who asks.
var userAgent = "roamcard-go/" + Version + " (" + runtime.Version() + "; " + runtime.GOOS + "/" + runtime.GOARCH + ")"

type (
	headerKey  struct{}
	timeoutKey struct{}
)

// reserved are headers that this package sets itself: to pay, to sign in, and for the protocol.
var reserved = []string{"Authorization", "Payment-Signature", "Content-Type", "Content-Encoding", "Content-Length",
	"Accept-Encoding", "Host"}

// WithHeader gives every request of the call made with ctx a header. Those that this package sets itself, to pay, to
// sign in and for the protocol, it keeps: they are ignored here.
func WithHeader(ctx context.Context, name, value string) context.Context {
	name = http.CanonicalHeaderKey(name)
	if slices.Contains(reserved, name) || strings.HasPrefix(name, "Connect-") {
		return ctx
	}
	headers := headersOf(ctx).Clone()
	if headers == nil {
		headers = http.Header{}
	}
	headers.Set(name, value)
	return context.WithValue(ctx, headerKey{}, headers)
}

// WithIdempotencyKey gives the call made with ctx the Idempotency-Key header that some routes ask for.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return WithHeader(ctx, "Idempotency-Key", key)
}

// WithDeliveryToken lets the call made with ctx read an eSIM order by its delivery token, without sign-in.
func WithDeliveryToken(ctx context.Context, token Secret) context.Context {
	return WithHeader(ctx, deliveryHeader, token.Reveal())
}

// WithTimeout bounds each answer to the call made with ctx, in place of Config.Timeout; zero or less changes nothing.
// What bounds the whole call, with all its repeats, is the deadline of ctx.
func WithTimeout(ctx context.Context, d time.Duration) context.Context {
	if d <= 0 {
		return ctx
	}
	return context.WithValue(ctx, timeoutKey{}, d)
}

func headersOf(ctx context.Context) http.Header {
	headers, _ := ctx.Value(headerKey{}).(http.Header)
	return headers
}

// timeoutOf is how long one answer may take.
func timeoutOf(ctx context.Context, usual time.Duration) time.Duration {
	own, _ := ctx.Value(timeoutKey{}).(time.Duration)
	return cmp.Or(own, usual)
}

// addressed is a transport whose requests say who asks, and have the headers that their calls were given.
type addressed struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (a addressed) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	// The Connect client names itself; whoever uses Client.HTTP may have done so, too.
	if named := req.Header.Get("User-Agent"); named == "" || strings.HasPrefix(named, "connect-go/") {
		req.Header.Set("User-Agent", userAgent)
	}
	for name, values := range headersOf(req.Context()) {
		req.Header[name] = slices.Clone(values)
	}
	return a.next.RoundTrip(req)
}
