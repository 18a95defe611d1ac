package rpcx

import (
	"context"
	"sync/atomic"

	"connectrpc.com/connect/v2"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
)

// maxMessages is how many messages a stream may have in each direction. A client of reflection needs some dozens.
const maxMessages = 1000

// Messages counts the messages of a stream as requests of its address, but the first one, which the edge has counted,
// and the answers to those that were counted. It bounds how many a stream has.
func Messages(l *limit.Limiter) connect.ServerInterceptor {
	return func(next connect.ServerFunc) connect.ServerFunc {
		return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) error {
			if spec.StreamType != connect.StreamTypeUnary {
				stream = &countedStream{ServerStream: stream, ctx: ctx, limits: l}
			}
			return next(ctx, spec, stream)
		}
	}
}

// countedStream is a stream whose messages are counted. One goroutine may receive while another one sends.
type countedStream struct {
	connect.ServerStream
	ctx            context.Context
	limits         *limit.Limiter
	received, sent atomic.Int64
}

// Receive counts a message before it is handled.
func (c *countedStream) Receive(message any) error {
	if err := c.ServerStream.Receive(message); err != nil {
		return err
	}
	n := c.received.Add(1)
	if n > maxMessages {
		return tooMany()
	}
	if n == 1 {
		return nil
	}
	_, _, err := c.limits.Take(limit.Poll, limit.Address(c.ctx))
	return err
}

// Send counts a message that nothing has asked for by itself. It is sent even beyond the rate: the stream was let in.
func (c *countedStream) Send(message any) error {
	n := c.sent.Add(1)
	if n > maxMessages {
		return tooMany()
	}
	if n > c.received.Load() {
		c.limits.Owe(limit.Poll, limit.Address(c.ctx), 1)
	}
	return c.ServerStream.Send(message)
}

func tooMany() error {
	return fault.Newf(fault.RateLimited, "A stream has at most %d messages.", maxMessages).After(limit.Beat)
}
