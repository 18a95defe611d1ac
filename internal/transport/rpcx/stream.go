package rpcx

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// Streams does for streaming methods what Errors, Policies and validation do for unary ones.
func Streams(c Config, validation connect.Interceptor) connect.Interceptor {
	return streams{c, validation}
}

type streams struct {
	Config
	validation connect.Interceptor
}

// WrapUnary implements connect.Interceptor.
func (streams) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc { return next }

// WrapStreamingClient implements connect.Interceptor.
func (streams) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (s streams) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	validated := s.validation.WrapStreamingHandler(next)
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		call := telemetry.Call{Procedure: conn.Spec().Procedure, Protocol: conn.Peer().Protocol}
		if err := s.checked(ctx, conn, validated); err != nil {
			return failed(ctx, call, err, nil)
		}
		telemetry.Called(ctx, call)
		return nil
	}
}

func (s streams) checked(
	ctx context.Context, conn connect.StreamingHandlerConn, next connect.StreamingHandlerFunc,
) error {
	method, ok := conn.Spec().Schema.(protoreflect.MethodDescriptor)
	if !ok {
		return next(ctx, conn) // not one of ours, such as reflection
	}
	p, err := PolicyOf(method)
	if err != nil {
		return err
	}
	if p.GetAccess() == roamcardv1.Access_ACCESS_WATCH {
		ctx, err = checkWatch(ctx, s.Config, p, conn.RequestHeader())
	} else {
		ctx, err = checkAccess(ctx, s.Callers, p, conn.RequestHeader())
	}
	if err == nil {
		err = checkRole(ctx, s.Config, method, p, nil)
	}
	if err != nil {
		return err
	}
	if err := throttle(s.Limits, p, Caller(ctx)); err != nil {
		return err
	}
	leave, err := s.Limits.Enter(limit.Streams, Caller(ctx).Wallet.Lower())
	if err != nil {
		return err
	}
	defer leave()
	if p.GetNoStore() {
		conn.ResponseHeader().Set("Cache-Control", PrivateNoStore)
	}
	return next(usedFor(ctx, p), conn)
}
