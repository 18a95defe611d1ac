package api

import (
	"context"

	"connectrpc.com/connect"
)

type (
	previewKey  struct{}
	resourceKey struct{}
	statusKey   struct{}
)

// WithPreview marks a call that came with no body at all and no payment, to see what a paid method
// asks for. Its message is empty and may break the method's rules; it must never do anything but
// answer with the terms.
func WithPreview(ctx context.Context) context.Context {
	return context.WithValue(ctx, previewKey{}, true)
}

// IsPreview says whether the call only asks for the terms, see WithPreview.
func IsPreview(ctx context.Context) bool {
	preview, _ := ctx.Value(previewKey{}).(bool)
	return preview
}

// UnlessPreview keeps an interceptor, such as validation, away from previews, whose message is empty.
func UnlessPreview(inner connect.Interceptor) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		wrapped := inner.WrapUnary(next)
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			if IsPreview(ctx) {
				return next(ctx, req)
			}
			return wrapped(ctx, req)
		}
	}
}

// WithResource remembers the path and query under which the caller reached the call, which is not
// the procedure when it came by REST: a payment names the address that was paid.
func WithResource(ctx context.Context, pathAndQuery string) context.Context {
	return context.WithValue(ctx, resourceKey{}, pathAndQuery)
}

// Resource is the path and query under which the caller reached the call.
func Resource(ctx context.Context) string {
	resource, _ := ctx.Value(resourceKey{}).(string)
	return resource
}

// Status holds the HTTP status that a failed call is to have on the Connect protocol, which by
// itself knows no 402 and no 409 for a failed precondition. It travels beside the error and not in
// the error's metadata, which would show on gRPC. It belongs to one request.
type Status struct{ code int }

// Code is the status, or 0 when none was set.
func (s *Status) Code() int { return s.code }

// WithStatus gives the calls below ctx a place to leave their status.
func WithStatus(ctx context.Context, status *Status) context.Context {
	return context.WithValue(ctx, statusKey{}, status)
}

// SetStatus leaves the HTTP status of a failed call for the edge; without a place it does nothing.
func SetStatus(ctx context.Context, code int) {
	if status, ok := ctx.Value(statusKey{}).(*Status); ok {
		status.code = code
	}
}
