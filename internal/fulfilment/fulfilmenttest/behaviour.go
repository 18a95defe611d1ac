package fulfilmenttest

import (
	"errors"
	"sync"
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment"
)

func (o Operation[T]) name() string { return o.Name }

// refusal is a definite refusal in either form: as the error of a call, or in what is read back.
func (o Operation[T]) refusal(read T, err error) *fulfilment.Refusal {
	if no, ok := errors.AsType[*fulfilment.Refusal](err); ok {
		return no
	}
	return o.Refusal(read)
}

// wantEffect wants a call to have taken effect so many times, by the provider's count and by what it changed.
func (o Operation[T]) wantEffect(t *testing.T, h Handles, r Request[T], times int) {
	t.Helper()
	h.WantExecuted(t, r.Ref, times)
	if r.Effect != nil {
		h.Settle()
		r.Effect(t, times)
	}
}

func (o Operation[T]) unknownReferenceIsErrNoRef(t *testing.T, _ Handles) {
	if _, err := o.Lookup(Context(t), NewRef()); !errors.Is(err, fulfilment.ErrNoRef) {
		t.Errorf("%s = %v, want ErrNoRef", o.Read, err)
	}
}

const copies = 6

func (o Operation[T]) repeatedCallTakesEffectOnce(t *testing.T, h Handles) {
	if !h.Traits.Deduplicates {
		t.Skip("the provider does not deduplicate")
	}
	ctx, r := Context(t), o.New(t)
	var ids sync.Map
	var sent sync.WaitGroup
	for range copies {
		sent.Go(func() {
			got, err := r.Send(ctx)
			if err != nil {
				t.Errorf("%s: %v", o.Name, err)
				return
			}
			ids.Store(o.ID(got), true)
		})
	}
	sent.Wait()
	h.Settle()
	again, err := r.Send(ctx)
	if err != nil || !o.Done(again) {
		t.Errorf("repeated when it was done: %+v, %v", again, err)
	}
	ids.Store(o.ID(again), true)
	n := 0
	ids.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("one reference made %d records", n)
	}
	o.wantEffect(t, h, r, 1)
}

func (o Operation[T]) referenceIsNotReused(t *testing.T, h Handles) {
	ctx, r := Context(t), o.New(t)
	if !h.Traits.Deduplicates || r.Altered == nil {
		t.Skip("the provider does not deduplicate this")
	}
	if _, err := r.Send(ctx); err != nil {
		t.Fatalf("%s: %v", o.Name, err)
	}
	_, err := r.Altered(ctx)
	// Something did happen under this reference, so this is no refusal.
	h.WantUnknown(t, err)
	o.wantEffect(t, h, r, 1)
}

func (o Operation[T]) unknownOutcomesAreReadBack(t *testing.T, h Handles) {
	for mode, times := range map[Mode]int{TimeoutBefore: 0, ErrorBefore: 0, TimeoutAfter: 1, ErrorAfter: 1} {
		t.Run(string(mode), func(t *testing.T) {
			ctx, r := Context(t), o.New(t)
			h.Inject(t, o.Send, mode)
			_, err := r.Send(ctx)
			h.WantUnknown(t, err)
			_, err = o.Lookup(ctx, r.Ref)
			if times > 0 && err != nil {
				t.Errorf("what happened is not found: %v", err)
			}
			if times == 0 && !errors.Is(err, fulfilment.ErrNoRef) {
				t.Errorf("what did not happen reads as %v, want ErrNoRef", err)
			}
			o.wantEffect(t, h, r, times)
		})
	}
}

func (o Operation[T]) unreadableAnswersAreNotRefusals(t *testing.T, h Handles) {
	for _, mode := range []Mode{
		Malformed, Truncated, Huge, RateLimited, Unauthorized, WrongAmount, Inexact, WrongCurrency, WrongOwner,
	} {
		t.Run(string(mode), func(t *testing.T) {
			r := o.New(t)
			h.Inject(t, o.Send, mode)
			_, err := r.Send(Context(t))
			h.WantUnknown(t, err)
		})
	}
}

func (o Operation[T]) definiteNoIsARefusal(t *testing.T, h Handles) {
	r := o.New(t)
	h.Inject(t, o.Send, Refused)
	_, err := r.Send(Context(t))
	if no, ok := errors.AsType[*fulfilment.Refusal](err); !ok || no.Code == "" {
		t.Errorf("%s = %v, want a refusal with its code", o.Send, err)
	}
	o.wantEffect(t, h, r, 0)
}

func (o Operation[T]) unfamiliarStateIsPending(t *testing.T, h Handles) {
	r, _ := o.Finished(t, h)
	h.Inject(t, o.Read, UnknownState)
	if got, err := o.Lookup(Context(t), r.Ref); err != nil || !o.Pending(got) {
		t.Errorf("an unfamiliar state reads as %+v, %v; want pending", got, err)
	}
}

func (o Operation[T]) failedReadsAreNotErrNoRef(t *testing.T, h Handles) {
	r, done := o.Finished(t, h)
	for _, mode := range []Mode{
		ErrorBefore, TimeoutBefore, Malformed, Truncated, Huge, RateLimited, Unauthorized, WrongOwner,
	} {
		t.Run(string(mode), func(t *testing.T) {
			h.Inject(t, o.Read, mode)
			_, err := o.Lookup(Context(t), r.Ref)
			h.WantUnknown(t, err)
		})
	}
	t.Run(string(Duplicate), func(t *testing.T) {
		h.Inject(t, o.Read, Duplicate)
		if got, err := o.Lookup(Context(t), r.Ref); err != nil || !o.Same(done, got) {
			t.Errorf("the same report twice reads as %+v, %v", got, err)
		}
	})
}
