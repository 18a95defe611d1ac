package availability

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
)

// MemoConfig is what a Memo is made of.
type MemoConfig[T any] struct {
	// Read finds the value. Its context ends after Timeout, and not with the call that happened to ask for it.
	Read func(ctx context.Context) (T, error)
	// TTL is how long a value is returned, counted from when the read of it began.
	TTL time.Duration
	// ErrorTTL is how long an error is returned, counted from when the read ended. Zero makes the next call read again.
	ErrorTTL time.Duration
	// Timeout bounds a read. Zero is ReadTimeout.
	Timeout time.Duration
	Now     func() time.Time
}

// ReadTimeout bounds a read where nothing else is said.
const ReadTimeout = 5 * time.Second

// Memo caches one value for a bounded time, so that many callers cost one read. It is safe for concurrent use.
//
// There is one read at a time, and all who call meanwhile share it. An error is shared like a value, and replaces it:
// no caller gets the value from before an error. Each caller waits as long as its own context lasts.
type Memo[T any] struct {
	config MemoConfig[T]

	mu sync.Mutex
	// last is the read that ended last, running the one that has not ended. Either may be nil.
	last, running *read[T]
}

// read is one read. All but began is written before done is closed, and not after.
type read[T any] struct {
	began, ended time.Time
	value        T
	err          error
	done         chan struct{}
}

// NewMemo makes a Memo, which reads when it is first asked.
func NewMemo[T any](c MemoConfig[T]) *Memo[T] {
	c.Timeout = cmp.Or(c.Timeout, ReadTimeout)
	return &Memo[T]{config: c}
}

// Get is the cached value or error, or what a read finds now. The value was read less than TTL ago, or since the call
// began.
func (m *Memo[T]) Get(ctx context.Context) (T, error) {
	called := m.config.Now()
	for {
		r, cached := m.join(ctx)
		if cached {
			return r.value, r.err
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			var none T
			return none, fault.Ended(ctx, ctx.Err())
		}
		// A slow read that began before this call may have become too old for it.
		if r.err != nil || !r.began.Before(called) || m.fresh(r) {
			return r.value, r.err
		}
	}
}

// Cached is what the last read found, if that is less than within ago. It neither reads nor waits; ok is false when
// there is nothing.
func (m *Memo[T]) Cached(within time.Duration) (value T, ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == nil || !m.younger(m.last.ended, within) {
		return value, false, nil
	}
	return m.last.value, true, m.last.err
}

// Reset makes the next Get read again. A read that is running is not cached: it may have begun before the change.
func (m *Memo[T]) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.running = nil, nil
}

// join is the read whose result is cached, else the one that is running, else a new one.
func (m *Memo[T]) join(ctx context.Context) (r *read[T], cached bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last != nil && m.fresh(m.last) {
		return m.last, true
	}
	if m.running == nil {
		m.running = &read[T]{began: m.config.Now(), done: make(chan struct{})}
		go m.run(context.WithoutCancel(ctx), m.running)
	}
	return m.running, false
}

// errUnfinished is what a read ends with that did not return.
var errUnfinished = errors.New("the read did not return")

func (m *Memo[T]) run(ctx context.Context, r *read[T]) {
	ctx, cancel := fault.Within(ctx, m.config.Timeout)
	defer cancel()
	r.err = errUnfinished
	defer func() {
		// One caller's request would have ended by it; here it must not end the process.
		if p := recover(); p != nil {
			r.err = fmt.Errorf("panic in a read: %v\n%s", p, debug.Stack())
		}
		m.end(r)
	}()
	r.value, r.err = m.config.Read(ctx)
}

func (m *Memo[T]) end(r *read[T]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.ended = m.config.Now()
	if m.running == r {
		m.last, m.running = r, nil
	}
	close(r.done)
}

// fresh reports whether the result of a read may be returned without another.
func (m *Memo[T]) fresh(r *read[T]) bool {
	if r.err != nil {
		return m.younger(r.ended, m.config.ErrorTTL)
	}
	return m.younger(r.began, m.config.TTL)
}

// younger is false for what lies ahead, too: then the clock was set back.
func (m *Memo[T]) younger(at time.Time, than time.Duration) bool {
	age := m.config.Now().Sub(at)
	return age >= 0 && age < than
}
