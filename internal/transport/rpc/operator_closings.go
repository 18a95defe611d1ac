package rpc

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/approval"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/x402"
)

// Closings close cards.
type Closings interface {
	// Inspect shows a card as it is stored.
	Inspect(ctx context.Context, id uuid.UUID, act order.OperatorContext) (card.Inspection, error)
	List(ctx context.Context, q job.Query, act order.OperatorContext) ([]job.Row, error)
	// Close orders a closing; a card that has one keeps it. Retry lets one that waits for an operator go on.
	Close(ctx context.Context, id uuid.UUID, act order.OperatorContext) (job.Row, error)
	Retry(ctx context.Context, id uuid.UUID, act order.OperatorContext) (job.Row, error)
	// Conclude lets one go on whose remainder a transaction has refunded by hand.
	Conclude(ctx context.Context, id uuid.UUID, transaction x402.Hash, act order.OperatorContext) (job.Row, error)
}

// InspectCard implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) InspectCard(
	ctx context.Context, req *roamcardv1.InspectCardRequest,
) (*roamcardv1.InspectCardResponse, error) {
	id, err := uuid.Parse(req.GetId())
	if err != nil {
		return nil, rpcx.Invalid("id", "string.uuid", "must be a uuid")
	}
	found, err := s.Closings.Inspect(ctx, id, act(ctx))
	if err != nil {
		return nil, err
	}
	c := found.Card
	return &roamcardv1.InspectCardResponse{Card: &roamcardv1.OperatorCard{
		Id: c.ID.String(), OrderId: string(c.Order), Owner: c.Owner.String(), Status: string(c.Status),
		Provider: c.Provider, Last4: optional(c.Last4), LoadedUsdCents: uint32(found.Loaded),
		CreatedAt: timestamp(c.CreatedAt),
	}}, nil
}

// CloseCard implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) CloseCard(
	ctx context.Context, req *roamcardv1.CloseCardRequest,
) (*roamcardv1.CloseCardResponse, error) {
	m, err := closed(ctx, req.GetId(), actOnce(ctx, req.GetReason()), s.Closings.Close)
	if pending, ok := errors.AsType[*approval.PendingError](err); ok {
		m, err = pendingClosing(pending.Approval), nil
	}
	return &roamcardv1.CloseCardResponse{Closing: m}, err
}

// RetryCardClosing implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) RetryCardClosing(
	ctx context.Context, req *roamcardv1.RetryCardClosingRequest,
) (*roamcardv1.RetryCardClosingResponse, error) {
	m, err := closed(ctx, req.GetId(), actAt(ctx, req.GetReason(), req.Revision), s.Closings.Retry)
	return &roamcardv1.RetryCardClosingResponse{Closing: m}, err
}

// ConcludeCardClosing implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) ConcludeCardClosing(
	ctx context.Context, req *roamcardv1.ConcludeCardClosingRequest,
) (*roamcardv1.ConcludeCardClosingResponse, error) {
	transaction, err := x402.ParseHash(req.GetTransaction())
	if err != nil {
		return nil, rpcx.Invalid("transaction", "string.pattern", "must be a transaction's hash")
	}
	m, err := closed(ctx, req.GetId(), actAt(ctx, req.GetReason(), req.Revision),
		func(ctx context.Context, id uuid.UUID, act order.OperatorContext) (job.Row, error) {
			return s.Closings.Conclude(ctx, id, transaction, act)
		})
	return &roamcardv1.ConcludeCardClosingResponse{Closing: m}, err
}

func closed(
	ctx context.Context, name string, act order.OperatorContext,
	do func(context.Context, uuid.UUID, order.OperatorContext) (job.Row, error),
) (*roamcardv1.CardClosing, error) {
	id, err := uuid.Parse(name)
	if err != nil {
		return nil, rpcx.Invalid("id", "string.uuid", "must be a uuid")
	}
	row, err := do(ctx, id, act)
	if err != nil {
		return nil, err
	}
	return closingMessage(row)
}

// ListCardClosings implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) ListCardClosings(
	ctx context.Context, req *roamcardv1.ListCardClosingsRequest,
) (*roamcardv1.ListCardClosingsResponse, error) {
	asked := pageAsked{req.GetStatus(), req.GetPageSize(), req.PageToken}
	closings, next, err := jobPage(ctx, asked, s.Closings.List, closingMessage)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ListCardClosingsResponse{Closings: closings, NextPageToken: next}, nil
}

// closingPending is the status of a closing that waits for a second operator.
const closingPending = "approval_pending"

// pendingClosing is what there is of a closing that waits for a second operator, or that was decided about since.
func pendingClosing(a approval.Approval) *roamcardv1.CardClosing {
	return &roamcardv1.CardClosing{
		Id: a.ID.String(), CardId: a.Subject, Status: closingPending, CreatedAt: timestamp(a.RequestedAt),
		PendingApproval: approvalMessage(&a),
	}
}

func closingMessage(row job.Row) (*roamcardv1.CardClosing, error) {
	a, err := job.Decode[card.CloseArgs](row)
	if err != nil {
		return nil, err
	}
	m := &roamcardv1.CardClosing{
		Id: row.ID.String(), OrderId: a.Order, CardId: a.Card.String(), Status: string(row.Status), Stage: string(a.Stage),
		Version: uint32(a.Version), Reference: a.Ref().String(), CreatedAt: timestamp(row.CreatedAt),
		FinishedAt: optionalTimestamp(row.FinishedAt), Revision: uint32(row.Version),
	}
	if a.Stage != card.StageLocking {
		m.RemainderUsdCents = proto.Uint32(uint32(a.Remainder))
	}
	if row.Status == job.Queued && row.Step != "" {
		m.Status = string(job.Processing)
	}
	m.RefundedBy = optional(a.ByHand)
	if row.Status == job.OperatorReview && row.LastError != "" {
		m.Reason = proto.String(row.LastError)
	}
	return m, nil
}
