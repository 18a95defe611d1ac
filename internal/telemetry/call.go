package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
)

// Call is what a request has come to, for its one line and its one span: the procedure and how it ended.
type Call struct {
	// Procedure is the full name with its slashes, Protocol the one it was called in.
	Procedure, Protocol string
	// Code is how the call ended in the words of Connect; empty when it went well.
	Code string
	// Problem is the code of the fault that the caller is shown; empty when the call went well.
	Problem string
	// Err is what was behind a failure of ours, for the log only.
	Err error
}

// Method is the procedure as spans and metrics name it.
func (c Call) Method() string { return strings.TrimPrefix(c.Procedure, "/") }

// AppendAttrs adds the call to the attributes of a line; nothing when there was none.
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

// Level is the level of a line with the call. A caller that hung up is no failure; what it began goes on
// without it.
func (c Call) Level() slog.Level {
	if c.Err != nil && !errors.Is(c.Err, context.Canceled) {
		return slog.LevelError
	}
	return slog.LevelInfo
}

// Calls is where a request keeps the last call that it has made. It is safe for concurrent use.
type Calls struct{ last atomic.Pointer[Call] }

// Last is the call, or its zero value when the request has reached no procedure.
func (c *Calls) Last() Call {
	if last := c.last.Load(); last != nil {
		return *last
	}
	return Call{}
}

type callsKey struct{}

// WithCalls gives what happens below ctx a place to note its call.
func WithCalls(ctx context.Context, c *Calls) context.Context {
	return context.WithValue(ctx, callsKey{}, c)
}

// Called notes the call of the request that ctx belongs to.
func Called(ctx context.Context, call Call) {
	if c, ok := ctx.Value(callsKey{}).(*Calls); ok {
		c.last.Store(&call)
	}
}
