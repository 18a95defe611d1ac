package facilitator

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	// mostFailed is how many payers a facilitator may fail before it counts as failing: one of them alone could have
	// made it fail.
	mostFailed = 3
	// maxBackoff bounds the backoff, and the Retry-After that a facilitator may ask for.
	maxBackoff = 30 * time.Second
	// failingFor is how long a facilitator that settles nothing counts as failing after it has failed another payer. It is
	// longer than any backoff, so that a waiting payment is sent again within it. Afterwards payments are offered again.
	failingFor = 2 * maxBackoff
)

// health is what the chain has shown of a facilitator. A payment counts against it only if it would still move: that
// one has moved, or that its payer cannot pay, is no fault of whoever submits it.
//
//	submitted ─► transfer seen, by what it named              works: all that is below is forgotten
//	          ├─► would not move now, or screened out         the payer's: counts for nothing
//	          ├─► named no such transaction, or none of it    it lies: failing at once
//	          └─► refused, unclear, reverted, or pending      failing once so many payers have met it
type health struct {
	mu sync.Mutex
	// failed are the payers that it failed since the last settlement that was seen. refused are those that it failed
	// before, while it settled for others: what it has against them says nothing about it.
	failed, refused map[x402.Address]bool
	lied            bool
	failedAt        time.Time
	// bad is the last failure, and until when it counts.
	bad backoff
	// whole is the backoff of the facilitator as a whole, after so many outages in a row, or for as long as it asks for;
	// busy says that it asks for longer than a payment should wait.
	whole, busy backoff
	outages     int
}

// backoff is an error that is returned until a time.
type backoff struct {
	until time.Time
	err   error
}

// backedOff is the answer of a facilitator that is left alone for a while, else nil.
func (h *health) backedOff(now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !now.Before(h.whole.until) {
		return nil
	}
	return fmt.Errorf("%w: %w", payment.ErrBackingOff, h.whole.err)
}

// works records that a settlement of a payer's was seen at a time, and reports whether nothing was sold until then.
// What has failed since then is news.
func (h *health) works(payer x402.Address, at time.Time) (again bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failedAt.After(at) {
		return false
	}
	again = h.lied || len(h.failed) >= mostFailed
	if h.refused == nil || len(h.refused) > mostRemembered {
		h.refused = map[x402.Address]bool{}
	}
	maps.Copy(h.refused, h.failed)
	delete(h.refused, payer)
	h.failed, h.lied, h.bad, h.whole, h.busy, h.outages = nil, false, backoff{}, backoff{}, backoff{}, 0
	return again
}

// fails records that a payment that would still move was not moved. A facilitator that keeps failing as a whole is
// left alone, longer each time, so that payments fail over without waiting for it; one call after each backoff probes
// it.
func (h *health) fails(now time.Time, payer x402.Address, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	lied := errors.Is(err, errLie)
	if h.refused[payer] && !lied {
		return
	}
	h.failedAt = now
	// The same payers keep it closed only so long: they may be at fault, and who comes next finds out.
	if lied || !h.failed[payer] || len(h.failed) < mostFailed {
		h.bad = backoff{until: now.Add(failingFor), err: err}
	}
	if h.failed == nil {
		h.failed = map[x402.Address]bool{}
	}
	if len(h.failed) < mostRemembered {
		h.failed[payer] = true
	}
	h.lied = h.lied || lied
	if !isOutage(err) {
		h.outages, h.whole = 0, backoff{}
		return
	}
	h.outages++
	if len(h.failed) >= mostFailed {
		over := max(h.outages-mostFailed, 0)
		h.whole = backoff{until: now.Add(min(time.Second<<min(over, 5), maxBackoff)), err: err}
	}
}

// asksForPause honours a Retry-After, whosever payment met it.
func (h *health) asksForPause(now time.Time, err error) {
	busy, ok := errors.AsType[*busyError](err)
	if !ok {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if until := now.Add(busy.after); until.After(h.whole.until) {
		h.whole = backoff{until: until, err: err}
	}
	if busy.after > longBusy {
		h.busy = backoff{until: now.Add(busy.after), err: err}
	}
}

// longBusy is how long a payment may wait for a facilitator that asks to be left alone.
const longBusy = 2 * time.Second

// failing reports that the facilitator settles nothing.
func (h *health) failing(now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Before(h.bad.until) && (h.lied || len(h.failed) >= mostFailed) {
		return h.bad.err
	}
	if now.Before(h.busy.until) {
		return h.busy.err
	}
	return nil
}
