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
	// maxBackoff bounds the backoff, and the Retry-After that a facilitator may ask for.
	maxBackoff = 30 * time.Second
)

// backoffs caches the last answer for each payment, and keeps when a failing facilitator is called again. It only saves
// calls: without it a payment is sent once more.
type backoffs struct {
	mu       sync.Mutex
	payments map[uuid.UUID]backoff
	// whole is the backoff of the facilitator as a whole.
	whole    backoff
	failures int
	// refused are the payments that were refused since the last accepted one; each of them was valid by simulation.
	refused map[uuid.UUID]bool
	// bad is the last failure or refusal.
	bad backoff
}

// backoff is the last answer, which is returned until a time.
type backoff struct {
	until time.Time
	err   error
}

// of reports whether a payment is backed off, and the answer that it gets meanwhile.
func (r *backoffs) of(id uuid.UUID, now time.Time) (last error, backedOff bool) {
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
		return fmt.Errorf("%w: %w", payment.ErrBackingOff, at.err), true
	}
	return nil, true
}

// after records an answer. A facilitator that keeps failing is backed off as a whole, longer each time, so that
// payments fail over without waiting for it. One call after each backoff probes it. A refusal that is the payer's fault
// says nothing about the facilitator.
func (r *backoffs) after(id uuid.UUID, now time.Time, pause time.Duration, err error, payersFault bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	const enough = 10_000
	if r.payments == nil || len(r.payments) >= enough {
		r.payments = map[uuid.UUID]backoff{}
	}
	r.payments[id] = backoff{until: now.Add(pause), err: err}
	if payersFault {
		return
	}
	r.count(id, now, err)
	if !isOutage(err) {
		r.failures, r.whole = 0, backoff{}
		return
	}
	r.failures++
	length := time.Duration(0)
	if over := r.failures - maxFailures; over >= 0 {
		length = min(time.Second<<min(over, 5), maxBackoff)
	}
	if busy, ok := errors.AsType[*busyError](err); ok {
		length = max(length, busy.after)
	}
	r.whole = backoff{until: now.Add(length), err: err}
}

// count counts failures and refusals against the facilitator as a whole.
func (r *backoffs) count(id uuid.UUID, now time.Time, err error) {
	if err == nil {
		r.refused, r.bad = nil, backoff{}
		return
	}
	r.bad = backoff{until: now.Add(failingFor), err: err}
	if _, refused := errors.AsType[*Refusal](err); refused && len(r.refused) < maxFailures {
		if r.refused == nil {
			r.refused = map[uuid.UUID]bool{}
		}
		r.refused[id] = true
	}
}

// failingFor is how long a facilitator that settles nothing counts as failing after its last failure. It is longer than
// any backoff, so that a waiting payment is sent again within it. Afterwards payments are offered again.
const failingFor = 2 * maxBackoff

// failing reports that the facilitator settles nothing: it keeps failing, or refuses one valid payment after the other.
func (r *backoffs) failing(now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.bad.until) && (r.failures >= maxFailures || len(r.refused) >= maxFailures) {
		return r.bad.err
	}
	return nil
}
