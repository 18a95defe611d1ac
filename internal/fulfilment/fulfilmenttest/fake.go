package fulfilmenttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/roamcard/roamcard/internal/fulfilment"
)

// The modes that only a Fake knows.
const (
	// Rejected accepts and later rejects.
	Rejected Mode = "rejected"
	// StaysPending accepts and never completes.
	StaysPending Mode = "stays_pending"
)

// ErrDown is the answer of a Fake that is made to fail.
var ErrDown = errors.New("the provider does not answer")

// Fake is what all providers in memory have in common: it counts calls, makes them fail on demand, takes each
// reference once, and completes what is pending on demand. It is safe for concurrent use; a provider that is
// made of one locks it for each call.
type Fake struct {
	sync.Mutex

	instant  bool
	traits   fulfilment.Traits
	faults   map[Op][]Mode
	executed map[fulfilment.Ref]int
	refused  map[fulfilment.Ref]*fulfilment.Refusal // a no stays a no
	pending  []func()                               // what Settle completes, the oldest first
	calls    map[Op]int
}

// NewFake makes a Fake. An instant one completes calls at once; another waits for Settle. Without traits it
// deduplicates, with no visibility delay.
func NewFake(instant bool, traits fulfilment.Traits) *Fake {
	if traits == (fulfilment.Traits{}) {
		traits.Deduplicates = true
	}
	return &Fake{
		instant: instant, traits: traits, faults: map[Op][]Mode{}, executed: map[fulfilment.Ref]int{},
		refused: map[fulfilment.Ref]*fulfilment.Refusal{}, calls: map[Op]int{},
	}
}

// Handles are those on the Fake itself.
func (f *Fake) Handles() Handles {
	return Handles{Traits: f.traits, Settle: f.Settle, Fault: f.Fault, Executed: f.Executed}
}

// Traits are those it was made with.
func (f *Fake) Traits() fulfilment.Traits { return f.traits }

// Fault makes the next call of one kind fail, and says whether it can. Faults of one kind queue up.
func (f *Fake) Fault(op Op, mode Mode) bool {
	f.Lock()
	defer f.Unlock()
	if !slices.Contains([]Mode{
		ErrorBefore, ErrorAfter, TimeoutBefore, TimeoutAfter, Refused, RateLimited, Unauthorized, UnknownState,
		Rejected, StaysPending,
	}, mode) {
		return false
	}
	f.faults[op] = append(f.faults[op], mode)
	return true
}

// Heal takes back every fault that has not happened yet.
func (f *Fake) Heal() {
	f.Lock()
	defer f.Unlock()
	clear(f.faults)
}

// Settle completes everything pending, except what stays so.
func (f *Fake) Settle() {
	f.Lock()
	defer f.Unlock()
	for _, complete := range f.pending {
		complete()
	}
	f.pending = nil
}

// Executed is how often a call took effect.
func (f *Fake) Executed(ref fulfilment.Ref) int {
	f.Lock()
	defer f.Unlock()
	return f.executed[ref]
}

// Calls is how often a call was made, whatever came of it.
func (f *Fake) Calls(op Op) int {
	f.Lock()
	defer f.Unlock()
	return f.calls[op]
}

// Answer counts a call that has no effect, and fails it if it is to fail. The Fake is locked.
func (f *Fake) Answer(ctx context.Context, op Op) error {
	mode, err := f.before(ctx, op)
	if err == nil {
		err = after(mode)
	}
	return err
}

// Play counts a call that has an effect, which do makes unless the call fails before, and fails it if it is to fail.
// The Fake is locked.
func (f *Fake) Play(ctx context.Context, op Op, do func() error) error {
	mode, err := f.before(ctx, op)
	if err == nil {
		err = do()
	}
	if err == nil {
		err = after(mode)
	}
	return err
}

// Complete ends a call that has taken effect, at once or by Settle, unless its mode or the scenario keeps it pending:
// end is told whether it is rejected. The Fake is locked, then too.
func (f *Fake) Complete(mode Mode, scenario string, end func(rejected bool)) {
	if mode == StaysPending || scenario == "001" {
		return
	}
	complete := func() { end(mode == Rejected || scenario == "002") }
	if f.instant {
		complete()
		return
	}
	f.pending = append(f.pending, complete)
}

// before counts a call and fails it if it is to fail without effect.
func (f *Fake) before(ctx context.Context, op Op) (Mode, error) {
	f.calls[op]++
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("%w: %w", ErrDown, err)
	}
	queue := f.faults[op]
	if len(queue) == 0 {
		return "", nil
	}
	mode := queue[0]
	f.faults[op] = queue[1:]
	switch mode {
	case ErrorBefore, RateLimited, Unauthorized:
		return mode, fmt.Errorf("%s: %w", mode, ErrDown)
	case TimeoutBefore:
		return mode, fmt.Errorf("%w: %w", ErrDown, context.DeadlineExceeded)
	case Refused:
		return mode, &fulfilment.Refusal{Code: fulfilment.RefusedUnstated, Message: "the request is declined"}
	default:
		return mode, nil
	}
}

// after fails a call that has had its effect.
func after(mode Mode) error {
	switch mode {
	case ErrorAfter:
		return ErrDown
	case TimeoutAfter:
		return fmt.Errorf("%w: %w", ErrDown, context.DeadlineExceeded)
	default:
		return nil
	}
}

// Records are what one kind of calls has made at a Fake, by reference. T is the Fake's own record.
type Records[T any] map[fulfilment.Ref]*T

// Entry is one call as it arrives at a Fake.
type Entry[T any] struct {
	Op  Op
	Ref fulfilment.Ref
	// Same says whether a record was made by the same content.
	Same func(T) bool
	// Refuse is the refusal with which the call is declined now; nil when it is not.
	Refuse func() *fulfilment.Refusal
	// Make makes the record.
	Make func(Mode) *T
}

// Take plays a call that takes effect once, and returns its record with the mode of the answer. The Fake is locked.
func (r Records[T]) Take(ctx context.Context, f *Fake, e Entry[T]) (*T, Mode, error) {
	mode, err := f.before(ctx, e.Op)
	if err != nil {
		return nil, mode, err
	}
	known, repeated := r[e.Ref]
	switch {
	case repeated && !e.Same(*known):
		return nil, mode, fmt.Errorf("reference %s was used for another %s", e.Ref, e.Op)
	case repeated:
	case f.refused[e.Ref] != nil:
		return nil, mode, f.refused[e.Ref]
	default:
		if no := e.Refuse(); no != nil {
			f.refused[e.Ref] = no
			return nil, mode, no
		}
		known = e.Make(mode)
		r[e.Ref] = known
		f.executed[e.Ref]++
	}
	return known, mode, after(mode)
}

// Find plays a look-up, and returns the record with the mode of the answer. The Fake is locked.
func (r Records[T]) Find(ctx context.Context, f *Fake, op Op, ref fulfilment.Ref) (*T, Mode, error) {
	mode, err := f.before(ctx, op)
	if err != nil {
		return nil, mode, err
	}
	known, ok := r[ref]
	if !ok {
		return nil, mode, fulfilment.ErrNoRef
	}
	return known, mode, after(mode)
}
