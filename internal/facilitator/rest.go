package facilitator

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/payment"
)

const (
	// maxFailures is how many failures in a row a facilitator may have before it is left alone for a while.
	maxFailures = 3
	// longestRest bounds that while, and what a facilitator may ask for.
	longestRest = 30 * time.Second
)

// rests remembers what was answered a moment ago, for each payment, and when a failing facilitator is
// asked again. It saves calls and nothing else: an empty one only makes a payment be sent once more.
type rests struct {
	mu       sync.Mutex
	payments map[uuid.UUID]rest
	// whole is the rest of the facilitator itself.
	whole    rest
	failures int
	// refused are the payments that were refused since one was not; all of them would have moved the money.
	refused map[uuid.UUID]bool
	// bad is the last failure or refusal.
	bad rest
}

// rest holds the last answer until a time.
type rest struct {
	until time.Time
	err   error
}

// of reports whether a payment rests, and what its answer is meanwhile.
func (r *rests) of(id uuid.UUID, now time.Time) (last error, resting bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.payments[id]
	if !now.Before(at.until) {
		at = r.whole
	}
	if !now.Before(at.until) {
		return nil, false
	}
	if at.err != nil {
		return fmt.Errorf("%w: %w", payment.ErrResting, at.err), true
	}
	return nil, true
}

// after records an answer. A facilitator that fails again and again rests as a whole, longer each time,
// so that payments move on without waiting for it; one call after each rest finds out.
func (r *rests) after(id uuid.UUID, now time.Time, pause time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	const enough = 10_000
	if r.payments == nil || len(r.payments) >= enough {
		r.payments = map[uuid.UUID]rest{}
	}
	r.payments[id] = rest{until: now.Add(pause), err: err}
	r.count(id, now, err)
	if !blames(err) {
		r.failures, r.whole = 0, rest{}
		return
	}
	r.failures++
	length := time.Duration(0)
	if over := r.failures - maxFailures; over >= 0 {
		length = min(time.Second<<min(over, 5), longestRest)
	}
	if busy, ok := errors.AsType[*busyError](err); ok {
		length = max(length, busy.after)
	}
	r.whole = rest{until: now.Add(length), err: err}
}

// count keeps in mind what speaks against the facilitator as a whole.
func (r *rests) count(id uuid.UUID, now time.Time, err error) {
	if err == nil {
		r.refused, r.bad = nil, rest{}
		return
	}
	r.bad = rest{until: now.Add(doubt), err: err}
	if _, no := errors.AsType[*Refusal](err); no && len(r.refused) < maxFailures {
		if r.refused == nil {
			r.refused = map[uuid.UUID]bool{}
		}
		r.refused[id] = true
	}
}

// doubt is how long a facilitator that settles nothing counts as failing after its last failure. It is longer than any
// rest: while a payment waits, that is asked about again in time; after that the next payer finds out.
const doubt = 2 * longestRest

// failing says that the facilitator settles nothing: it fails again and again, or refuses one good payment after the other.
func (r *rests) failing(now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.bad.until) && (r.failures >= maxFailures || len(r.refused) >= maxFailures) {
		return r.bad.err
	}
	return nil
}
