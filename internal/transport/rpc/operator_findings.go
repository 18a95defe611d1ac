package rpc

import (
	"context"
	"strconv"

	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/x402"
)

// Findings are the differences that reconciliation found.
type Findings interface {
	// FindingsFor is a page of them, newest first, and the id that the next page begins before; zero on the last.
	FindingsFor(
		ctx context.Context, q reconcile.FindingQuery, act order.OperatorContext,
	) (page []reconcile.Finding, next int64,
		err error)
	// ResolveFindingFor closes a finding, once for each key of the act.
	ResolveFindingFor(ctx context.Context, id int64, act order.OperatorContext) (reconcile.Finding, error)
}

// The statuses of findings.
const (
	findingOpen     = "open"
	findingResolved = "resolved"
)

// ListFindings implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) ListFindings(
	ctx context.Context, req *roamcardv1.ListFindingsRequest,
) (*roamcardv1.ListFindingsResponse, error) {
	q := reconcile.FindingQuery{Resolved: req.GetStatus() == findingResolved, Code: reconcile.Code(req.GetCode()),
		Limit: limitOf(req.GetPageSize())}
	var err error
	if q.Before, err = pageBefore(req.PageToken); err != nil {
		return nil, err
	}
	page, next, err := s.Findings.FindingsFor(ctx, q, act(ctx))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ListFindingsResponse{
		Findings: messages(page, findingMessage), NextPageToken: numberToken(next),
	}, nil
}

// ResolveFinding implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) ResolveFinding(
	ctx context.Context, req *roamcardv1.ResolveFindingRequest,
) (*roamcardv1.ResolveFindingResponse, error) {
	id, err := strconv.ParseInt(req.GetId(), 10, 64)
	if err != nil {
		return nil, rpcx.Invalid("id", "string.pattern", "must be the id of a finding")
	}
	found, err := s.Findings.ResolveFindingFor(ctx, id, actAt(ctx, req.GetReason(), req.Version))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ResolveFindingResponse{Finding: findingMessage(found)}, nil
}

func findingMessage(f reconcile.Finding) *roamcardv1.Finding {
	m := &roamcardv1.Finding{
		Id: strconv.FormatInt(f.ID, 10), Code: string(f.Code), Subject: f.Subject, Detail: f.Detail, Blocks: f.Blocks,
		FirstSeenAt: timestamp(f.FirstSeen), LastSeenAt: timestamp(f.LastSeen), Status: findingOpen,
		Version: uint32(f.Version()),
	}
	if f.Order != "" {
		m.OrderId = proto.String(f.Order)
	}
	if f.Product != "" {
		m.Product = proto.String(f.Product)
	}
	if owner, err := x402.ParseAddress(f.Owner); err == nil {
		m.Owner = proto.String(owner.String())
	}
	if r := f.Resolved; r != nil {
		m.Status, m.ResolvedAt = findingResolved, timestamp(r.At)
		m.Resolution, m.Reason, m.Operator = proto.String(string(r.As)), proto.String(r.Reason),
			proto.String(r.Operator)
	}
	return m
}
