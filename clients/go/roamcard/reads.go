package roamcard

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"connectrpc.com/connect/v2"
)

// defaultRetries is how often a read is made again.
const defaultRetries = 2

// retried makes reads again that met what passes: calls that change nothing, by their definition.
func (c *Client) retried(next unary) unary {
	return func(ctx context.Context, spec connect.Spec, request, answer any) error {
		call := func(ctx context.Context) error { return next(ctx, spec, request, answer) }
		if spec.IdempotencyLevel != connect.IdempotencyNoSideEffects {
			return call(ctx)
		}
		return c.read(ctx, call)
	}
}

// read makes a call that changes nothing, and makes it again after a network error, 429, 502, 503 and 504.
func (c *Client) read(ctx context.Context, call func(ctx context.Context) error) error {
	doubling := firstPause
	for retried := 0; ; retried++ {
		var raw RawResponse
		err := call(WithRawResponse(ctx, &raw))
		wait, passes := raw.passes(doubling)
		if err == nil || !passes || retried >= c.retries() || ctx.Err() != nil {
			return err
		}
		if stopped := pause(ctx, wait); stopped != nil {
			return errors.Join(err, stopped)
		}
		doubling = min(2*doubling, lastPause)
	}
}

func (c *Client) retries() int {
	if c.config.MaxRetries != nil {
		return *c.config.MaxRetries
	}
	return defaultRetries
}

// passes says that what was met may pass by itself, and when to look again: when the service says, or between half of
// a pause and all of it, so that many who were turned away together do not come back together.
func (r RawResponse) passes(doubling time.Duration) (wait time.Duration, ok bool) {
	if r.err != nil {
		return jittered(doubling), !errors.Is(r.err, errTooLong)
	}
	switch r.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return 0, false
	}
	s, err := strconv.Atoi(r.Header.Get("Retry-After"))
	if err != nil || s < 0 {
		return jittered(doubling), true
	}
	asked := time.Duration(s) * time.Second
	// A caller that is told to come back much later gets that answer instead of waiting here.
	return asked + jittered(firstPause), asked <= maxPause
}

func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
