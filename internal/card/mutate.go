package card

import (
	"context"
	"errors"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/mutant"
)

// knowledge is what is known of a mutation at the issuer.
type knowledge int

const (
	// unknown: look again later; never send again on this alone.
	unknown knowledge = iota
	// recorded: the issuer's own record was returned or read.
	recorded
	// refused: a definite no; the mutation did not happen.
	refused
	// untraceable: the issuer shows no trace after its horizon and does not deduplicate: a person decides.
	untraceable
)

// mutation is one call to the issuer that must take effect at most once.
type mutation[T any] struct {
	step string
	send func(context.Context) (T, error)
	read func(context.Context) (T, error)
}

// outcome is what became of a mutation, as far as it is known.
type outcome[T any] struct {
	knowledge knowledge
	record    T
	refusal   *Refusal
	// note is why nothing more is known.
	note error
}

// mutate brings a mutation to what can be known of it now. The first time, it commits a marker to the
// job and then sends; ever after, while the marker is that of this step, it reads by our reference. Only a reference that the issuer does not
// know, after the horizon, is sent again, and only to an issuer that deduplicates. The error is ours
// (lease lost, database), never the issuer's.
func mutate[T any](ctx context.Context, c *Cards, l *job.Lease, m mutation[T]) (outcome[T], error) {
	if l.Step() != m.step || mutant.ResendUnknown {
		return submit(ctx, c, l, m)
	}
	call, cancel := context.WithTimeout(ctx, c.Budget)
	defer cancel()
	got, err := m.read(call)
	switch {
	case err == nil:
		return outcome[T]{knowledge: recorded, record: got}, nil
	case !errors.Is(err, ErrNoRef), c.tooEarly(l):
		return outcome[T]{note: err}, nil
	case !c.Traits.Deduplicates:
		return outcome[T]{knowledge: untraceable, note: err}, nil
	}
	return submit(ctx, c, l, m)
}

// tooEarly says that a reference sent by this job may still appear at the issuer.
func (c *Cards) tooEarly(l *job.Lease) bool {
	at := l.StepAt()
	return at != nil && !mutant.HorizonIgnored && c.Now().Before(at.Add(c.Budget+c.Traits.Horizon))
}

func submit[T any](ctx context.Context, c *Cards, l *job.Lease, m mutation[T]) (outcome[T], error) {
	var (
		got  T
		said error
	)
	err := l.Submit(ctx, m.step, c.Budget, func(ctx context.Context) error {
		got, said = m.send(ctx)
		return nil
	})
	switch {
	case err != nil:
		return outcome[T]{}, err
	case said == nil:
		return outcome[T]{knowledge: recorded, record: got}, nil
	}
	if no, ok := errors.AsType[*Refusal](said); ok {
		return outcome[T]{knowledge: refused, refusal: no}, nil
	}
	return outcome[T]{note: said}, nil
}
