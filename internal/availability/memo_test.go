package availability_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
)

var errDown = errors.New("down")

const (
	ttl      = time.Second
	errorTTL = 3 * time.Second
	timeout  = 10 * time.Second
)

// source is what a Memo reads: it takes as long, and ends, as it is told.
type source struct {
	takes time.Duration
	err   error
	reads atomic.Int64
}

func (s *source) read(ctx context.Context) (int64, error) {
	n, err := s.reads.Add(1), s.err
	select {
	case <-time.After(s.takes):
		return n, err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (s *source) memo(errorTTL time.Duration) *availability.Memo[int64] {
	return availability.NewMemo(availability.MemoConfig[int64]{
		Read: s.read, TTL: ttl, ErrorTTL: errorTTL, Timeout: timeout, Now: time.Now,
	})
}

func wantValue(t *testing.T, what string, m *availability.Memo[int64], want int64) {
	t.Helper()
	if got, err := m.Get(t.Context()); err != nil || got != want {
		t.Errorf("%s: the value of read %d, %v; want read %d", what, got, err, want)
	}
}

func wantError(t *testing.T, what string, m *availability.Memo[int64], want error) {
	t.Helper()
	if got, err := m.Get(t.Context()); !errors.Is(err, want) {
		t.Errorf("%s: %d, %v; want %v", what, got, err, want)
	}
}

func TestMemoReturnsAValueForItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		m := s.memo(0)
		wantValue(t, "first", m, 1)
		time.Sleep(ttl - time.Nanosecond)
		wantValue(t, "just in time", m, 1)
		time.Sleep(time.Nanosecond)
		wantValue(t, "too old", m, 2)
	})
}

func TestMemoCountsAValuesAgeFromWhenItsReadBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{takes: ttl / 2}
		m := s.memo(0)
		wantValue(t, "first", m, 1)
		time.Sleep(ttl / 2)
		wantValue(t, "its read began a TTL ago", m, 2)
	})
}

func TestMemoReadsAgainAfterAnErrorWithoutATTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		m := s.memo(0)
		wantValue(t, "first", m, 1)
		time.Sleep(ttl)
		s.err = errDown
		wantError(t, "an error replaces the value", m, errDown)
		wantError(t, "and is not cached", m, errDown)
		s.err = nil
		wantValue(t, "all is well again", m, 4)
	})
}

func TestMemoReturnsAnErrorForItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{err: errDown, takes: errorTTL}
		m := s.memo(errorTTL)
		wantError(t, "first", m, errDown)
		s.err = nil
		time.Sleep(errorTTL - time.Nanosecond) // its read began long before
		wantError(t, "just in time", m, errDown)
		time.Sleep(time.Nanosecond)
		wantValue(t, "too old", m, 2)
	})
}

func TestMemoReadsOnceForAllWhoWait(t *testing.T) {
	for name, fails := range map[string]error{"value": nil, "error": errDown} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &source{takes: ttl / 2, err: fails}
				m := s.memo(0)
				var all sync.WaitGroup
				for range 20 {
					all.Go(func() {
						if _, err := m.Get(t.Context()); !errors.Is(err, fails) {
							t.Error(err)
						}
					})
				}
				all.Wait()
				if n := s.reads.Load(); n != 1 {
					t.Errorf("%d reads", n)
				}
			})
		})
	}
}

// TestMemoNeverReturnsAnOldValueOfASlowRead: a caller that comes late to a read that takes longer than a TTL waits for
// the next.
func TestMemoNeverReturnsAnOldValueOfASlowRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{takes: 3 * ttl}
		m := s.memo(0)
		var all sync.WaitGroup
		all.Go(func() { wantValue(t, "who asked first", m, 1) })
		time.Sleep(ttl)
		for range 10 {
			all.Go(func() { wantValue(t, "who asked later", m, 2) })
		}
		all.Wait()
		if n := s.reads.Load(); n != 2 {
			t.Errorf("%d reads", n)
		}
	})
}

// TestMemoReadSurvivesItsCaller: a caller that leaves gets its error at once, which says nothing of what was read.
func TestMemoReadSurvivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{takes: ttl / 2}
		m := s.memo(errorTTL)
		ctx, leave := context.WithTimeout(t.Context(), ttl/4)
		defer leave()
		if _, err := m.Get(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who left: %v", err)
		}
		wantValue(t, "who stayed", m, 1)
	})
}

func TestMemoBoundsARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{takes: time.Hour}
		m, began := s.memo(errorTTL), time.Now()
		wantError(t, "a read that hangs", m, context.DeadlineExceeded)
		if took := time.Since(began); took != timeout {
			t.Errorf("it took %s", took)
		}
	})
}

func TestMemoCachedNeitherReadsNorWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const within = time.Minute
		s := &source{err: errDown}
		m := s.memo(0)
		if _, ok, err := m.Cached(within); ok || err != nil || s.reads.Load() != 0 {
			t.Errorf("before any read: %t, %v", ok, err)
		}
		wantError(t, "first", m, errDown)
		s.err, s.takes = nil, ttl
		time.Sleep(within - ttl - time.Nanosecond)
		running := make(chan struct{})
		go func() { defer close(running); wantValue(t, "second", m, 2) }()
		time.Sleep(ttl - time.Nanosecond)
		synctest.Wait()
		if _, ok, err := m.Cached(within); !ok || !errors.Is(err, errDown) {
			t.Errorf("while the next read runs: %t, %v", ok, err)
		}
		<-running
		if v, ok, err := m.Cached(within); !ok || v != 2 || err != nil {
			t.Errorf("after the next read: %d, %t, %v", v, ok, err)
		}
		time.Sleep(within)
		if _, ok, err := m.Cached(within); ok || err != nil {
			t.Errorf("long after: %t, %v", ok, err)
		}
	})
}

// TestMemoForgetsAReadThatBeganBefore: it may not have seen what was changed.
func TestMemoForgetsAReadThatBeganBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{takes: ttl / 4}
		m := s.memo(0)
		var early sync.WaitGroup
		early.Go(func() { wantValue(t, "who asked before", m, 1) })
		time.Sleep(ttl / 8)
		m.Reset()
		wantValue(t, "who asks after", m, 2)
		early.Wait()
		wantValue(t, "later", m, 2)
		m.Reset()
		wantValue(t, "forgotten", m, 3)
	})
}

func TestMemoReadsAgainWhenTheClockIsSetBack(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &source{}
	m := availability.NewMemo(availability.MemoConfig[int64]{Read: s.read, TTL: ttl, Now: func() time.Time { return now }})
	wantValue(t, "first", m, 1)
	now = now.Add(-time.Hour)
	wantValue(t, "set back", m, 2)
}

func TestMemoTurnsAPanicIntoAnError(t *testing.T) {
	m := availability.NewMemo(availability.MemoConfig[int64]{
		Read: func(context.Context) (int64, error) { panic("a bug") }, TTL: ttl, Now: time.Now,
	})
	if _, err := m.Get(t.Context()); err == nil || !strings.Contains(err.Error(), "a bug") {
		t.Errorf("got %v", err)
	}
}

// TestMemoUnderConcurrency is for the race detector; no value is older than it may be.
func TestMemoUnderConcurrency(t *testing.T) {
	var clock, made atomic.Int64
	m := availability.NewMemo(availability.MemoConfig[int64]{
		Read: func(context.Context) (int64, error) {
			if n := made.Add(1); n%7 == 0 {
				return 0, errDown
			}
			return clock.Load(), nil
		},
		TTL: 5, ErrorTTL: 2, Now: func() time.Time { return time.Unix(0, clock.Load()) },
	})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 2_000 {
				called := clock.Load()
				at, err := m.Get(t.Context())
				if err != nil && !errors.Is(err, errDown) || err == nil && at <= called-5 {
					t.Errorf("at %d: a value of %d, %v", called, at, err)
					return
				}
				_, _, _ = m.Cached(5)
				if clock.Add(1); i%97 == 0 {
					m.Reset()
				}
			}
		})
	}
	all.Wait()
}
