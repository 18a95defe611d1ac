package rpc

import (
	"context"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
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
		Checked: &roamcardv1.ReconciledBooks{
			Orders: uint32(r.Checked.Orders), Payments: uint32(r.Checked.Payments),
			Transfers: uint32(r.Checked.Transfers),
			Postings:  uint32(r.Checked.Postings), Cards: uint32(r.Checked.Cards),
			Movements: uint32(r.Checked.Movements),
		},
	}
	for _, b := range r.Balances {
		m.Balances = append(m.Balances, &roamcardv1.LedgerBalance{Account: b.Account, Units: b.Units.String()})
	}
	for _, f := range r.Findings {
		m.Findings = append(m.Findings, findingMessage(f))
	}
	for _, t := range r.Resolved {
		m.Resolved = append(m.Resolved, &roamcardv1.ResolvedDifference{
			Code: string(t.Code), Subject: t.Subject, Resolution: string(t.Resolution), Detail: t.Detail,
		})
	}
	for _, s := range r.Sums {
		m.Sums = append(m.Sums, &roamcardv1.FindingSum{Code: string(s.Code), Open: uint32(s.Open),
			Blocking: uint32(s.Blocking)})
	}
	if !r.CompleteAt.IsZero() {
		m.CompleteAt = timestamp(r.CompleteAt)
	}
	return m
}
