package rpcx

import (
	"context"
	"testing"
	"time"

	"connectrpc.com/connect/v2"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
)

// endless is a stream of which each message arrives, and each is taken.
type endless struct {
	connect.ServerStream
	read, written int
}

func (e *endless) Receive(any) error { e.read++; return nil }
func (e *endless) Send(any) error    { e.written++; return nil }

// stream runs a handler of a stream, with its messages counted as those of an address.
func stream(
	t *testing.T, l *limit.Limiter, handle func(connect.ServerStream) error,
) (*endless, error) {
	t.Helper()
	conn := &endless{}
	wrapped := Messages(l)(func(_ context.Context, _ connect.Spec, conn connect.ServerStream) error {
		return handle(conn)
	})
	return conn, wrapped(limit.WithAddress(t.Context(), "203.0.113.1"),
		connect.Spec{StreamType: connect.StreamTypeBidi}, conn)
}

// left is how many requests an address has left, with this one.
func left(t *testing.T, l *limit.Limiter) int {
	t.Helper()
	s, _, err := l.Take(limit.Poll, "203.0.113.1")
	if err != nil {
		return 0
	}
	l.Give(limit.Poll, "203.0.113.1")
	return s.Remaining + 1
}

func polls(count int) *limit.Limiter {
	now := time.Now()
	return limit.New(limit.Rates{limit.Poll: {Count: count, Per: time.Hour}}, func() time.Time { return now })
}

func TestMessagesOfAStreamCountAsRequests(t *testing.T) {
	l := polls(10)
	asked := 0
	_, err := stream(t, l, func(conn connect.ServerStream) error {
		for {
			if err := conn.Receive(nil); err != nil {
				return err
			}
			if err := conn.Send(nil); err != nil {
				return err
			}
			asked++
		}
	})
	// The edge has counted the first one, and the answers belong to what was asked.
	if asked != 11 || fault.Of(err) != fault.RateLimited {
		t.Errorf("%d messages were answered, %v", asked, err)
	}
	l = polls(10)
	conn, err := stream(t, l, func(conn connect.ServerStream) error {
		for range 5 {
			if err := conn.Send(nil); err != nil {
				return err
			}
		}
		return conn.Receive(nil)
	})
	if err != nil || conn.written != 5 || left(t, l) != 5 {
		t.Errorf("sent before anything was asked: %d, %v, %d left", conn.written, err, left(t, l))
	}
	l = polls(10)
	conn, err = stream(t, l, func(conn connect.ServerStream) error {
		if err := conn.Receive(nil); err != nil {
			return err
		}
		for range 4 {
			if err := conn.Send(nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || conn.written != 4 || left(t, l) != 7 {
		t.Errorf("four answers to one: %d, %v, %d left", conn.written, err, left(t, l))
	}
}

func TestStreamHasABoundOfMessages(t *testing.T) {
	for name, handle := range map[string]func(connect.ServerStream) error{
		"received": func(conn connect.ServerStream) error { return conn.Receive(nil) },
		"sent":     func(conn connect.ServerStream) error { return conn.Send(nil) },
	} {
		handled := 0
		_, err := stream(t, nil, func(conn connect.ServerStream) error {
			for {
				if err := handle(conn); err != nil {
					return err
				}
				handled++
			}
		})
		if handled != maxMessages || fault.Of(err) != fault.RateLimited {
			t.Errorf("%s: %d messages, %v", name, handled, err)
		}
	}
}
