package card

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// ClosingFacts are a card and what its closing depends on, as they are stored at one moment.
type ClosingFacts struct {
	Card Card
	// Order is the status of the order that the card was bought with.
	Order order.Status
	// Fee is the card's fee job; nil when there is none.
	Fee *job.Row
}

// Inspection is a card as operators see it.
type Inspection struct {
	Card Card
	// Loaded is the most that can be on it: what was loaded and not withdrawn, before its holder spent of it.
	Loaded money.Cents
}

// CloseJobs reads and changes the closings for operators. Each write has its audit record in the same transaction, once
// per key.
type CloseJobs interface {
	// Inspect reads a card. ErrNotFound when there is none. It is audited.
	Inspect(ctx context.Context, id uuid.UUID, act OperatorContext) (Inspection, error)
	// Closings lists closings, newest first. It is audited.
	Closings(ctx context.Context, q job.Query, act OperatorContext) ([]job.Row, error)
	// OrderClosing queues the closing of a card that decide makes of the locked card. A card that has a closing keeps it,
	// and decide is not called. ErrNotFound when there is no such card, approval.PendingError when the closing waits for a
	// second operator, else the error of decide.
	OrderClosing(
		ctx context.Context, id uuid.UUID, decide func(ClosingFacts) (CloseArgs, error), act OperatorContext,
	) (job.Row, error)
	// RetryClosing queues a closing that waits for an operator again, with the arguments that next makes of its own. A
	// closing in another status stays as it is. ErrNotFound when there is no such closing, ErrChanged when it is not at
	// the act's version.
	RetryClosing(
		ctx context.Context, id uuid.UUID, next func(job.Row) (CloseArgs, error), act OperatorContext,
	) (job.Row, error)
	// Refunding finds a closing, the owner of its card, and whether a refund of its order is signed that may still be
	// paid. ErrNotFound when there is no such closing.
	Refunding(ctx context.Context, id uuid.UUID) (row job.Row, owner x402.Address, signed bool, err error)
	// ConcludeRefund queues a closing that waits for an operator again, with the arguments that next makes of its own,
	// and adds the posting of what was returned, in one transaction. A closing in another status stays as it is.
	// payment.ErrRefundSigned while a refund of its order may still be paid, payment.ErrTransferUsed when the transaction
	// has concluded something else, ErrNotFound when there is no such closing, ErrChanged when it is not at the act's
	// version.
	ConcludeRefund(
		ctx context.Context, id uuid.UUID, next func(job.Row) (CloseArgs, error), act OperatorContext,
	) (job.Row, error)
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
	Chain   payment.Transfers
	// CallTimeout bounds one call to the issuer, and so an owner's that is under way.
	CallTimeout time.Duration
	Now         func() time.Time
}

// List shows a page of closings, newest first.
func (d CloseAdmin) List(ctx context.Context, q job.Query, act OperatorContext) ([]job.Row, error) {
	return d.Jobs.Closings(ctx, q, act)
}

// Inspect shows a card as it is stored. The issuer is not asked.
func (d CloseAdmin) Inspect(ctx context.Context, id uuid.UUID, act OperatorContext) (Inspection, error) {
	found, err := d.Jobs.Inspect(ctx, id, act)
	if errors.Is(err, ErrNotFound) {
		return Inspection{}, noCard()
	}
	if err != nil {
		return Inspection{}, fmt.Errorf("read the card: %w", err)
	}
	return found, nil
}

// Close orders the closing of a card. A repeat, with whatever key, changes nothing and returns the closing as it is
// now.
func (d CloseAdmin) Close(ctx context.Context, id uuid.UUID, act OperatorContext) (job.Row, error) {
	row, err := d.Jobs.OrderClosing(ctx, id, d.Closing, act)
	if err != nil {
		return job.Row{}, Ordering(err)
	}
	return row, nil
}

// Ordering maps the errors of CloseJobs.OrderClosing to faults.
func Ordering(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNotFound):
		return noCard()
	}
	return fmt.Errorf("order the closing: %w", err)
}

func noCard() error { return fault.New(fault.CardNotFound, "There is no card with this id.") }

// Closing is the closing of a card. Its issue fee is decided about before: what is left is the owner's alone.
func (d CloseAdmin) Closing(s ClosingFacts) (CloseArgs, error) {
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
func (d CloseAdmin) Retry(ctx context.Context, id uuid.UUID, act OperatorContext) (job.Row, error) {
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
	if errors.Is(err, ErrChanged) {
		return job.Row{}, changed()
	}
	if err != nil {
		return job.Row{}, fmt.Errorf("retry the closing: %w", err)
	}
	return row, nil
}

// Conclude lets a closing whose refund was done by hand go on, by the transaction that did it: the chain shows that it
// transferred the remainder to the card's owner. While a refund of the service's own may still be paid, it does not. A
// repeat changes nothing.
func (d CloseAdmin) Conclude(
	ctx context.Context, id uuid.UUID, transaction x402.Hash, act OperatorContext,
) (job.Row, error) {
	row, owner, signed, err := d.Jobs.Refunding(ctx, id)
	if err != nil {
		return job.Row{}, concluding(err)
	}
	a, err := job.Decode[CloseArgs](row)
	switch {
	case err != nil:
		return job.Row{}, fmt.Errorf("read the closing: %w", err)
	case a.ByHand == transaction.String():
		return row, nil
	case row.Status != job.OperatorReview || a.Stage != StageRefunding:
		return job.Row{}, fault.New(fault.OrderNotInReview, "Only a closing that waits for an operator with its refund "+
			"can be concluded by hand.")
	case signed:
		return job.Row{}, concluding(payment.ErrRefundSigned)
	}
	switch shown, err := d.Chain.Transferred(ctx, owner, a.Remainder.USDC(), transaction); {
	case err != nil:
		return job.Row{}, fmt.Errorf("read the transaction: %w",
			errors.Join(fault.New(fault.DependencyDown, "The chain does not answer."), err))
	case !shown:
		return job.Row{}, fault.New(fault.TransferUnproven,
			"The chain does not show that the transaction transferred the remainder to the card's owner.")
	}
	row, err = d.Jobs.ConcludeRefund(ctx, id, func(row job.Row) (CloseArgs, error) {
		a, err := job.Decode[CloseArgs](row)
		if err != nil {
			return CloseArgs{}, fmt.Errorf("read the closing: %w", err)
		}
		if a.Stage != StageRefunding {
			return CloseArgs{}, fault.New(fault.OrderNotInReview, "The closing has gone on meanwhile.")
		}
		a = a.at(StageEnding, d.Now().UTC())
		a.ByHand = transaction.String()
		return a, nil
	}, act)
	if err != nil {
		return job.Row{}, concluding(err)
	}
	return row, nil
}

// concluding maps the errors of CloseJobs.
func concluding(err error) error {
	switch {
	case errors.Is(err, ErrNotFound):
		return fault.New(fault.JobNotFound, "There is no closing of a card with this id.")
	case errors.Is(err, ErrChanged):
		return changed()
	case errors.Is(err, payment.ErrRefundSigned):
		return fault.New(fault.OrderNotInReview, "A refund of the service's own is signed and may still be paid. "+
			"Retry the closing, until it waits for an operator because that refund is dead.")
	case errors.Is(err, payment.ErrTransferUsed):
		return fault.New(fault.TransferUnproven, "The transaction is the refund of something else already.")
	}
	return fmt.Errorf("conclude the closing: %w", err)
}

// NewCloseJob is the job of a closing.
func NewCloseJob(a CloseArgs) job.New {
	return job.New{Args: a, UniqueKey: a.Card.String(), Class: job.Deliver}
}
