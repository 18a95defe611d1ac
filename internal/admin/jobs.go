package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/paging"
)

// Jobs shows operators the jobs that have stopped, and puts them back or drops them.
type Jobs struct {
	Records JobRecords
	// Kinds are those that are run.
	Kinds []job.Kind
	// Resumed are the kinds of jobs that stop with a decision to be made, and the commands that make it: retrying such a
	// job by itself would skip the decision, and dropping it would lose it.
	Resumed map[job.Kind]string
}

// JobRecords reads and changes jobs for operators. Each call writes its audit record in the same transaction.
type JobRecords interface {
	// Jobs lists the jobs that a query selects, newest first.
	Jobs(ctx context.Context, q JobQuery, act order.OperatorContext) ([]job.Row, error)
	// Job reads one. ErrJobNotFound when there is none.
	Job(ctx context.Context, id uuid.UUID, act order.OperatorContext) (job.Row, error)
	// Retry queues a job again, with all of its attempts, unless may refuses it as it is, and returns it as it is then;
	// once per key. ErrJobNotFound when there is none, order.KeyReused when the operator used the key for another act,
	// ErrChanged when the job is not at the act's version.
	Retry(ctx context.Context, id uuid.UUID, may func(job.Row) error, act order.OperatorContext) (job.Row, error)
	// Drop deletes a job unless may refuses it as it is; once per key, with the errors of Retry.
	Drop(ctx context.Context, id uuid.UUID, may func(job.Row) error, act order.OperatorContext) error
}

// ErrJobNotFound says that there is no such job.
var ErrJobNotFound = errors.New("there is no such job")

// JobQuery selects a page of jobs. What is empty selects all; without a status, those that have stopped.
type JobQuery struct {
	Status job.Status
	Kind   job.Kind
	// Before is the last job of the previous page.
	Before uuid.UUID
	Limit  int
}

// JobView is a job with what an operator can do with it now.
type JobView struct {
	job.Row
	Actions []Action
}

// Stopped are the statuses that a job leaves by an operator's action only.
func Stopped() []job.Status { return []job.Status{job.OperatorReview, job.Failed} }

// List lists a page of jobs, newest first. next is the cursor of the next page, or nil. A kind that nothing has is
// refused.
func (j Jobs) List(
	ctx context.Context, q JobQuery, act order.OperatorContext,
) (page []JobView, next uuid.UUID, err error) {
	limit := q.Limit
	q.Limit++
	rows, err := j.Records.Jobs(ctx, q, act)
	if err != nil {
		return nil, uuid.Nil, fmt.Errorf("list the jobs: %w", err)
	}
	// Jobs may be left of a kind that is not run any more.
	if len(rows) == 0 && q.Kind != "" && !slices.Contains(j.Kinds, q.Kind) {
		return nil, uuid.Nil, fault.NotOneOf("kind", j.Kinds)
	}
	rows, next = paging.Cut(rows, limit, func(row job.Row) uuid.UUID { return row.ID })
	for _, row := range rows {
		page = append(page, j.view(row))
	}
	return page, next, nil
}

// Show reads one job.
func (j Jobs) Show(ctx context.Context, id uuid.UUID, act order.OperatorContext) (JobView, error) {
	row, err := j.Records.Job(ctx, id, act)
	if err != nil {
		return JobView{}, toFault(err, "read the job")
	}
	return j.view(row), nil
}

// Retry puts a job that has stopped back into the queue. A repeat with the same key changes nothing.
func (j Jobs) Retry(ctx context.Context, id uuid.UUID, act order.OperatorContext) (JobView, error) {
	row, err := j.Records.Retry(ctx, id, j.may, act)
	if err != nil {
		return JobView{}, toFault(err, "retry the job")
	}
	return j.view(row), nil
}

// Drop deletes a job that has stopped: nobody does its work any more. A repeat with the same key changes nothing.
func (j Jobs) Drop(ctx context.Context, id uuid.UUID, act order.OperatorContext) error {
	if err := j.Records.Drop(ctx, id, j.may, act); err != nil {
		return toFault(err, "drop the job")
	}
	return nil
}

// may refuses a job that has not stopped, or that goes on by another command.
func (j Jobs) may(row job.Row) error {
	if f := j.refusal(row); f != nil {
		return f
	}
	return nil
}

func (j Jobs) refusal(row job.Row) *fault.Fault {
	if by, ok := j.Resumed[row.Kind]; ok {
		return fault.Newf(fault.JobNotStopped, "A job of this kind goes on by %s.", by)
	}
	if !slices.Contains(Stopped(), row.Status) {
		return fault.New(fault.JobNotStopped, "Only a job in operator_review or failed can be put back or dropped.")
	}
	return nil
}

func (j Jobs) view(row job.Row) JobView {
	not := j.refusal(row)
	return JobView{row, []Action{action(ActionRetry, not), action(ActionDrop, not)}}
}
