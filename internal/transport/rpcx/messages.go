package rpcx

import (
	"context"
	"sync/atomic"

	"connectrpc.com/connect"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
)

// maxMessages is how many messages a stream may have in each direction. A client of reflection needs some dozens.
const maxMessages = 1000

// Messages counts the messages of a stream as requests of its address, but the first one, which the edge has counted,
// and the answers to those that were counted. It bounds how many a stream has.
func Messages(l *limit.Limiter) connect.Interceptor { return streamed{l} }

type streamed struct{ limits *limit.Limiter }

// WrapUnary implements connect.Interceptor.
func (streamed) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc { return next }

// WrapStreamingClient implements connect.Interceptor.
func (streamed) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (s streamed) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(ctx, &countedConn{StreamingHandlerConn: conn, ctx: ctx, limits: s.limits})
	}
}

// countedConn is a stream whose messages are counted. One goroutine may receive while another one sends.
type countedConn struct {
	connect.StreamingHandlerConn
	ctx            context.Context
	limits         *limit.Limiter
	received, sent atomic.Int64
}

// Receive counts a message before it is handled.
func (c *countedConn) Receive(message any) error {
	if err := c.StreamingHandlerConn.Receive(message); err != nil {
		return err
	}
	n := c.received.Add(1)
	if n > maxMessages {
		return c.tooMany()
	}
	if n == 1 {
		return nil
	}
	if _, _, err := c.limits.Take(limit.Poll, limit.Address(c.ctx)); err != nil {
		return ToConnect(c.ctx, err)
	}
	return nil
}

// Send counts a message that nothing has asked for by itself. It is sent even beyond the rate: the stream was let in.
func (c *countedConn) Send(message any) error {
	n := c.sent.Add(1)
	if n > maxMessages {
		return c.tooMany()
	}
	if n > c.received.Load() {
		c.limits.Owe(limit.Poll, limit.Address(c.ctx), 1)
	}
	return c.StreamingHandlerConn.Send(message)
}

func (c *countedConn) tooMany() error {
	return ToConnect(c.ctx, fault.Newf(fault.RateLimited, "A stream has at most %d messages.", maxMessages).
		After(limit.Beat))
}
