package telemetry

import (
	"context"

	"github.com/google/uuid"
)

// maxRequestID is the longest request id that is accepted from a caller.
const maxRequestID = 64

type requestIDKey struct{}

// NewRequestID makes an id for a request without one.
func NewRequestID() string { return uuid.NewString() }

// RequestIDFrom accepts the id that a caller sent in X-Request-Id when it is 1 to 64 characters of A-Z, a-z, 0-9, dot,
// underscore and hyphen, and makes a new one otherwise: the id is written into logs and headers.
func RequestIDFrom(header string) string {
	if header == "" || len(header) > maxRequestID {
		return NewRequestID()
	}
	for _, c := range []byte(header) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return NewRequestID()
		}
	}
	return header
}

// WithRequestID adds the request's id to ctx.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// RequestID is the id of the request that ctx belongs to, or empty.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}
