// Package fulfilmenttest is the conformance kit of providers that are called under a reference, and the base of a
// provider in memory.
package fulfilmenttest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
)

// Op is a call to a provider, as faults name it.
type Op string

// Mode is a way for one call to go wrong.
type Mode string

// The modes that the suite knows. A provider may have more.
const (
	ErrorBefore   Mode = "error_before"
	ErrorAfter    Mode = "error_after"
	TimeoutBefore Mode = "timeout_before"
	TimeoutAfter  Mode = "timeout_after"
	Refused       Mode = "refused"
	Malformed     Mode = "malformed"
	Truncated     Mode = "truncated"
	Huge          Mode = "huge"
	RateLimited   Mode = "rate_limited"
	Unauthorized  Mode = "unauthorized"
	UnknownState  Mode = "unknown_state"
	WrongAmount   Mode = "wrong_amount"
	Inexact       Mode = "inexact_amount"
	WrongCurrency Mode = "wrong_currency"
	WrongOwner    Mode = "wrong_owner"
	Duplicate     Mode = "duplicate"
)

// Handles are what a test holds of the provider under test.
type Handles struct {
	Traits fulfilment.Traits
	// Settle makes everything pending complete. Until then it stays pending.
	Settle func()
	// Fault makes the next call of one kind fail, and says whether it can. May be nil.
	Fault func(Op, Mode) bool
	// Executed is how often a call with a reference really took effect. May be nil.
	Executed func(fulfilment.Ref) int
	// Absent are the provider's errors, next to fulfilment.ErrNoRef, that say that something is not there.
	Absent []error
}

// Operation is one kind of call to a provider; T is the provider's record of it.
type Operation[T any] struct {
	// Name is how the tests name it.
	Name string
	// Send and Read are the calls that make it and look it up, as faults name them.
	Send, Read Op
	// New prepares a request that was never sent, with all that it needs at the provider.
	New func(t *testing.T) Request[T]
	// Lookup reads a record back by its reference.
	Lookup func(context.Context, fulfilment.Ref) (T, error)
	// ID is the provider's own name for a record; empty where it has none.
	ID func(T) string
	// Done and Pending say how a record stands, and Refusal why it was rejected; nil while it was not.
	Done, Pending func(T) bool
	Refusal       func(T) *fulfilment.Refusal
	// Same says whether two records report the same.
	Same func(a, b T) bool
}

// Request is one request that is ready to be sent.
type Request[T any] struct {
	Ref  fulfilment.Ref
	Send func(context.Context) (T, error)
	// Altered sends other content under the same reference. May be nil.
	Altered func(context.Context) (T, error)
	// Effect checks what a request that took effect so many times has changed elsewhere. May be nil.
	Effect func(t *testing.T, times int)
}

// Tested is an Operation on any record.
type Tested interface {
	name() string
	unknownReferenceIsErrNoRef(*testing.T, Handles)
	repeatedCallTakesEffectOnce(*testing.T, Handles)
	referenceIsNotReused(*testing.T, Handles)
	unknownOutcomesAreReadBack(*testing.T, Handles)
	unreadableAnswersAreNotRefusals(*testing.T, Handles)
	definiteNoIsARefusal(*testing.T, Handles)
	unfamiliarStateIsPending(*testing.T, Handles)
	failedReadsAreNotErrNoRef(*testing.T, Handles)
}

// Run checks the operations of a provider.
func Run(t *testing.T, h Handles, operations ...Tested) {
	for _, rule := range []struct {
		name string
		test func(Tested, *testing.T, Handles)
	}{
		{"UnknownReferenceIsErrNoRef", Tested.unknownReferenceIsErrNoRef},
		{"RepeatedCallTakesEffectOnce", Tested.repeatedCallTakesEffectOnce},
		{"ReferenceIsNotReusedForOtherContent", Tested.referenceIsNotReused},
		{"UnknownOutcomesAreReadBack", Tested.unknownOutcomesAreReadBack},
		{"UnreadableAnswersAreNotRefusals", Tested.unreadableAnswersAreNotRefusals},
		{"DefiniteNoIsARefusal", Tested.definiteNoIsARefusal},
		{"UnfamiliarStateIsPending", Tested.unfamiliarStateIsPending},
		{"FailedReadsAreNotErrNoRef", Tested.failedReadsAreNotErrNoRef},
	} {
		t.Run(rule.name, func(t *testing.T) {
			for _, o := range operations {
				t.Run(o.name(), func(t *testing.T) { rule.test(o, t, h) })
			}
		})
	}
}

// NewRef is a reference that nobody has used.
func NewRef() fulfilment.Ref { return fulfilment.Ref(uuid.New()) }

// Context bounds the calls of one test.
func Context(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// Inject makes the next call fail, or skips the test where that is not possible.
func (h Handles) Inject(t *testing.T, op Op, mode Mode) {
	t.Helper()
	if h.Fault == nil || !h.Fault(op, mode) {
		t.Skipf("the provider cannot %s on %s", mode, op)
	}
}

// WantExecuted wants a call to have taken effect so many times, where that can be seen.
func (h Handles) WantExecuted(t *testing.T, ref fulfilment.Ref, want int) {
	t.Helper()
	if h.Executed == nil {
		return
	}
	if got := h.Executed(ref); got != want {
		t.Errorf("the call took effect %d times, want %d", got, want)
	}
}

// WantUnknown accepts every error that leaves the outcome open.
func (h Handles) WantUnknown(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Error("the call succeeded; want an unknown outcome")
	}
	if no, ok := errors.AsType[*fulfilment.Refusal](err); ok {
		t.Errorf("the outcome is unknown and not refused: %v", no)
	}
	for _, absent := range append([]error{fulfilment.ErrNoRef}, h.Absent...) {
		if errors.Is(err, absent) {
			t.Errorf("the outcome is unknown and not absent: %v", err)
		}
	}
}

// WantRefused sends a request, and wants a definite refusal with a code, at once or when it is read back: the same one
// when it is repeated.
func (o Operation[T]) WantRefused(t *testing.T, h Handles, r Request[T], code string) {
	t.Helper()
	ctx := Context(t)
	got, err := r.Send(ctx)
	atOnce := err != nil
	if !atOnce {
		h.Settle()
		got, err = o.Lookup(ctx, r.Ref)
	}
	if no := o.refusal(got, err); no == nil || no.Code != code {
		t.Errorf("refused with %+v, %v; want %s", no, err, code)
	}
	if h.Traits.Deduplicates {
		again, err := r.Send(ctx)
		if no := o.refusal(again, err); no == nil || no.Code != code || (atOnce && err == nil) {
			t.Errorf("repeated: %v, want the same refusal", err)
		}
	}
	if r.Effect != nil {
		r.Effect(t, 0)
	}
}

// Finished sends a new request and waits until it is done.
func (o Operation[T]) Finished(t *testing.T, h Handles) (Request[T], T) {
	t.Helper()
	ctx, r := Context(t), o.New(t)
	if _, err := r.Send(ctx); err != nil {
		t.Fatalf("%s: %v", o.Name, err)
	}
	h.Settle()
	got, err := o.Lookup(ctx, r.Ref)
	if err != nil || !o.Done(got) {
		t.Fatalf("the %s reads back as %+v, %v; want it done", o.Name, got, err)
	}
	return r, got
}
