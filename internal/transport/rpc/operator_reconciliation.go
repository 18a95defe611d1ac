package rpc

import (
	"context"
	"math"
	"strconv"

	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// Reconciliation compares the books.
type Reconciliation interface {
	RunFor(ctx context.Context, operator string) (reconcile.Report, error)
	// LastFor is the report of the last run, or a report_not_found.
	LastFor(ctx context.Context, operator string) (reconcile.Report, error)
}

// Reconcile implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) Reconcile(
	ctx context.Context, _ *roamcardv1.ReconcileRequest,
) (*roamcardv1.ReconcileResponse, error) {
	r, err := s.Reconciliation.RunFor(ctx, rpcx.Caller(ctx).Name)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ReconcileResponse{Report: reportMessage(r)}, nil
}

// GetReconciliation implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) GetReconciliation(
	ctx context.Context, _ *roamcardv1.GetReconciliationRequest,
) (*roamcardv1.GetReconciliationResponse, error) {
	r, err := s.Reconciliation.LastFor(ctx, rpcx.Caller(ctx).Name)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.GetReconciliationResponse{Report: reportMessage(r)}, nil
}

func reportMessage(r reconcile.Report) *roamcardv1.Reconciliation {
	m := &roamcardv1.Reconciliation{
		At: timestamp(r.At), FirstBlock: uint32(r.FirstBlock), LastBlock: uint32(r.LastBlock),
		SpentUsdCents: uint32(r.SpentUSDCents),
		Checked:       checkedMessage(r.Checked), Balances: balanceMessages(r.Balances), Sums: sumMessages(r.Sums),
		Findings: messages(r.Findings, findingMessage),
	}
	for _, t := range r.Resolved {
		m.Resolved = append(m.Resolved, &roamcardv1.ResolvedDifference{
			Code: string(t.Code), Subject: t.Subject, Resolution: string(t.Resolution), Detail: t.Detail,
		})
	}
	if !r.CompleteAt.IsZero() {
		m.CompleteAt = timestamp(r.CompleteAt)
	}
	return m
}

// Comparisons are the comparisons of the books that have ended.
type Comparisons interface {
	// FinishedFor is a page of them, newest first, and the id that the next page begins before; zero on the last.
	FinishedFor(
		ctx context.Context, q reconcile.FinishedQuery, act order.OperatorContext,
	) (page []reconcile.Finished, next int64,
		err error)
}

// ListReconciliations implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) ListReconciliations(
	ctx context.Context, req *roamcardv1.ListReconciliationsRequest,
) (*roamcardv1.ListReconciliationsResponse, error) {
	q := reconcile.FinishedQuery{Outcome: reconcile.Outcome(req.GetOutcome()), Limit: limitOf(req.GetPageSize())}
	var err error
	if q.Before, err = pageBefore(req.PageToken); err != nil {
		return nil, err
	}
	page, next, err := s.Comparisons.FinishedFor(ctx, q, act(ctx))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ListReconciliationsResponse{
		Reconciliations: messages(page, finishedMessage), NextPageToken: numberToken(next),
	}, nil
}

func finishedMessage(f reconcile.Finished) *roamcardv1.ReconciliationRun {
	m := &roamcardv1.ReconciliationRun{
		Id: strconv.FormatInt(f.ID, 10), BeganAt: timestamp(f.Began), EndedAt: timestamp(f.Ended),
		DurationMs: uint32(min(max(f.Took().Milliseconds(), 0), math.MaxUint32)), Outcome: string(f.Outcome),
		FirstBlock: uint32(f.FirstBlock), LastBlock: uint32(f.LastBlock), Opened: uint32(f.Opened),
		Closed: uint32(f.Closed), Open: uint32(f.Open), Blocking: uint32(f.Blocking), Resolved: uint32(f.Resolved),
		Sums: sumMessages(f.Sums), Balances: balanceMessages(f.Balances), SpentUsdCents: uint32(f.SpentUSDCents),
	}
	if f.Unread != "" {
		m.Unread = proto.String(f.Unread)
		return m
	}
	m.Checked = checkedMessage(f.Checked)
	return m
}

func checkedMessage(c reconcile.Checked) *roamcardv1.ReconciledBooks {
	return &roamcardv1.ReconciledBooks{
		Orders: uint32(c.Orders), Payments: uint32(c.Payments), Transfers: uint32(c.Transfers),
		Postings: uint32(c.Postings), Cards: uint32(c.Cards), Movements: uint32(c.Movements),
	}
}

func balanceMessages(all []reconcile.Balance) (messages []*roamcardv1.LedgerBalance) {
	for _, b := range all {
		messages = append(messages, &roamcardv1.LedgerBalance{Account: b.Account, Units: b.Units.String()})
	}
	return messages
}

func sumMessages(all []reconcile.Sum) (messages []*roamcardv1.FindingSum) {
	for _, s := range all {
		messages = append(messages, &roamcardv1.FindingSum{Code: string(s.Code), Open: uint32(s.Open),
			Blocking: uint32(s.Blocking)})
	}
	return messages
}
