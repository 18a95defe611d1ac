package rpc

import (
	"context"

	"connectrpc.com/connect/v2"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// OperatorService is for the people who run the service.
type OperatorService struct {
	OrderViews
	Queue OrderQueue
	Trail AuditTrail
	Jobs  Jobs
	// Approvals are decisions that wait for a second operator, and Tokens what operators prove with who they are.
	Approvals Approvals
	Tokens    OperatorTokens
	// Gauges are the present values of what sales depend on.
	Gauges func(ctx context.Context) (admin.Gauges, error)
	// Summary is how much waits for operators.
	Summary        func(ctx context.Context) (admin.Summary, error)
	Switches       Switches
	FeeJobs        FeeJobs
	Cancellations  Cancellations
	Closings       Closings
	Reconciliation Reconciliation
	Comparisons    Comparisons
	Findings       Findings
	Transfers      Transfers
	Challenges     Challenges
}

// FeeJobs withdraw the issue fees of cards.
type FeeJobs interface {
	List(ctx context.Context, q job.Query, act order.OperatorContext) ([]job.Row, error)
	// Reconcile reads at the issuer what became of a withdrawal. Nothing is sent.
	Reconcile(ctx context.Context, id uuid.UUID, act order.OperatorContext) (job.Row, error)
	// Retry withdraws again what the issuer refused, and WriteOff gives a fee up; once for each key of the act.
	Retry(ctx context.Context, id uuid.UUID, act order.OperatorContext) (job.Row, error)
	WriteOff(ctx context.Context, id uuid.UUID, act order.OperatorContext) (job.Row, error)
}

// Challenges are the stored challenges of sign-ins and reveals.
type Challenges interface {
	Status(ctx context.Context, operator string) (auth.RetentionStatus, error)
	// PruneFor deletes a batch of those that are too old, and reports how many are left.
	PruneFor(ctx context.Context, operator string) (deleted, left int, err error)
}

// ListFeeJobs implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) ListFeeJobs(
	ctx context.Context, req *roamcardv1.ListFeeJobsRequest,
) (*roamcardv1.ListFeeJobsResponse, error) {
	asked := pageAsked{req.GetStatus(), req.GetPageSize(), req.PageToken}
	jobs, next, err := jobPage(ctx, asked, s.FeeJobs.List, feeJobMessage)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ListFeeJobsResponse{Jobs: jobs, NextPageToken: next}, nil
}

// ReconcileFeeJob implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) ReconcileFeeJob(
	ctx context.Context, req *roamcardv1.ReconcileFeeJobRequest,
) (*roamcardv1.ReconcileFeeJobResponse, error) {
	id, err := uuid.Parse(req.GetId())
	if err != nil {
		return nil, rpcx.Invalid("id", "string.uuid", "must be a uuid")
	}
	row, err := s.FeeJobs.Reconcile(ctx, id, act(ctx))
	if err != nil {
		return nil, err
	}
	m, err := feeJobMessage(row)
	return &roamcardv1.ReconcileFeeJobResponse{Job: m}, err
}

// RetryFeeJob implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) RetryFeeJob(
	ctx context.Context, req *roamcardv1.RetryFeeJobRequest,
) (*roamcardv1.RetryFeeJobResponse, error) {
	id, err := uuid.Parse(req.GetId())
	if err != nil {
		return nil, rpcx.Invalid("id", "string.uuid", "must be a uuid")
	}
	row, err := s.FeeJobs.Retry(ctx, id, actAt(ctx, req.GetReason(), req.Revision))
	if err != nil {
		return nil, err
	}
	m, err := feeJobMessage(row)
	return &roamcardv1.RetryFeeJobResponse{Job: m}, err
}

// WriteOffFeeJob implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) WriteOffFeeJob(
	ctx context.Context, req *roamcardv1.WriteOffFeeJobRequest,
) (*roamcardv1.WriteOffFeeJobResponse, error) {
	id, err := uuid.Parse(req.GetId())
	if err != nil {
		return nil, rpcx.Invalid("id", "string.uuid", "must be a uuid")
	}
	row, err := s.FeeJobs.WriteOff(ctx, id, actAt(ctx, req.GetReason(), req.Revision))
	if err != nil {
		return nil, err
	}
	m, err := feeJobMessage(row)
	return &roamcardv1.WriteOffFeeJobResponse{Job: m}, err
}

// act is what the audit trail records of a call.
func act(ctx context.Context) card.OperatorContext {
	who := rpcx.Caller(ctx)
	return card.OperatorContext{Operator: who.Name, Minters: who.Minters}
}

// actOnce is act with the reason and key of what happens once for each key.
func actOnce(ctx context.Context, reason string) card.OperatorContext {
	a := act(ctx)
	a.Reason = reason
	if call, ok := connect.CallInfoForServerContext(ctx); ok {
		a.Key = call.RequestHeader().Get(rpcx.HeaderIdempotencyKey)
	}
	return a
}

// actAt is actOnce with the version of its subject that the operator has seen; an absent one is any.
func actAt(ctx context.Context, reason string, version *uint32) card.OperatorContext {
	a := actOnce(ctx, reason)
	if version != nil {
		a.Version = int(*version)
	}
	return a
}

func feeJobMessage(row job.Row) (*roamcardv1.FeeJob, error) {
	a, err := job.Decode[card.FeeArgs](row)
	if err != nil {
		return nil, err
	}
	m := &roamcardv1.FeeJob{
		Id: row.ID.String(), OrderId: a.Order, CardId: a.Card.String(), Status: string(row.Status),
		AmountUsdCents: uint32(a.Amount),
		Version:        uint32(a.Version), Reference: a.Ref().String(), CreatedAt: timestamp(row.CreatedAt),
		FinishedAt:  optionalTimestamp(row.FinishedAt),
		Outstanding: a.Outstanding(row.Status), WrittenOff: a.WrittenOff, Revision: uint32(row.Version),
	}
	if row.Status == job.Queued && row.Step != "" {
		m.Status = string(job.Processing)
	}
	if (row.Status == job.Failed || row.Status == job.OperatorReview) && row.LastError != "" {
		m.Reason = proto.String(row.LastError)
	}
	return m, nil
}

// GetChallengeRetention implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) GetChallengeRetention(
	ctx context.Context, _ *roamcardv1.GetChallengeRetentionRequest,
) (*roamcardv1.GetChallengeRetentionResponse, error) {
	status, err := s.Challenges.Status(ctx, rpcx.Caller(ctx).Name)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.GetChallengeRetentionResponse{
		RetentionSeconds: uint32(status.Keep.Seconds()), Total: uint32(status.All), Stale: uint32(status.Stale),
		BatchSize: auth.PruneBatch,
	}, nil
}

// PruneChallenges implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) PruneChallenges(
	ctx context.Context, _ *roamcardv1.PruneChallengesRequest,
) (*roamcardv1.PruneChallengesResponse, error) {
	deleted, left, err := s.Challenges.PruneFor(ctx, rpcx.Caller(ctx).Name)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.PruneChallengesResponse{Deleted: uint32(deleted), Remaining: uint32(left)}, nil
}
