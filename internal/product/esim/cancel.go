package esim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// CancelJob is the kind of the job that gives an unused profile back.
const CancelJob job.Kind = "esim_cancel"

// CancelStage is how far a cancellation is. The stored stage alone decides the next step.
type CancelStage string

// The stages, in their order. A profile that the supplier does not take back goes from StageCancelling to StageKept.
const (
	// StageCancelling: the supplier is, or may have been, asked to take the profile back.
	StageCancelling CancelStage = "cancelling"
	// StageRefunding: the supplier has confirmed it and credited us; the refund is owed to the owner.
	StageRefunding CancelStage = "refunding"
	// StageRefunded: the owner has the refund.
	StageRefunded CancelStage = "refunded"
	// StageKept: the supplier has refused, and the profile is the owner's as before.
	StageKept CancelStage = "kept"
)

// CancelArgs are the arguments of the job that gives a profile back, with how far that is. The job's unique key is the
// order.
type CancelArgs struct {
	Order   order.ID    `json:"order"`
	Profile uuid.UUID   `json:"profile"`
	Stage   CancelStage `json:"stage"`
	// Since is when the stage began.
	Since time.Time `json:"since"`
	// Credit is what the supplier has credited, and Refund what of it goes back to the owner: all, and never more than was
	// paid. Both are set from StageRefunding on.
	Credit money.USDC `json:"creditMicros,omitempty"`
	Refund money.USDC `json:"refundMicros,omitempty"`
	// ByHand is the transaction that an operator has refunded it with; empty when the service has.
	ByHand string `json:"byHand,omitempty"`
}

// Kind implements job.Args.
func (CancelArgs) Kind() job.Kind { return CancelJob }

// Postings are the ledger postings of a cancellation.
func (a CancelArgs) Postings() (all []ledger.Posting) {
	if a.Credit > 0 {
		all = append(all, ledger.Cancelled(string(a.Order), a.Credit, a.Refund))
	}
	if a.Stage == StageRefunded && a.Refund > 0 {
		all = append(all, a.Return())
	}
	return all
}

// Return is the posting of the refund that has reached the owner.
func (a CancelArgs) Return() ledger.Posting { return ledger.Returned(string(a.Order), a.Refund) }

func (a CancelArgs) at(stage CancelStage, now time.Time) CancelArgs {
	a.Stage, a.Since = stage, now
	return a
}

// NewCancelJob is the job of a cancellation.
func NewCancelJob(a CancelArgs) job.New {
	return job.New{Args: a, UniqueKey: string(a.Order), Class: job.Deliver}
}

// Cancellation is a cancellation with the status of its job.
type Cancellation struct {
	CancelArgs
	Job job.Status
	// Transaction moved the refund; zero before StageRefunded.
	Transaction x402.Hash
}

// CancelStore keeps cancellations. Its writes of a job have the job's fence.
type CancelStore interface {
	// BeginCancel queues the cancellation of a ready profile, and returns it. One that is queued, waits for an operator or
	// is done stays as it is; one that was refused begins again. ErrNotFound when the profile is not ready, and
	// ErrToppedUp when data was or may have been added to it.
	BeginCancel(ctx context.Context, a CancelArgs) (Cancellation, error)
	// Cancellation finds that of an order. ErrNotFound when there is none.
	Cancellation(ctx context.Context, id order.ID) (Cancellation, error)
	// SaveCancel stores how far a cancellation is, makes its ready profile cancelled from StageRefunding on, without its
	// activation data, and adds the postings, in one transaction.
	SaveCancel(ctx context.Context, f job.Fence, a CancelArgs, postings ...ledger.Posting) error
	// RetryCancel queues the cancellation of an order that waits for an operator again, in its stage, which begins at
	// since. One in another status stays as it is. ErrNotFound when there is none.
	RetryCancel(ctx context.Context, id order.ID, since time.Time, act order.OperatorContext) (Cancellation, error)
	// CancelRefunding finds the cancellation of an order, its owner, and whether a refund of the order is signed that may
	// still be paid. ErrNotFound when there is none.
	CancelRefunding(ctx context.Context, id order.ID) (c Cancellation, owner x402.Address, signed bool, err error)
	// ConcludeCancel queues a cancellation that waits for an operator with its refund again, as refunded by a transaction
	// at a time, and adds the posting of the return, in one transaction. One in another status or stage stays as it is.
	// payment.ErrRefundSigned while a refund of the order may still be paid, payment.ErrTransferUsed when the transaction
	// has concluded something else, ErrNotFound when there is none.
	ConcludeCancel(
		ctx context.Context, id order.ID, transaction x402.Hash, at time.Time, act order.OperatorContext,
	) (Cancellation, error)
	// Cancellations lists the jobs of cancellations for an operator, newest first, audited.
	Cancellations(ctx context.Context, q job.Query, act order.OperatorContext) ([]job.Row, error)
}

// Refunds pay what the supplier has credited back to the owner.
type Refunds interface {
	// Return takes one step in paying an amount back to the payer of a delivered order. It may be called any number of
	// times, and never pays twice. Once the payment is proven, it stores the job's next arguments and the postings in the
	// same transaction, and the progress is Delivered.
	Return(ctx context.Context, l *job.Lease, r payment.Return) (order.Progress, error)
}

// Cancellations gives profiles back:
//
//	cancelling ─ the supplier confirms ─► refunding ─ the chain shows the refund ─► refunded
//	    └─ the supplier refuses ─► kept
//
// Nothing is refunded before the supplier has confirmed. What cannot go on waits for an operator, with its stage.
type Cancellations struct {
	Esims   *Esims
	Store   CancelStore
	Refunds Refunds
	Chain   payment.Transfers
}

// Begin begins to give the profile of an order back, for its owner, and tells how far that is. Asked again it changes
// nothing, unless the supplier has refused before. A profile that a device has is an esim_installed.
func (c *Cancellations) Begin(ctx context.Context, o order.Order) (Cancellation, error) {
	known, err := c.Store.Cancellation(ctx, o.ID)
	switch {
	case err == nil && known.Stage != StageKept:
		return known, nil
	case err != nil && !errors.Is(err, ErrNotFound):
		return Cancellation{}, fmt.Errorf("find the cancellation: %w", err)
	}
	p, err := c.Esims.delivered(ctx, o)
	if err != nil {
		return Cancellation{}, err
	}
	at, err := c.Esims.at(p.Provider)
	switch {
	case err != nil:
		return Cancellation{}, err
	case at.Canceller == nil || !at.Capabilities.Cancel:
		return Cancellation{}, controlMissing()
	}
	// The supplier has the last word; this tells most owners at once.
	seen, err := c.Esims.Condition(ctx, o)
	switch {
	case err != nil:
		return Cancellation{}, err
	case seen.Status != ProfileNotInstalled && seen.Status != ProfileCancelled:
		return Cancellation{}, fault.New(fault.EsimInstalled,
			"Only an eSIM that was never installed can be cancelled.").About(string(o.ID))
	}
	begun, err := c.Store.BeginCancel(ctx, CancelArgs{
		Order: o.ID, Profile: p.ID, Stage: StageCancelling, Since: c.Esims.Now().UTC(),
	})
	if errors.Is(err, ErrToppedUp) {
		return Cancellation{}, fault.New(fault.EsimToppedUp,
			"An eSIM that more data was bought for cannot be cancelled.").About(string(o.ID))
	}
	if err != nil {
		return Cancellation{}, fmt.Errorf("begin the cancellation: %w", err)
	}
	return begun, nil
}

// Cancellation finds how far the cancellation of an order is; ok is false when there is none.
func (c *Cancellations) Cancellation(ctx context.Context, id order.ID) (found Cancellation, ok bool, err error) {
	found, err = c.Store.Cancellation(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return Cancellation{}, false, nil
	case err != nil:
		return Cancellation{}, false, fmt.Errorf("find the cancellation: %w", err)
	}
	return found, true, nil
}

// Retry lets a cancellation that waits for an operator go on with its stage. What the supplier or the chain may have
// done is found out first. A cancellation in another status stays as it is.
func (c *Cancellations) Retry(ctx context.Context, id order.ID, act order.OperatorContext) (Cancellation, error) {
	found, err := c.Store.RetryCancel(ctx, id, c.Esims.Now().UTC(), act)
	if errors.Is(err, ErrNotFound) {
		return Cancellation{}, fault.New(fault.JobNotFound, "There is no cancellation of this order's eSIM.")
	}
	if err != nil {
		return Cancellation{}, fmt.Errorf("retry the cancellation: %w", err)
	}
	return found, nil
}

// Conclude ends a cancellation whose refund was done by hand, by the transaction that did it: the chain shows that it
// transferred the refund to the owner. While a refund of the service's own may still be paid, it does not. A repeat
// changes nothing.
func (c *Cancellations) Conclude(
	ctx context.Context, id order.ID, transaction x402.Hash, act order.OperatorContext,
) (Cancellation, error) {
	found, owner, signed, err := c.Store.CancelRefunding(ctx, id)
	switch {
	case err != nil:
		return Cancellation{}, concluding(err)
	case found.ByHand == transaction.String():
		return found, nil
	case !found.refundable():
		return Cancellation{}, notRefundable()
	case signed:
		return Cancellation{}, concluding(payment.ErrRefundSigned)
	}
	switch shown, err := c.Chain.Transferred(ctx, owner, found.Refund, transaction); {
	case err != nil:
		return Cancellation{}, fmt.Errorf("read the transaction: %w",
			errors.Join(fault.New(fault.DependencyDown, "The chain does not answer."), err))
	case !shown:
		return Cancellation{}, fault.New(fault.TransferUnproven,
			"The chain does not show that the transaction transferred the refund to the eSIM's owner.")
	}
	found, err = c.Store.ConcludeCancel(ctx, id, transaction, c.Esims.Now().UTC(), act)
	switch {
	case err != nil:
		return Cancellation{}, concluding(err)
	case found.ByHand != transaction.String():
		return Cancellation{}, notRefundable()
	}
	return found, nil
}

// refundable reports whether a cancellation waits for an operator with its refund.
func (c Cancellation) refundable() bool {
	return c.Job == job.OperatorReview && c.Stage == StageRefunding
}

func notRefundable() error {
	return fault.New(fault.OrderNotInReview,
		"Only a cancellation that waits for an operator with its refund can be concluded by hand.")
}

// concluding maps the errors of CancelStore.
func concluding(err error) error {
	switch {
	case errors.Is(err, ErrNotFound):
		return fault.New(fault.JobNotFound, "There is no cancellation of this order's eSIM.")
	case errors.Is(err, payment.ErrRefundSigned):
		return fault.New(fault.OrderNotInReview, "A refund of the service's own is signed and may still be paid. "+
			"Retry the cancellation, until it waits for an operator because that refund is dead.")
	case errors.Is(err, payment.ErrTransferUsed):
		return fault.New(fault.TransferUnproven, "The transaction is the refund of something else already.")
	}
	return fmt.Errorf("conclude the cancellation: %w", err)
}

// List lists cancellations for an operator, newest first.
func (c *Cancellations) List(ctx context.Context, q job.Query, act order.OperatorContext) ([]job.Row, error) {
	rows, err := c.Store.Cancellations(ctx, q, act)
	if err != nil {
		return nil, fmt.Errorf("list the cancellations: %w", err)
	}
	return rows, nil
}

// Jobs are the cancellations.
func (c *Cancellations) Jobs() []job.Work {
	return []job.Work{{Kind: CancelJob, Handler: c.Work, Resume: "admin cancellations retry"}}
}

// Work handles a cancellation: it takes every step that is possible now.
func (c *Cancellations) Work(ctx context.Context, l *job.Lease) (job.Outcome, error) {
	a, err := job.Decode[CancelArgs](l.Row())
	if err != nil {
		return job.Outcome{}, fmt.Errorf("read the cancellation: %w", err)
	}
	faultpoint.Reach("cancel.leased")
	return c.run(ctx, l, a)
}

// run takes the steps of a cancellation, each chosen by its stored stage.
func (c *Cancellations) run(ctx context.Context, l *job.Lease, a CancelArgs) (job.Outcome, error) {
	for {
		switch a.Stage {
		case StageCancelling:
			next, wait, err := c.cancel(ctx, l, a)
			if err != nil || wait != nil {
				return deref(wait), err
			}
			a = next
		case StageRefunding:
			return c.refund(ctx, l, a)
		case StageRefunded, StageKept:
			return job.Done(), nil
		default:
			return job.Outcome{}, fmt.Errorf("the cancellation of order %s is in the unknown stage %q", a.Order, a.Stage)
		}
	}
}

func deref(o *job.Outcome) job.Outcome {
	if o == nil {
		return job.Outcome{}
	}
	return *o
}

func review(a CancelArgs, why string) (CancelArgs, *job.Outcome, error) {
	o := job.Review(why)
	return a, &o, nil
}

// cancel asks the supplier, which takes a profile back once however often it is asked.
func (c *Cancellations) cancel(
	ctx context.Context, l *job.Lease, a CancelArgs,
) (CancelArgs, *job.Outcome, error) {
	o, err := c.Esims.Store.Order(ctx, a.Order)
	if err != nil {
		return a, nil, fmt.Errorf("read the order: %w", err)
	}
	p, err := c.Esims.delivered(ctx, o)
	if err != nil {
		return a, nil, err
	}
	at, err := c.Esims.at(p.Provider)
	if err != nil {
		return a, nil, err
	}
	if at.Canceller == nil {
		return review(a, "the supplier takes no profiles back")
	}
	held, err := c.Esims.held(ctx, p)
	if err != nil {
		return a, nil, err
	}
	credit, err := c.send(ctx, at, held)
	now := c.Esims.Now().UTC()
	if no, refused := errors.AsType[*fulfilment.Refusal](err); refused && no.Code == RefusedInstalled {
		return c.save(ctx, l, a.at(StageKept, now))
	}
	switch {
	case err != nil:
		c.Esims.Log.WarnContext(ctx, "cancellation waits for the supplier", slog.String("order", string(a.Order)),
			slog.Any("error", err))
		after, ok := c.Esims.provider(at).Wait(a.Since)
		if !ok {
			return review(a, "the supplier does not say whether the profile is cancelled")
		}
		wait := job.Snooze(after)
		return a, &wait, nil
	case credit <= 0 || credit > p.Cost:
		return review(a, fmt.Sprintf("the supplier cancelled the profile, which cost %s USDC, and credited %s USDC",
			p.Cost.Dollars(), credit.Dollars()))
	}
	faultpoint.Reach("cancel.confirmed")
	a = a.at(StageRefunding, now)
	a.Credit, a.Refund = credit, min(credit, o.Price.USDC())
	return c.save(ctx, l, a, a.Postings()...)
}

func (c *Cancellations) send(ctx context.Context, at *provider, held Held) (money.USDC, error) {
	ctx, done := fault.Within(ctx, c.Esims.timeout(at))
	defer done()
	if err := faultpoint.Fail("cancel.before_send"); err != nil {
		return 0, err
	}
	credit, err := at.Canceller.Cancel(ctx, held)
	return credit, errors.Join(err, faultpoint.Fail("cancel.after_send"))
}

func (c *Cancellations) save(
	ctx context.Context, l *job.Lease, a CancelArgs, postings ...ledger.Posting,
) (CancelArgs, *job.Outcome, error) {
	if err := c.Store.SaveCancel(ctx, l.Fence(), a, postings...); err != nil {
		return a, nil, fmt.Errorf("store the cancellation: %w", err)
	}
	faultpoint.Reach("cancel.committed")
	return a, nil, nil
}

// refund pays what the supplier has credited back to the owner.
func (c *Cancellations) refund(ctx context.Context, l *job.Lease, a CancelArgs) (job.Outcome, error) {
	at, err := c.Refunds.Return(ctx, l, payment.Return{
		Order: a.Order, Amount: a.Refund, Next: a.at(StageRefunded, c.Esims.Now().UTC()),
		Postings: []ledger.Posting{a.Return()},
	})
	if err != nil {
		return job.Outcome{}, fmt.Errorf("refund the eSIM: %w", err)
	}
	switch at.State {
	case order.Delivered:
		return job.Done(), nil
	case order.Waiting:
		return job.Snooze(at.After), nil
	case order.Refused, order.Doubtful:
	}
	return job.Review(at.Reason), nil
}
