package rpcx

import (
	"context"

	"connectrpc.com/connect"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// CallInfo is how one call arrived, and where it leaves its problem when it fails. The edge takes the HTTP
// status from it, because Connect has no 402 and no 409 for a failed precondition; REST takes the whole
// problem. It is in the context and not in the error's metadata, which gRPC would send to the caller.
type CallInfo struct {
	// Resource is the path and query under which the caller reached the call, which is not the procedure
	// when it arrived by REST: a payment names the URL that was paid.
	Resource string
	// Preview marks a call of a paid method without a body and without a payment, which asks for the terms.
	// Its message is empty and may break the method's rules; the method must only answer with the terms.
	Preview bool
	// WritesProblem says that whoever called writes the problem itself: the error has no details.
	WritesProblem bool
	problem       *roamcardv1.Problem
}

// Problem is the problem of the failed call, or nil.
func (i *CallInfo) Problem() *roamcardv1.Problem { return i.problem }

type callInfoKey struct{}

// WithCallInfo makes i the info of the call that runs with the context.
func WithCallInfo(ctx context.Context, i *CallInfo) context.Context {
	return context.WithValue(ctx, callInfoKey{}, i)
}

// callInfoOf is the info of the call that runs with ctx, or an empty one.
func callInfoOf(ctx context.Context) *CallInfo {
	if i, ok := ctx.Value(callInfoKey{}).(*CallInfo); ok {
		return i
	}
	return &CallInfo{}
}

// IsPreview reports whether the call only asks for the terms, see CallInfo.
func IsPreview(ctx context.Context) bool { return callInfoOf(ctx).Preview }

// Resource is the path and query under which the caller reached the call.
func Resource(ctx context.Context) string { return callInfoOf(ctx).Resource }

// UnlessPreview runs an interceptor, such as validation, for all calls but previews, whose message is empty.
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
