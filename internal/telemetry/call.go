package telemetry

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
)

// Call is the procedure that a request called and how that ended, for the request's log line and span.
type Call struct {
	// Procedure is the full name with its slashes; Protocol is that of the call.
	Procedure, Protocol string
	// Code is the Connect code of a failed call, else empty.
	Code string
	// Problem is the code of the fault that the caller gets; empty when the call succeeded.
	Problem string
	// Err is the cause of an internal failure, or of an end by the caller, for the log only.
	Err error
	// Ended says that the caller stopped waiting, which is no failure: what it began goes on.
	Ended bool
}

// Method is the procedure as spans and metrics name it.
func (c Call) Method() string { return strings.TrimPrefix(c.Procedure, "/") }

// AppendAttrs adds the call to the attributes of a log line, or nothing if there was no call.
func (c Call) AppendAttrs(attrs []slog.Attr) []slog.Attr {
	if c.Procedure == "" {
		return attrs
	}
	attrs = append(attrs, slog.String("procedure", c.Procedure), slog.String("rpc", c.Protocol))
	if c.Problem != "" {
		attrs = append(attrs, slog.String("code", c.Problem))
	}
	if c.Err != nil {
		attrs = append(attrs, slog.Any("error", c.Err))
	}
	return attrs
}

// Level is the log level of the call. It goes by whose context ended, as Ended says, and never by the type of an error.
func (c Call) Level() slog.Level {
	if c.Err != nil && !c.Ended {
		return slog.LevelError
	}
	return slog.LevelInfo
}

// Calls holds the last call of a request. It is safe for concurrent use.
type Calls struct{ last atomic.Pointer[Call] }

// Last is the call, or its zero value when the request has reached no procedure.
func (c *Calls) Last() Call {
	if last := c.last.Load(); last != nil {
		return *last
	}
	return Call{}
}

type callsKey struct{}

// WithCalls adds a place to ctx where the request's call is recorded.
func WithCalls(ctx context.Context, c *Calls) context.Context {
	return context.WithValue(ctx, callsKey{}, c)
}

// Called records the call of the request that ctx belongs to.
func Called(ctx context.Context, call Call) {
	if c, ok := ctx.Value(callsKey{}).(*Calls); ok {
		c.last.Store(&call)
	}
}
