package card

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
)

// OperatorContext is an operator's action, for the audit trail.
type OperatorContext = order.OperatorContext

// FeeJobs reads and changes the fee jobs for operators. Each write has its audit record in the same transaction.
type FeeJobs interface {
	// FeeJobs lists jobs, newest first. It is audited.
	FeeJobs(ctx context.Context, q job.Query, act OperatorContext) ([]job.Row, error)
	// FeeJob finds one. ErrNotFound when there is none.
	FeeJob(ctx context.Context, id uuid.UUID) (job.Row, error)
	// Conclude sets a job that is not final to the status that the issuer confirmed, and adds the postings. If the
	// status is unchanged, it only writes the audit record. done is false when the job has changed since row was read.
	Conclude(ctx context.Context, row job.Row, c FeeConclusion, act OperatorContext) (done bool, err error)
	// Retry queues the next version of a failed job, once per key. ErrNotFailed when it is not failed, order.KeyReused
	// when the operator used the key for another reason, ErrChanged when it is not at the act's version.
	Retry(ctx context.Context, row job.Row, next FeeArgs, act OperatorContext) error
	// WriteOff writes the fee of a job off, once per key. decide is called with the locked job, and returns its new
	// arguments and the postings. ErrNotFailed when the job has changed since row was read, else the error of decide;
	// order.KeyReused and ErrChanged as in Retry.
	WriteOff(
		ctx context.Context, row job.Row, decide func(job.Row) (FeeArgs, []ledger.Posting, error), act OperatorContext,
	) error
}

// FeeConclusion is the status of a fee job that the issuer confirmed, with its consequences.
type FeeConclusion struct {
	Status job.Status
	Reason string
	// Owed marks the fee as owed.
	Owed     bool
	Postings []ledger.Posting
}

// Conclusion is the conclusion of a confirmed status. An unchanged status has no consequences.
func (a FeeArgs) Conclusion(was, status job.Status, reason string) FeeConclusion {
	c := FeeConclusion{Status: status, Reason: reason}
	if status == was {
		return c
	}
	c.Owed = status == job.Failed && reason == RefusedFunds
	a.Owed = a.Owed || c.Owed
	if c.Owed || status == job.Succeeded {
		c.Postings = a.Postings(status)
	}
	return c
}

// WriteOffFee writes off the fee of a failed job. ErrNotFailed when the fee is not owed.
func WriteOffFee(row job.Row) (FeeArgs, []ledger.Posting, error) {
	a, err := job.Decode[FeeArgs](row)
	if err != nil {
		return FeeArgs{}, nil, fmt.Errorf("read the job: %w", err)
	}
	if row.Status != job.Failed || !a.Outstanding(row.Status) {
		return FeeArgs{}, nil, ErrNotFailed
	}
	a.WrittenOff = true
	return a, a.Postings(row.Status), nil
}

// The errors of FeeJobs.
var (
	ErrNotFailed = errors.New("the job is not failed")
	ErrChanged   = errors.New("the job is at another version")
)

func changed() error {
	return fault.New(fault.VersionChanged, "It has changed since it was read. Read it again, then decide.")
}

// Issuers finds the issuers of cards.
type Issuers interface {
	// ProviderOf finds one by the name that a card names.
	ProviderOf(name string) (Provider, error)
}

// FeeAdmin runs operators' actions on fee jobs.
type FeeAdmin struct {
	Jobs FeeJobs
	// Issuers are those of the cards.
	Issuers Issuers
	// CallTimeout bounds one call to the issuer.
	CallTimeout time.Duration
	Now         func() time.Time
}

// List shows a page of fee jobs, newest first.
func (d FeeAdmin) List(ctx context.Context, q job.Query, act OperatorContext) ([]job.Row, error) {
	return d.Jobs.FeeJobs(ctx, q, act)
}

// Reconcile reads the outcome of a job's withdrawal and records it. It sends nothing again.
func (d FeeAdmin) Reconcile(ctx context.Context, id uuid.UUID, act OperatorContext) (job.Row, error) {
	row, a, err := d.find(ctx, id)
	if err != nil {
		return job.Row{}, err
	}
	status, reason, err := d.look(ctx, row, a)
	if err != nil {
		return job.Row{}, err
	}
	done, err := d.Jobs.Conclude(ctx, row, a.Conclusion(row.Status, status, reason), act)
	if err != nil {
		return job.Row{}, fmt.Errorf("conclude the job: %w", err)
	}
	if !done {
		// A worker has changed the job meanwhile.
		row, _, err = d.find(ctx, id)
		return row, err
	}
	return d.Jobs.FeeJob(ctx, id)
}

// NoTrace is why a withdrawal has failed that waited for an operator, and of which the issuer knows nothing.
const NoTrace = "no_trace"

// look reads the issuer's outcome of the job's current version.
func (d FeeAdmin) look(ctx context.Context, row job.Row, a FeeArgs) (job.Status, string, error) {
	if row.Status == job.Succeeded || row.Status == job.Failed {
		return row.Status, row.LastError, nil
	}
	of, err := d.Issuers.ProviderOf(a.Provider)
	if err != nil {
		return "", "", err
	}
	ctx, cancel := fault.Within(ctx, d.CallTimeout)
	defer cancel()
	m, err := of.Issuer.Moved(ctx, a.Account, a.Ref())
	if errors.Is(err, fulfilment.ErrNoRef) {
		// A worker that has the job may send it yet, and what was sent just now may not show yet.
		latest := fulfilment.Provider{Traits: of.Traits, CallTimeout: d.CallTimeout, Now: d.Now}
		if row.Status == job.OperatorReview && !latest.MayStillAppear(row.StepAt) {
			return job.Failed, NoTrace, nil
		}
		return row.Status, row.LastError, nil
	}
	if err != nil {
		return "", "", fmt.Errorf("read the withdrawal: %w", errors.Join(err, issuerDown()))
	}
	switch m.State {
	case MoveSucceeded:
		return job.Succeeded, "", nil
	case MoveFailed:
		return job.Failed, m.Refusal.Stated().Code, nil
	case MovePending:
	}
	return row.Status, row.LastError, nil
}

// Retry queues the next version of a withdrawal that the issuer confirmed as failed.
func (d FeeAdmin) Retry(ctx context.Context, id uuid.UUID, act OperatorContext) (job.Row, error) {
	row, a, err := d.find(ctx, id)
	if err != nil {
		return job.Row{}, err
	}
	a.Version, a.Since = a.Version+1, d.Now().UTC()
	switch err := d.Jobs.Retry(ctx, row, a, act); {
	case errors.Is(err, ErrNotFailed):
		return job.Row{}, fault.New(fault.FailureUnconfirmed, "Only a withdrawal that the issuer confirmed as failed can be "+
			"retried. Reconcile it first.")
	case errors.Is(err, ErrChanged):
		return job.Row{}, changed()
	case err != nil:
		return job.Row{}, fmt.Errorf("retry the job: %w", err)
	}
	return d.Jobs.FeeJob(ctx, id)
}

// WriteOff writes off a fee that the holder has spent, which allows the owner's top-ups again.
func (d FeeAdmin) WriteOff(ctx context.Context, id uuid.UUID, act OperatorContext) (job.Row, error) {
	row, _, err := d.find(ctx, id)
	if err != nil {
		return job.Row{}, err
	}
	switch err := d.Jobs.WriteOff(ctx, row, WriteOffFee, act); {
	case errors.Is(err, ErrNotFailed):
		return job.Row{}, fault.New(fault.FailureUnconfirmed,
			"Only a fee that the issuer refused for lack of funds can be written off.")
	case errors.Is(err, ErrChanged):
		return job.Row{}, changed()
	case err != nil:
		return job.Row{}, fmt.Errorf("write the fee off: %w", err)
	}
	return d.Jobs.FeeJob(ctx, id)
}

func (d FeeAdmin) find(ctx context.Context, id uuid.UUID) (job.Row, FeeArgs, error) {
	row, err := d.Jobs.FeeJob(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return job.Row{}, FeeArgs{}, fault.New(fault.JobNotFound, "There is no fee job with this id.")
	}
	if err != nil {
		return job.Row{}, FeeArgs{}, fmt.Errorf("find the job: %w", err)
	}
	a, err := job.Decode[FeeArgs](row)
	if err != nil {
		return job.Row{}, FeeArgs{}, fmt.Errorf("read the job: %w", err)
	}
	return row, a, nil
}
