package rpc

import (
	"context"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/approval"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// Approvals are the decisions that wait for a second operator.
type Approvals interface {
	// List is a page of them, newest first, and the id that the next page begins before; nil on the last.
	List(
		ctx context.Context, q admin.ApprovalQuery, act order.OperatorContext,
	) (page []approval.Approval, next uuid.UUID, err error)
	Show(ctx context.Context, id uuid.UUID, act order.OperatorContext) (approval.Approval, error)
	// Approve lets one take effect, and Reject ends it without; once for each key of the act.
	Approve(ctx context.Context, id uuid.UUID, act order.OperatorContext) (approval.Approval, error)
	Reject(ctx context.Context, id uuid.UUID, act order.OperatorContext) (approval.Approval, error)
}

// ListApprovals implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) ListApprovals(
	ctx context.Context, req *roamcardv1.ListApprovalsRequest,
) (*roamcardv1.ListApprovalsResponse, error) {
	q := admin.ApprovalQuery{Status: approval.Pending, Limit: limitOf(req.GetPageSize())}
	if req.Status != nil {
		q.Status = approval.Status(req.GetStatus())
	}
	var err error
	if q.Before, err = cursor(req.PageToken); err != nil {
		return nil, err
	}
	page, next, err := s.Approvals.List(ctx, q, act(ctx))
	if err != nil {
		return nil, err
	}
	res := &roamcardv1.ListApprovalsResponse{NextPageToken: pageToken(next)}
	for _, one := range page {
		res.Approvals = append(res.Approvals, approvalMessage(&one))
	}
	return res, nil
}

// GetApproval implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) GetApproval(
	ctx context.Context, req *roamcardv1.GetApprovalRequest,
) (*roamcardv1.GetApprovalResponse, error) {
	id, err := uuid.Parse(req.GetId())
	if err != nil {
		return nil, rpcx.Invalid("id", "string.uuid", "must be a uuid")
	}
	found, err := s.Approvals.Show(ctx, id, act(ctx))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.GetApprovalResponse{Approval: approvalMessage(&found)}, nil
}

// ApproveDecision implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) ApproveDecision(
	ctx context.Context, req *roamcardv1.ApproveDecisionRequest,
) (*roamcardv1.ApproveDecisionResponse, error) {
	id, err := uuid.Parse(req.GetId())
	if err != nil {
		return nil, rpcx.Invalid("id", "string.uuid", "must be a uuid")
	}
	found, err := s.Approvals.Approve(ctx, id, actOnce(ctx, req.GetReason()))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ApproveDecisionResponse{Approval: approvalMessage(&found)}, nil
}

// RejectDecision implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) RejectDecision(
	ctx context.Context, req *roamcardv1.RejectDecisionRequest,
) (*roamcardv1.RejectDecisionResponse, error) {
	id, err := uuid.Parse(req.GetId())
	if err != nil {
		return nil, rpcx.Invalid("id", "string.uuid", "must be a uuid")
	}
	found, err := s.Approvals.Reject(ctx, id, actOnce(ctx, req.GetReason()))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.RejectDecisionResponse{Approval: approvalMessage(&found)}, nil
}

// approvalMessage is the message of a decision; nil when there is none.
func approvalMessage(a *approval.Approval) *roamcardv1.Approval {
	if a == nil {
		return nil
	}
	m := &roamcardv1.Approval{
		Id: a.ID.String(), Action: string(a.Action), Subject: a.Subject, AmountUsdCents: uint32(a.Amount),
		Reason: a.By.Reason, Status: string(a.Status), RequestedBy: a.By.Operator, RequestedAt: timestamp(a.RequestedAt),
		ExpiresAt: timestamp(a.ExpiresAt), Resolution: optionalText(a.Resolution), DecidedBy: optionalText(a.DecidedBy),
		DecisionReason: optionalText(a.DecisionReason), DecidedAt: optionalTimestamp(a.DecidedAt), Outdated: a.Outdated,
	}
	if a.Version != 0 {
		m.Version = proto.Uint32(uint32(a.Version))
	}
	return m
}
