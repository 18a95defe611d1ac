package card

import (
	"context"
	"errors"

	"github.com/roamcard/roamcard/internal/job"
)

// mutation is one call to the issuer that must take effect at most once.
type mutation[T any] struct {
	step string
	send func(context.Context) (T, error)
	read func(context.Context) (T, error)
}

// outcome is what became of a mutation, as far as it is known.
type outcome[T any] struct {
	knowledge job.Knowledge
	record    T
	refusal   *Refusal
}

// mutate brings a mutation to what can be known of it now, with the issuer's habits; see job.Mutate.
func mutate[T any](ctx context.Context, c *Cards, l *job.Lease, m mutation[T]) (outcome[T], error) {
	found, err := job.Mutate(ctx, l, job.Mutation[T]{
		Step: m.step, Send: m.send, Read: m.read,
		Refusal: job.IsError[*Refusal], Absent: func(err error) bool { return errors.Is(err, ErrNoRef) },
		CallTimeout: c.CallTimeout, VisibilityDelay: c.Traits.VisibilityDelay, Deduplicates: c.Traits.Deduplicates, Now: c.Now,
	})
	if err != nil {
		return outcome[T]{}, err
	}
	no, _ := errors.AsType[*Refusal](found.Cause)
	return outcome[T]{knowledge: found.Knowledge, record: found.Record, refusal: no}, nil
}
