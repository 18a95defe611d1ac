package rpc

import (
	"context"

	"github.com/google/uuid"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// Jobs are the jobs of all kinds.
type Jobs interface {
	// List is a page of them, newest first, and the id that the next page begins before; nil on the last.
	List(
		ctx context.Context, q admin.JobQuery, act order.OperatorContext,
	) (page []admin.JobView, next uuid.UUID, err error)
	Show(ctx context.Context, id uuid.UUID, act order.OperatorContext) (admin.JobView, error)
	// Retry puts one that has stopped back into the queue, and Drop deletes it; once for each key of the act.
	Retry(ctx context.Context, id uuid.UUID, act order.OperatorContext) (admin.JobView, error)
	Drop(ctx context.Context, id uuid.UUID, act order.OperatorContext) error
}

// ListJobs implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) ListJobs(
	ctx context.Context, req *roamcardv1.ListJobsRequest,
) (*roamcardv1.ListJobsResponse, error) {
	q := admin.JobQuery{
		Status: job.Status(req.GetStatus()), Kind: job.Kind(req.GetKind()), Limit: limitOf(req.GetPageSize()),
	}
	var err error
	if q.Before, err = cursor(req.PageToken); err != nil {
		return nil, err
	}
	page, next, err := s.Jobs.List(ctx, q, act(ctx))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ListJobsResponse{Jobs: messages(page, jobView), NextPageToken: pageToken(next)}, nil
}

// GetJob implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) GetJob(
	ctx context.Context, req *roamcardv1.GetJobRequest,
) (*roamcardv1.GetJobResponse, error) {
	id, err := uuid.Parse(req.GetId())
	if err != nil {
		return nil, rpcx.Invalid("id", "string.uuid", "must be a uuid")
	}
	found, err := s.Jobs.Show(ctx, id, act(ctx))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.GetJobResponse{Job: jobView(found)}, nil
}

// RetryJob implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) RetryJob(
	ctx context.Context, req *roamcardv1.RetryJobRequest,
) (*roamcardv1.RetryJobResponse, error) {
	id, err := uuid.Parse(req.GetId())
	if err != nil {
		return nil, rpcx.Invalid("id", "string.uuid", "must be a uuid")
	}
	queued, err := s.Jobs.Retry(ctx, id, actAt(ctx, req.GetReason(), req.Version))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.RetryJobResponse{Job: jobView(queued)}, nil
}

// DropJob implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) DropJob(
	ctx context.Context, req *roamcardv1.DropJobRequest,
) (*roamcardv1.DropJobResponse, error) {
	id, err := uuid.Parse(req.GetId())
	if err != nil {
		return nil, rpcx.Invalid("id", "string.uuid", "must be a uuid")
	}
	if err := s.Jobs.Drop(ctx, id, actAt(ctx, req.GetReason(), req.Version)); err != nil {
		return nil, err
	}
	return &roamcardv1.DropJobResponse{Id: id.String()}, nil
}

// jobView is the message of a job with what can be done with it.
func jobView(j admin.JobView) *roamcardv1.OperatorJob {
	return &roamcardv1.OperatorJob{
		Id: j.ID.String(), Kind: string(j.Kind), Status: string(j.Status), Attempt: uint32(j.Attempt),
		Step: optionalText(j.Step), LastError: optionalText(j.LastError),
		RunAt: timestamp(j.RunAt), CreatedAt: timestamp(j.CreatedAt), FinishedAt: optionalTimestamp(j.FinishedAt),
		UniqueKey: j.UniqueKey, Version: uint32(j.Version), AttemptsUsed: uint32(j.Used()),
		MaxAttempts: uint32(j.MaxAttempts), AllowedActions: actionMessages(j.Actions),
	}
}
