package chain

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// rounds lets callers that ask at the same time share a call. A round begins after all its members have asked, so
// nobody gets an answer that is older than the question, and with the one before: nobody waits for others to come. The
// zero value is ready.
type rounds[In, Out any] struct {
	mu   sync.Mutex
	next *round[In, Out]
	busy bool
}

// round is one call.
type round[In, Out any] struct {
	ctx  context.Context
	asks []In
	outs []Out
	err  error
	done chan struct{}
}

// ask is the answer to in, by a call of do with at most most questions. do answers in their order; its context
// ends with the pool's background work, not with a caller's.
func (r *rounds[In, Out]) ask(
	ctx context.Context, background *later, most int, in In, do func(context.Context, []In) ([]Out, error),
) (out Out, err error) {
	r.mu.Lock()
	for r.next != nil && len(r.next.asks) >= most {
		full := r.next.done
		r.mu.Unlock()
		select {
		case <-full:
		case <-ctx.Done():
			return out, ctx.Err()
		}
		r.mu.Lock()
	}
	if r.next == nil {
		r.next = &round[In, Out]{ctx: context.WithoutCancel(ctx), done: make(chan struct{})}
	}
	mine, at := r.next, len(r.next.asks)
	mine.asks = append(mine.asks, in)
	if !r.busy {
		r.busy = background.run(func(open context.Context) { r.run(open, do) })
		if !r.busy {
			r.next = nil
			r.mu.Unlock()
			return out, errClosed
		}
	}
	r.mu.Unlock()
	select {
	case <-mine.done:
	case <-ctx.Done():
		return out, ctx.Err()
	}
	if mine.err != nil {
		return out, mine.err
	}
	return mine.outs[at], nil
}

// run makes one call after the other, until nobody asks.
func (r *rounds[In, Out]) run(open context.Context, do func(context.Context, []In) ([]Out, error)) {
	for {
		r.mu.Lock()
		now := r.next
		r.next = nil
		r.busy = now != nil
		r.mu.Unlock()
		if now == nil {
			return
		}
		now.call(open, do)
	}
}

func (r *round[In, Out]) call(open context.Context, do func(context.Context, []In) ([]Out, error)) {
	defer close(r.done)
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	defer context.AfterFunc(open, cancel)()
	defer func() {
		if caught := recover(); caught != nil {
			r.err = fmt.Errorf("panic: %v\n%s", caught, debug.Stack())
		}
	}()
	if r.outs, r.err = do(ctx, r.asks); r.err == nil && len(r.outs) != len(r.asks) {
		r.err = fmt.Errorf("%d answers to %d questions", len(r.outs), len(r.asks))
	}
}
