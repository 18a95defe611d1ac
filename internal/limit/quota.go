package limit

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Use is what a call of a vendor is for. The zero Use is a sale.
type Use int

// The uses, those first that have more of a Quota.
const (
	// ForSale is what a payment depends on: whether something can be sold, its delivery, its refund.
	ForSale Use = iota
	// ForOwner is what owners look at or change, as often as they like, and whether a payment would move at all.
	ForOwner
	// ForBooks is what nobody waits for: catalogues, states and books that are compared.
	ForBooks
	uses
)

type useKey struct{}

// WithUse says what the calls of vendors are for that are made with a context.
func WithUse(ctx context.Context, use Use) context.Context {
	return context.WithValue(ctx, useKey{}, use)
}

// UseOf is what a context's calls of vendors are for.
func UseOf(ctx context.Context) Use {
	use, _ := ctx.Value(useKey{}).(Use)
	return use
}

// Quota shares out how many calls a process makes to a vendor in any second. A sale may use all of it, an owner's call
// is made only while half of it is free, and one for the books while three quarters are: whoever looks at a card
// without end stops no purchase. A nil Quota allows everything. It is safe for concurrent use.
type Quota struct {
	// turns are held by the one call of each use that is next; the others wait in the order in which they came.
	turns [uses]chan struct{}

	mu sync.Mutex
	// calls are the times of the last calls, as many as a second may have; next is where the oldest is.
	calls []time.Time
	next  int
}

// NewQuota makes a Quota of so many calls in any second; nil for none.
func NewQuota(perSecond int) *Quota {
	if perSecond <= 0 {
		return nil
	}
	q := &Quota{calls: make([]time.Time, perSecond)}
	for use := range q.turns {
		q.turns[use] = make(chan struct{}, 1)
	}
	return q
}

// ErrQuota says that a call was not made: its turn would have come too late.
var ErrQuota = errors.New("too many calls of this vendor wait for their turn")

// Wait waits for the turn of a call, for at most half of the time that its context has left: the call needs the rest.
func (q *Quota) Wait(ctx context.Context) error {
	if q == nil {
		return nil
	}
	use := UseOf(ctx)
	waiting := ctx
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeoutCause(ctx, time.Until(deadline)/2, ErrQuota)
		defer cancel()
	}
	select {
	case q.turns[use] <- struct{}{}:
		defer func() { <-q.turns[use] }()
	case <-waiting.Done():
		return context.Cause(waiting)
	}
	for pause := q.take(use); pause > 0; pause = q.take(use) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-waiting.Done():
			timer.Stop()
			return context.Cause(waiting)
		}
	}
	return nil
}

// take makes a call, or says how long it has to wait at least.
func (q *Quota) take(use Use) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, most := time.Now(), len(q.calls)
	share := max(1, most>>use)
	// The call that is as many calls ago as the use may make in a second.
	before := q.calls[(q.next-share+most)%most]
	if age := now.Sub(before); !before.IsZero() && age >= 0 && age < time.Second {
		return time.Second - age
	}
	q.calls[q.next] = now
	q.next = (q.next + 1) % most
	return 0
}
