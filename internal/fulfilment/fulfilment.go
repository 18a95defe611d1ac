// Package fulfilment makes one irreversible call at a provider: at most once, under a stored reference, until it is
// known what became of it.
//
//	reference stored ─► marker on the job ─► Send ─┬─ record ──────► Known
//	                           ▲                   ├─ definite no ─► Refused
//	                           │                   └─ no answer ───► Unknown
//	                           │ same reference,                       │ the job's next run
//	                           │ to a provider                         ▼
//	                           │ that deduplicates                    Read ─┬─ record ─────────────► Known
//	                           │                                            ├─ no answer, too early ► Unknown
//	                           └────────────────────────────────────────────┴─ no such reference ──► Untraceable
//
// A product derives the reference (Series), makes the call from its job (Make), acts on the provider's record, and
// reports to the order how far the delivery has come (Attempt). What stays Unknown is read again, less and less often,
// up to a deadline. An operator decides about what is past it, or Untraceable.
package fulfilment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
)

// Provider is who is called, such as a card issuer, as far as every call to it is the same.
type Provider struct {
	// Name is what evidence calls it: "issuer".
	Name   string
	Traits Traits
	// CallTimeout bounds one call.
	CallTimeout time.Duration
	// Poll is how often a pending call is read at first; Deadline is how long it may stay pending before an operator
	// looks at it.
	Poll, Deadline time.Duration
	// Working is since when this process has been able to ask, without an interruption; nil is always.
	Working func() time.Time
	Now     func() time.Time
}

// Traits are a provider's properties that decide what may be done after an unknown outcome.
type Traits struct {
	// Deduplicates: the same reference sent twice takes effect once.
	Deduplicates bool
	// VisibilityDelay is how long after the last send a reference may still appear. Until it has passed,
	// "no such reference" means unknown.
	VisibilityDelay time.Duration
}

// Call is one call to a provider that must take effect at most once.
type Call[T any] struct {
	// Step names the call in its job's marker. Calls of one job with different references have different steps.
	Step string
	// Send makes the call. Its error is a *Refusal for a definite no, or ErrNotSent; any other leaves the outcome
	// unknown.
	Send func(context.Context) (T, error)
	// Read looks the call up by our reference. ErrNoRef when the provider knows none such.
	Read func(context.Context) (T, error)
}

// Kind is how much is known of a call.
type Kind int

// The kinds of outcomes.
const (
	// Unknown: read again later; this alone never justifies sending again.
	Unknown Kind = iota
	// Known: the provider's own record was returned or read.
	Known
	// Refused: a definite refusal; the call had no effect.
	Refused
	// Untraceable: the provider does not know the reference after its visibility delay and does not deduplicate. An
	// operator decides.
	Untraceable
)

// Outcome is the known result of a call.
type Outcome[T any] struct {
	Kind Kind
	// Record is the provider's, when Known.
	Record T
	// Refusal is the provider's, when Refused.
	Refusal *Refusal
}

// Make runs a call once and returns its known result. The first time, it commits a marker to the job and then sends,
// unless a provider that does not deduplicate already has the reference, from before a data loss. While the marker is
// that of this step, it reads by our reference. It sends again only a reference that the provider does not know after
// the visibility delay, and only to a provider that deduplicates. A call whose sends all failed with ErrNotSent was
// not begun. The error is ours (lease lost, database), never the provider's. What the provider said, or did not say, is
// what the job waits for if it waits.
func Make[T any](ctx context.Context, l *job.Lease, p Provider, c Call[T]) (Outcome[T], error) {
	begun := l.Step() == c.Step
	if !begun && p.Traits.Deduplicates {
		return submit(ctx, l, p, c, begun)
	}
	call, cancel := fault.Within(ctx, p.CallTimeout)
	defer cancel()
	record, err := c.Read(call)
	switch absent := errors.Is(err, ErrNoRef); {
	case err == nil:
		return known(l, p, record), nil
	case !begun && absent:
		return submit(ctx, l, p, c, begun)
	case !absent, p.MayStillAppear(l.StepAt()):
		return unknown[T](l, p, err), nil
	case !p.Traits.Deduplicates:
		return Outcome[T]{Kind: Untraceable}, nil
	}
	return submit(ctx, l, p, c, begun)
}

// MayStillAppear says that a reference whose step was marked at a time, nil for never, may not be visible at the
// provider yet.
func (p Provider) MayStillAppear(at *time.Time) bool {
	return at != nil && p.Now().Before(at.Add(p.CallTimeout+p.Traits.VisibilityDelay))
}

// submit sends. begun says that an earlier send of this job left the outcome unknown.
func submit[T any](ctx context.Context, l *job.Lease, p Provider, c Call[T], begun bool) (Outcome[T], error) {
	var (
		record T
		said   error
	)
	err := l.Submit(ctx, c.Step, p.CallTimeout, func(ctx context.Context) error {
		record, said = c.Send(ctx)
		return nil
	})
	if err != nil {
		return Outcome[T]{}, err
	}
	if no, refused := errors.AsType[*Refusal](said); refused {
		return Outcome[T]{Kind: Refused, Refusal: no}, nil
	}
	if !begun && errors.Is(said, ErrNotSent) {
		// Without its marker the next run makes the call again. If the marker stays, it is read instead. It stays when it
		// stands for an earlier send, of which this one proves nothing.
		if err := l.Mark(ctx, ""); err != nil {
			return Outcome[T]{}, fmt.Errorf("take the marker back: %w", err)
		}
		return unknown[T](l, p, said), nil
	}
	if said != nil {
		return unknown[T](l, p, said), nil
	}
	return known(l, p, record), nil
}

// unknown is a call of which the provider has not told, by the error of the last try.
func unknown[T any](l *job.Lease, p Provider, last error) Outcome[T] {
	l.Because(fmt.Sprintf("the %s has not said what became of it: %v", p.Name, last))
	return Outcome[T]{Kind: Unknown}
}

func known[T any](l *job.Lease, p Provider, record T) Outcome[T] {
	l.Because("the " + p.Name + " has it and has not finished it")
	return Outcome[T]{Kind: Known, Record: record}
}

// Wait says when to look again at a call that is pending since a time; ok is false once its deadline has passed. After
// an interruption nobody gives up before it was looked at a few times.
func (p Provider) Wait(since time.Time) (after time.Duration, ok bool) {
	return p.Pace(since), !job.Overdue(p.Now(), since, p.working(), p.Deadline)
}

// Pace says when to look again at what is awaited since a time: ever more seldom. After an interruption what is older
// is looked at at once, and then ever more seldom again.
func (p Provider) Pace(since time.Time) time.Duration {
	now := p.Now()
	return min(job.Pace(p.Poll, now.Sub(since)), max(p.Poll, now.Sub(p.working())/2))
}

func (p Provider) working() (since time.Time) {
	if p.Working != nil {
		since = p.Working()
	}
	return since
}
