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
	// maxFailures is how many failures in a row a facilitator may have before we back off.
	maxFailures = 3
	// longestRest bounds the backoff, and the Retry-After that a facilitator may ask for.
	longestRest = 30 * time.Second
)

// rests caches the last answer for each payment, and keeps when a failing facilitator is called again. It only saves
// calls: without it a payment is sent once more.
type rests struct {
	mu       sync.Mutex
	payments map[uuid.UUID]rest
	// whole is the backoff of the facilitator as a whole.
	whole    rest
	failures int
	// refused are the payments that were refused since the last accepted one; each of them was valid by simulation.
	refused map[uuid.UUID]bool
	// bad is the last failure or refusal.
	bad rest
}

// rest is the last answer, which is returned until a time.
type rest struct {
	until time.Time
	err   error
}

// of reports whether a payment is backed off, and the answer that it gets meanwhile.
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

// after records an answer. A facilitator that keeps failing is backed off as a whole, longer each time, so that
// payments fail over without waiting for it. One call after each backoff probes it.
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

// count counts failures and refusals against the facilitator as a whole.
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
// backoff, so that a waiting payment is sent again within it. Afterwards the next payer is invited again.
const doubt = 2 * longestRest

// failing reports that the facilitator settles nothing: it keeps failing, or refuses one valid payment after the other.
func (r *rests) failing(now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.bad.until) && (r.failures >= maxFailures || len(r.refused) >= maxFailures) {
		return r.bad.err
	}
	return nil
}
