package job

import (
	"context"
	"errors"
	"time"
)

// Knowledge is what is known of a mutation at a provider.
type Knowledge int

// The kinds of knowledge.
const (
	// Unknown: read again later; this alone never justifies sending again.
	Unknown Knowledge = iota
	// Known: the provider's own record was returned or read.
	Known
	// Refused: a definite refusal; the mutation did not happen.
	Refused
	// Untraceable: the provider does not know the reference after its visibility delay and does not deduplicate. An
	// operator decides.
	Untraceable
)

// Mutation is one call to a provider that must take effect at most once.
type Mutation[T any] struct {
	// Step names the call in the job's marker.
	Step string
	Send func(context.Context) (T, error)
	// Read looks the call up by our reference.
	Read func(context.Context) (T, error)
	// Refusal reports that an error of Send is the provider's definite refusal, Absent that an error of Read says that
	// the provider does not know the reference.
	Refusal, Absent func(error) bool
	// CallTimeout bounds one call. Horizon is the visibility delay: how long after the call the reference may still
	// appear.
	CallTimeout, VisibilityDelay time.Duration
	// Deduplicates: the same reference sent twice takes effect once.
	Deduplicates bool
	Now          func() time.Time
}

// Finding is the known result of a mutation.
type Finding[T any] struct {
	Knowledge Knowledge
	// Record is the provider's, when Known.
	Record T
	// Cause is the refusal, or why nothing more is known.
	Cause error
}

// Mutate runs a mutation once and returns its known result. The first time, it commits a marker to the job and then
// sends, unless a provider that does not deduplicate already has the reference, from before a data loss. While the
// marker is that of this step, it reads by our reference. It sends again only a reference that the provider does not
// know after the visibility delay, and only to a provider that deduplicates. The error is ours (lease lost, database),
// never the provider's.
func Mutate[T any](ctx context.Context, l *Lease, m Mutation[T]) (Finding[T], error) {
	begun := l.Step() == m.Step
	if !begun && m.Deduplicates {
		return m.submit(ctx, l)
	}
	call, cancel := context.WithTimeout(ctx, m.CallTimeout)
	defer cancel()
	got, err := m.Read(call)
	switch {
	case err == nil:
		return Finding[T]{Knowledge: Known, Record: got}, nil
	case !begun && m.Absent(err):
		return m.submit(ctx, l)
	case !m.Absent(err), m.tooEarly(l):
		return Finding[T]{Cause: err}, nil
	case !m.Deduplicates:
		return Finding[T]{Knowledge: Untraceable, Cause: err}, nil
	}
	return m.submit(ctx, l)
}

// tooEarly says that a reference sent by this job may still appear at the provider.
func (m Mutation[T]) tooEarly(l *Lease) bool {
	at := l.StepAt()
	return at != nil && m.Now().Before(at.Add(m.CallTimeout+m.VisibilityDelay))
}

func (m Mutation[T]) submit(ctx context.Context, l *Lease) (Finding[T], error) {
	var (
		got  T
		said error
	)
	err := l.Submit(ctx, m.Step, m.CallTimeout, func(ctx context.Context) error {
		got, said = m.Send(ctx)
		return nil
	})
	switch {
	case err != nil:
		return Finding[T]{}, err
	case said == nil:
		return Finding[T]{Knowledge: Known, Record: got}, nil
	case m.Refusal(said):
		return Finding[T]{Knowledge: Refused, Cause: said}, nil
	}
	return Finding[T]{Cause: said}, nil
}

// IsError says whether an error is, or wraps, one of a type: a Refusal of a Mutation.
func IsError[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}
