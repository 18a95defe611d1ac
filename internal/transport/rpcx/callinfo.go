package rpcx

import (
	"context"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/auth"
)

// CallInfo is how one call arrived, who makes it, and where it leaves its problem when it fails. The edge takes the
// HTTP status from it, because Connect has no 402 and no 409 for a failed precondition; REST takes the whole
// problem. It is in the context and not in the answer's headers, which the caller would see.
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
	// caller is known once the message is read, see Policies.
	caller auth.Caller
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

// withCallInfo is a context that has an info, its own or an empty one.
func withCallInfo(ctx context.Context) (context.Context, *CallInfo) {
	if i, ok := ctx.Value(callInfoKey{}).(*CallInfo); ok {
		return ctx, i
	}
	i := &CallInfo{}
	return WithCallInfo(ctx, i), i
}

// IsPreview reports whether the call only asks for the terms, see CallInfo.
func IsPreview(ctx context.Context) bool { return callInfoOf(ctx).Preview }

// Resource is the path and query under which the caller reached the call.
func Resource(ctx context.Context) string { return callInfoOf(ctx).Resource }

// Caller is who calls, as the policy authenticated it.
func Caller(ctx context.Context) auth.Caller { return callInfoOf(ctx).caller }
