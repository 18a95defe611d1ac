package card

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
)

// Sold is a card with what its closing depends on, as they are stored at one moment.
type Sold struct {
	Card Card
	// Order is the status of the order that the card was bought with.
	Order order.Status
	// Fee is the card's fee job; nil when there is none.
	Fee *job.Row
}

// CloseJobs reads and changes the closings for operators. Each write has its audit record in the same transaction, once
// per key.
type CloseJobs interface {
	// Closings lists closings, newest first. It is audited.
	Closings(ctx context.Context, q JobQuery, act Act) ([]job.Row, error)
	// OrderClosing queues the closing of a card that decide makes of the locked card. A card that has a closing keeps it,
	// and decide is not called. ErrNotFound when there is no such card, else the error of decide.
	OrderClosing(ctx context.Context, id uuid.UUID, decide func(Sold) (CloseArgs, error), act Act) (job.Row, error)
	// RetryClosing queues a closing that waits for an operator again, with the arguments that next makes of its own. A
	// closing in another status stays as it is. ErrNotFound when there is no such closing.
	RetryClosing(ctx context.Context, id uuid.UUID, next func(job.Row) (CloseArgs, error), act Act) (job.Row, error)
}

// Closers know which providers close cards.
type Closers interface {
	Closes(provider string) bool
}

// CloseAdmin runs operators' actions on closings.
type CloseAdmin struct {
	Jobs CloseJobs
	// Issuers are those of the cards.
	Issuers Closers
	// CallTimeout bounds one call to the issuer, and so an owner's that is under way.
	CallTimeout time.Duration
	Now         func() time.Time
}

// List shows a page of closings, newest first.
func (d CloseAdmin) List(ctx context.Context, q JobQuery, act Act) ([]job.Row, error) {
	return d.Jobs.Closings(ctx, q, act)
}

// Close orders the closing of a card. A repeat, with whatever key, changes nothing and returns the closing as it is
// now.
func (d CloseAdmin) Close(ctx context.Context, id uuid.UUID, act Act) (job.Row, error) {
	row, err := d.Jobs.OrderClosing(ctx, id, d.decide, act)
	if errors.Is(err, ErrNotFound) {
		return job.Row{}, fault.New(fault.CardNotFound, "There is no card with this id.")
	}
	if err != nil {
		return job.Row{}, fmt.Errorf("order the closing: %w", err)
	}
	return row, nil
}

// decide is the closing of a card. Its issue fee is decided about before: what is left is the owner's alone.
func (d CloseAdmin) decide(s Sold) (CloseArgs, error) {
	switch {
	case !d.Issuers.Closes(s.Card.Provider):
		return CloseArgs{}, controlMissing()
	case s.Card.Status != Active && s.Card.Status != Frozen:
		return CloseArgs{}, fault.Newf(fault.CardNotActive, "The card is %s.", s.Card.Status)
	case s.Order != order.Fulfilled || s.Fee == nil:
		return CloseArgs{}, fault.New(fault.CardNotActive, "The card is still being set up.")
	}
	fee, err := job.Decode[FeeArgs](*s.Fee)
	if err != nil {
		return CloseArgs{}, fmt.Errorf("read the fee job: %w", err)
	}
	switch {
	case s.Fee.Status == job.Queued || s.Fee.Status == job.Processing:
		return CloseArgs{}, fault.New(fault.CardNotActive,
			"The card is still being set up: its issue fee is being withdrawn.")
	case s.Fee.Status != job.Succeeded && !fee.WrittenOff:
		return CloseArgs{}, fault.New(fault.FeeOutstanding,
			"The card's issue fee has not been withdrawn. Retry its fee job, reconcile it, or write it off first.")
	}
	now := d.Now().UTC()
	a := CloseArgs{
		Card: s.Card.ID, Order: string(s.Card.Order), Account: s.Card.Account, Opening: s.Card.Ref.String(),
		Provider: s.Card.Provider, Stage: StageLocking, Since: now, After: now, Version: 1,
	}
	if s.Card.OwnerFrozen {
		a.After = now.Add(d.CallTimeout)
	}
	return a, nil
}

// Retry lets a closing that waits for an operator go on with its stage. Nothing that the issuer or the chain may have
// taken is sent under another reference. A closing in another status stays as it is.
func (d CloseAdmin) Retry(ctx context.Context, id uuid.UUID, act Act) (job.Row, error) {
	row, err := d.Jobs.RetryClosing(ctx, id, func(row job.Row) (CloseArgs, error) {
		a, err := job.Decode[CloseArgs](row)
		if err != nil {
			return CloseArgs{}, fmt.Errorf("read the closing: %w", err)
		}
		a.Since, a.Short = d.Now().UTC(), 0
		return a, nil
	}, act)
	if errors.Is(err, ErrNotFound) {
		return job.Row{}, fault.New(fault.JobNotFound, "There is no closing of a card with this id.")
	}
	if err != nil {
		return job.Row{}, fmt.Errorf("retry the closing: %w", err)
	}
	return row, nil
}

// NewCloseJob is the job of a closing.
func NewCloseJob(a CloseArgs) job.New {
	return job.New{Args: a, UniqueKey: a.Card.String(), Class: job.Deliver}
}
