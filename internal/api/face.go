package api

import (
	"context"

	"connectrpc.com/connect"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

type (
	previewKey  struct{}
	resourceKey struct{}
	refusalKey  struct{}
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

// Refusal is where a failed call leaves its problem for the face that answers: the edge takes the HTTP
// status from it, for Connect by itself knows no 402 and no 409 for a failed precondition, and REST the
// whole document. It travels beside the error and not in the error's metadata, which would show on gRPC.
// It belongs to one request.
type Refusal struct {
	// Shown says that the face writes the problem itself: the error goes without it.
	Shown   bool
	problem *roamcardv1.Problem
}

// Problem is what the call has left, or nil.
func (r *Refusal) Problem() *roamcardv1.Problem { return r.problem }

// WithRefusal gives the calls below ctx a place to leave their problem.
func WithRefusal(ctx context.Context, r *Refusal) context.Context {
	return context.WithValue(ctx, refusalKey{}, r)
}

// leave hands the problem of a failed call to the face, and says whether the face shows it; without a
// place it does nothing.
func leave(ctx context.Context, problem *roamcardv1.Problem) (shown bool) {
	r, ok := ctx.Value(refusalKey{}).(*Refusal)
	if !ok {
		return false
	}
	r.problem = problem
	return r.Shown
}
