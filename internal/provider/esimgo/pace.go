package esimgo

import (
	"context"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/provider/wire"
)

// pace keeps orders apart, as the vendor asks for; whoever comes faster is answered 429.
type pace struct {
	gap time.Duration
	now func() time.Time

	mu   sync.Mutex
	next time.Time
}

// wait waits for a turn, for at most half of the time that the caller has left: the order needs the rest.
func (p *pace) wait(ctx context.Context) error {
	p.mu.Lock()
	now := p.now()
	at := p.next
	if at.Before(now) {
		at = now
	}
	delay := at.Sub(now)
	if deadline, ok := ctx.Deadline(); ok && delay > time.Until(deadline)/2 {
		p.mu.Unlock()
		return wire.Unclear("other orders have to be sent first")
	}
	p.next = at.Add(p.gap)
	p.mu.Unlock()
	if delay <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
