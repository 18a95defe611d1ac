package facilitator

import (
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// submissions are what this process has asked for each payment. They only save calls, and bound what they cost: without
// them a payment is sent once more.
type submissions struct {
	mu  sync.Mutex
	all map[uuid.UUID]*submission
}

// submission is what is known of one payment. Its fields are guarded by the mutex of submissions.
type submission struct {
	// open says that a call is under way, until done is closed, and calls how many there were.
	open  bool
	done  chan struct{}
	calls int
	// err and found are the last answer, and until when no other call is made.
	err   error
	found outcome
	until time.Time
	// since is the first answer that has not been judged: one that promises what the chain has to show.
	since time.Time
	// moved is the transaction that made the transfer, once it is seen, which was at movedAt.
	moved   x402.Hash
	movedAt time.Time
	// wasted is how many calls moved nothing by the payer's doing, and may have cost the facilitator a transaction;
	// reverted how many cost it one that reverted, while the payment would have moved.
	wasted, reverted int
}

// mostRemembered bounds the payments, and the payers, that are remembered.
const mostRemembered = 10_000

// of is what is known of a payment, and a copy: the zero submission when nothing is.
func (s *submissions) of(id uuid.UUID) submission {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, ok := s.all[id]; ok {
		return *found
	}
	return submission{}
}

// begin opens a call for a payment, unless one is under way: then it is that one, and mine is false. done is closed
// when the call has ended.
func (s *submissions) begin(p payment.Payment) (call *submission, done <-chan struct{}, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call, ok := s.all[p.ID]
	if ok && call.open {
		return call, call.done, false
	}
	if !ok {
		if s.all == nil || len(s.all) >= mostRemembered {
			s.all = map[uuid.UUID]*submission{}
		}
		call = &submission{}
		s.all[p.ID] = call
	}
	call.open, call.done = true, make(chan struct{})
	call.calls++
	return call, call.done, true
}

// change changes what is known of a call.
func (s *submissions) change(call *submission, do func(*submission)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(call)
}

// end ends a call.
func (s *submissions) end(call *submission) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call.open = false
	close(call.done)
}

// forgive forgets what has reverted: it was the facilitator.
func (s *submissions) forgive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range s.all {
		call.reverted = 0
	}
}

// find is the call of a payment, nil without one.
func (s *submissions) find(id uuid.UUID) *submission {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[id]
}

// last reports whether a payment is not to be sent now, and the answer that it gets meanwhile.
func (c submission) last(now time.Time) (err error, waits bool) {
	switch {
	case c.open:
		return nil, true
	case !now.Before(c.until):
		return nil, false
	case c.err != nil:
		return fmt.Errorf("%w: %w", payment.ErrBackingOff, c.err), true
	}
	return nil, true
}
