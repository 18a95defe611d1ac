package rpc

import (
	"context"

	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/x402"
)

// Transfers are the transfers to the treasury that no order explains.
type Transfers interface {
	// UnmatchedFor is a page of them, newest first, and the row that the next page begins before; zero on the last.
	UnmatchedFor(
		ctx context.Context, q reconcile.UnmatchedQuery, act order.OperatorContext,
	) (page []reconcile.UnmatchedTransfer,
		next int64, err error)
	// ResolveFor explains a transfer, once for each key of the act.
	ResolveFor(ctx context.Context, at reconcile.Place, as reconcile.Resolution,
		act order.OperatorContext) (reconcile.UnmatchedTransfer, error)
}

// The statuses of unmatched transfers.
const (
	transferOpen     = "open"
	transferResolved = "resolved"
)

// ListTransfers implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) ListTransfers(
	ctx context.Context, req *roamcardv1.ListTransfersRequest,
) (*roamcardv1.ListTransfersResponse, error) {
	q := reconcile.UnmatchedQuery{Resolved: req.GetStatus() == transferResolved, Limit: limitOf(req.GetPageSize())}
	var err error
	if q.Before, err = pageBefore(req.PageToken); err != nil {
		return nil, err
	}
	page, next, err := s.Transfers.UnmatchedFor(ctx, q, act(ctx))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ListTransfersResponse{
		Transfers: messages(page, unmatchedMessage), NextPageToken: numberToken(next),
	}, nil
}

// ResolveTransfer implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) ResolveTransfer(
	ctx context.Context, req *roamcardv1.ResolveTransferRequest,
) (*roamcardv1.ResolveTransferResponse, error) {
	transaction, err := x402.ParseHash(req.GetTransaction())
	if err != nil {
		return nil, rpcx.Invalid("transaction", "string.pattern", "must be the hash of a transaction")
	}
	at := reconcile.Place{Transaction: transaction, LogIndex: uint(req.GetLogIndex())}
	transfer, err := s.Transfers.ResolveFor(ctx, at, reconcile.Resolution(req.GetResolution()),
		actAt(ctx, req.GetReason(), req.Version))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ResolveTransferResponse{Transfer: unmatchedMessage(transfer)}, nil
}

func unmatchedMessage(s reconcile.UnmatchedTransfer) *roamcardv1.UnmatchedTransfer {
	m := &roamcardv1.UnmatchedTransfer{
		Transaction: s.Transaction.String(), LogIndex: uint32(s.LogIndex), Block: uint32(s.Block),
		From:   s.From.String(),
		Amount: s.Value.String(), SeenAt: timestamp(s.SeenAt), Status: transferOpen, Version: uint32(s.Version()),
		PendingApproval: approvalMessage(s.Pending),
	}
	if r := s.Resolved; r != nil {
		m.Status, m.ResolvedAt = transferResolved, timestamp(r.At)
		m.Resolution, m.Reason, m.Operator = proto.String(string(r.As)), proto.String(r.Reason),
			proto.String(r.Operator)
	}
	return m
}
