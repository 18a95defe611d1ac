package fulfilment

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
)

// Observed is what one step of a trial found. A trial makes calls that take effect at a provider's sandbox, and
// compares what the provider does with what its adapter takes for granted.
type Observed struct {
	Step, Detail string
	// Err is what the adapter takes for granted and the provider does not do. Skipped says that the step was not taken.
	Err     error
	Skipped bool
}

// Trial collects what its steps found. The first that fails with a call that the others build on ends it.
type Trial struct {
	Found []Observed
	// CallTimeout bounds one call; Deadline is how long something may stay pending.
	CallTimeout, Deadline time.Duration
}

// Saw records what a step found.
func (t *Trial) Saw(step, detail string, err error) (ok bool) {
	t.Found = append(t.Found, Observed{Step: step, Detail: detail, Err: err})
	return err == nil
}

// SawAbsent records a step that asks for what does not exist: want is the error that says so.
func (t *Trial) SawAbsent(step, detail string, err, want error) (ok bool) {
	if errors.Is(err, want) {
		return t.Saw(step, detail, nil)
	}
	return t.Saw(step, detail, errors.Join(errors.New("it was not told so"), err))
}

// Skip records a step that is not taken.
func (t *Trial) Skip(step, why string) {
	t.Found = append(t.Found, Observed{Step: step, Detail: why, Skipped: true})
}

// NewTrialRef is a reference for one call of a trial.
func NewTrialRef() Ref { return Ref(uuid.New()) }

// trialPoll is how often a trial asks for what is pending.
const trialPoll = 500 * time.Millisecond

// TrialCall makes one call of a trial.
func TrialCall[T any](ctx context.Context, t *Trial, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := fault.Within(ctx, t.CallTimeout)
	defer cancel()
	return call(ctx)
}

// TrialWait reads until what is read is done, and says how long that took. It ends at once with an error that is not
// ErrNoRef, which something new may be answered with for a while.
func TrialWait[T any](
	ctx context.Context, t *Trial, read func(context.Context) (T, error), done func(T) bool,
) (got T, took time.Duration, err error) {
	began := time.Now()
	ctx, cancel := fault.Within(ctx, t.Deadline)
	defer cancel()
	for {
		got, err = TrialCall(ctx, t, read)
		took = time.Since(began).Round(10 * time.Millisecond)
		if err == nil && done(got) {
			return got, took, nil
		}
		if err != nil && !errors.Is(err, ErrNoRef) && ctx.Err() == nil {
			return got, took, err
		}
		select {
		case <-time.After(trialPoll):
		case <-ctx.Done():
			return got, took, errors.Join(errors.New("it takes longer than "+t.Deadline.String()), err)
		}
	}
}
