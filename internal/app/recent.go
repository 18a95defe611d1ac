package app

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// recent remembers what a check said, for those who ask often and for those who must not ask at all.
type recent struct {
	check func(context.Context) error
	// ttl is how long an answer does for a claim; zero is recentTTL.
	ttl time.Duration
	now func() time.Time

	asking sync.Mutex
	said   atomic.Pointer[saying]
}

type saying struct {
	err error
	at  time.Time
}

const (
	// recentTTL is how long an answer does for a claim where nothing else is said.
	recentTTL = time.Second
	// knownTTL is how long a failure that nobody has looked at again turns unpaid requests away. It is more
	// than the usual time between two looks at /ready.
	knownTTL = 15 * time.Second
)

// look checks now.
func (r *recent) look(ctx context.Context) error {
	err := r.check(ctx)
	// That a caller has gone away says nothing of what was checked.
	if !errors.Is(ctx.Err(), context.Canceled) {
		r.said.Store(&saying{err, r.now()})
	}
	return err
}

// ask is what look said a moment ago, or says now. Of many who ask, one looks.
func (r *recent) ask(ctx context.Context) error {
	r.asking.Lock()
	defer r.asking.Unlock()
	if s := r.said.Load(); s != nil && r.now().Sub(s.at) < cmp.Or(r.ttl, recentTTL) {
		return s.err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return r.look(ctx)
}

// known is what look last said, without a look and without a wait; nil when that is long ago.
func (r *recent) known() error {
	if s := r.said.Load(); s != nil && r.now().Sub(s.at) < knownTTL {
		return s.err
	}
	return nil
}
