package rpcx

import (
	"context"

	"connectrpc.com/connect"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// CallInfo is the way by which one call came in, and where the call leaves its problem when it fails: the edge
// takes the HTTP status from it, for Connect by itself knows no 402 and no 409 for a failed precondition,
// and REST the whole document. It travels beside the error and not in the error's metadata, which would
// show on gRPC.
type CallInfo struct {
	// Resource is the path and query under which the caller reached the call, which is not the procedure
	// when it came by REST: a payment names the address that was paid.
	Resource string
	// Preview marks a call that came with no body at all and no payment, to see what a paid method asks
	// for. Its message is empty and may break the method's rules; it must never do anything but answer
	// with the terms.
	Preview bool
	// Shows says that the face writes the problem itself: the error goes without it.
	Shows   bool
	problem *roamcardv1.Problem
}

// Problem is what the call has left, or nil.
func (f *CallInfo) Problem() *roamcardv1.Problem { return f.problem }

type callInfoKey struct{}

// WithCallInfo says by which way the call below ctx came in.
func WithCallInfo(ctx context.Context, f *CallInfo) context.Context {
	return context.WithValue(ctx, callInfoKey{}, f)
}

// callInfoOf is the way by which the call of ctx came in, or an empty one.
func callInfoOf(ctx context.Context) *CallInfo {
	if f, ok := ctx.Value(callInfoKey{}).(*CallInfo); ok {
		return f
	}
	return &CallInfo{}
}

// IsPreview says whether the call only asks for the terms, see Face.
func IsPreview(ctx context.Context) bool { return callInfoOf(ctx).Preview }

// Resource is the path and query under which the caller reached the call.
func Resource(ctx context.Context) string { return callInfoOf(ctx).Resource }

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
