package api

import (
	"context"
	"errors"
	"log/slog"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Streams puts before the methods that stream what stands before all others: log, errors, policy, validation.
func Streams(c Config, log *slog.Logger, validation connect.Interceptor) connect.Interceptor {
	return streams{c, log, validation}
}

type streams struct {
	Config
	log        *slog.Logger
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
		begin := s.Now()
		err := s.admitted(ctx, conn, validated)
		attrs := []slog.Attr{
			slog.String("procedure", conn.Spec().Procedure), slog.String("protocol", conn.Peer().Protocol),
			slog.Duration("took", s.Now().Sub(begin)),
		}
		if err == nil {
			s.log.LogAttrs(ctx, slog.LevelInfo, "stream", attrs...)
			return nil
		}
		shown := ToConnect(ctx, err)
		attrs = append(attrs, slog.String("code", problemCode(shown)))
		level := slog.LevelInfo
		if ours(shown) && !errors.Is(err, context.Canceled) {
			level = slog.LevelError
			attrs = append(attrs, slog.Any("error", Cause(shown)))
		}
		s.log.LogAttrs(ctx, level, "stream", attrs...)
		return shown
	}
}

func (s streams) admitted(ctx context.Context, conn connect.StreamingHandlerConn, next connect.StreamingHandlerFunc) error {
	method, ok := conn.Spec().Schema.(protoreflect.MethodDescriptor)
	if !ok {
		return next(ctx, conn) // not one of ours, such as reflection
	}
	p, err := PolicyOf(method)
	if err != nil {
		return err
	}
	if ctx, err = admit(ctx, s.Auth, p, conn.RequestHeader()); err != nil {
		return err
	}
	if err := throttle(s.Limits, p, caller(ctx)); err != nil {
		return err
	}
	if p.GetNoStore() {
		conn.ResponseHeader().Set("Cache-Control", "private, no-store")
	}
	return next(ctx, conn)
}
