package roamcard

import (
	"context"
	"iter"

	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
)

// Admin is what operators do, by their token; activity is for wallets that the service's configuration names.
type Admin struct {
	roamcardv1connect.OperatorServiceClient
	roamcardv1connect.ActivityServiceClient
}

// Admin is what operators do. Their service is made here and not in New, so that a program that only buys does not
// have it.
func (c *Client) Admin() Admin {
	return Admin{
		roamcardv1connect.NewOperatorServiceClient(c.HTTP, c.origin, c.options...), c.Services.Activity,
	}
}

// FeeJobs lists the withdrawals of the issue fee, newest first, those in a status unless it is empty.
func (a Admin) FeeJobs(ctx context.Context, status string) iter.Seq2[*roamcardv1.FeeJob, error] {
	return pages(func(token string) (*Page[*roamcardv1.FeeJob], error) { return a.FeeJobsPage(ctx, status, token) })
}

// FeeJobsPage reads one page of what FeeJobs lists: the first one, or the one that token names.
func (a Admin) FeeJobsPage(ctx context.Context, status, token string) (*Page[*roamcardv1.FeeJob], error) {
	res, err := a.ListFeeJobs(ctx, &roamcardv1.ListFeeJobsRequest{Status: given(status), PageToken: given(token)})
	if err != nil {
		return nil, err
	}
	return page(res.GetJobs(), res.NextPageToken), nil
}

// CardClosings lists the closings of cards, newest first, those in a status unless it is empty.
func (a Admin) CardClosings(ctx context.Context, status string) iter.Seq2[*roamcardv1.CardClosing, error] {
	return pages(func(token string) (*Page[*roamcardv1.CardClosing], error) {
		return a.CardClosingsPage(ctx, status, token)
	})
}

// CardClosingsPage reads one page of what CardClosings lists: the first one, or the one that token names.
func (a Admin) CardClosingsPage(ctx context.Context, status, token string) (*Page[*roamcardv1.CardClosing], error) {
	res, err := a.ListCardClosings(ctx, &roamcardv1.ListCardClosingsRequest{
		Status: given(status), PageToken: given(token),
	})
	if err != nil {
		return nil, err
	}
	return page(res.GetClosings(), res.NextPageToken), nil
}

// EsimCancellations lists the cancellations of eSIMs, newest first, those in a status unless it is empty.
func (a Admin) EsimCancellations(
	ctx context.Context, status string,
) iter.Seq2[*roamcardv1.EsimCancellationJob, error] {
	return pages(func(token string) (*Page[*roamcardv1.EsimCancellationJob], error) {
		return a.EsimCancellationsPage(ctx, status, token)
	})
}

// EsimCancellationsPage reads one page of what EsimCancellations lists: the first one, or the one that token names.
func (a Admin) EsimCancellationsPage(
	ctx context.Context, status, token string,
) (*Page[*roamcardv1.EsimCancellationJob], error) {
	res, err := a.ListEsimCancellations(ctx, &roamcardv1.ListEsimCancellationsRequest{
		Status: given(status), PageToken: given(token),
	})
	if err != nil {
		return nil, err
	}
	return page(res.GetCancellations(), res.NextPageToken), nil
}

// OrderQueue lists orders in a status, those that wait for an operator when it is empty.
func (a Admin) OrderQueue(ctx context.Context, status string) iter.Seq2[*roamcardv1.ReviewItem, error] {
	return pages(func(token string) (*Page[*roamcardv1.ReviewItem], error) {
		return a.OrderQueuePage(ctx, status, token)
	})
}

// OrderQueuePage reads one page of what OrderQueue lists: the first one, or the one that token names.
func (a Admin) OrderQueuePage(ctx context.Context, status, token string) (*Page[*roamcardv1.ReviewItem], error) {
	res, err := a.ListOrderQueue(ctx, &roamcardv1.ListOrderQueueRequest{Status: given(status), PageToken: given(token)})
	if err != nil {
		return nil, err
	}
	return page(res.GetOrders(), res.NextPageToken), nil
}

// FindOrders lists the orders that a request selects: those that wait for an operator when it is empty. Its page token
// is ignored.
func (a Admin) FindOrders(
	ctx context.Context, req *roamcardv1.ListOrderQueueRequest,
) iter.Seq2[*roamcardv1.ReviewItem, error] {
	return pages(func(token string) (*Page[*roamcardv1.ReviewItem], error) {
		asked := proto.CloneOf(req)
		asked.PageToken = given(token)
		res, err := a.ListOrderQueue(ctx, asked)
		if err != nil {
			return nil, err
		}
		return page(res.GetOrders(), res.NextPageToken), nil
	})
}

// Audit lists what operators did, newest first: what a request selects, or all. Its page token is ignored.
func (a Admin) Audit(
	ctx context.Context, req *roamcardv1.ListAuditRequest,
) iter.Seq2[*roamcardv1.AuditRecord, error] {
	return pages(func(token string) (*Page[*roamcardv1.AuditRecord], error) {
		asked := proto.CloneOf(req)
		asked.PageToken = given(token)
		res, err := a.ListAudit(ctx, asked)
		if err != nil {
			return nil, err
		}
		return page(res.GetRecords(), res.NextPageToken), nil
	})
}

// Jobs lists jobs, newest first: what a request selects, or those that have stopped. Its page token is ignored.
func (a Admin) Jobs(ctx context.Context, req *roamcardv1.ListJobsRequest) iter.Seq2[*roamcardv1.OperatorJob, error] {
	return pages(func(token string) (*Page[*roamcardv1.OperatorJob], error) {
		asked := proto.CloneOf(req)
		asked.PageToken = given(token)
		res, err := a.ListJobs(ctx, asked)
		if err != nil {
			return nil, err
		}
		return page(res.GetJobs(), res.NextPageToken), nil
	})
}

// Approvals lists the decisions that wait for a second operator, newest first, or those in another status. Its page
// token is ignored.
func (a Admin) Approvals(
	ctx context.Context, req *roamcardv1.ListApprovalsRequest,
) iter.Seq2[*roamcardv1.Approval, error] {
	return pages(func(token string) (*Page[*roamcardv1.Approval], error) {
		asked := proto.CloneOf(req)
		asked.PageToken = given(token)
		res, err := a.ListApprovals(ctx, asked)
		if err != nil {
			return nil, err
		}
		return page(res.GetApprovals(), res.NextPageToken), nil
	})
}

// Tokens lists the operators' tokens that were minted, newest first. Its page token is ignored.
func (a Admin) Tokens(
	ctx context.Context, req *roamcardv1.ListTokensRequest,
) iter.Seq2[*roamcardv1.OperatorToken, error] {
	return pages(func(token string) (*Page[*roamcardv1.OperatorToken], error) {
		asked := proto.CloneOf(req)
		asked.PageToken = given(token)
		res, err := a.ListTokens(ctx, asked)
		if err != nil {
			return nil, err
		}
		return page(res.GetTokens(), res.NextPageToken), nil
	})
}

// given is a text, or nothing when it is empty.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// Transfers lists what reached the payee and belongs to no order, newest first: open or resolved.
func (a Admin) Transfers(ctx context.Context, status string) iter.Seq2[*roamcardv1.UnmatchedTransfer, error] {
	return pages(func(token string) (*Page[*roamcardv1.UnmatchedTransfer], error) {
		return a.TransfersPage(ctx, status, token)
	})
}

// TransfersPage reads one page of what Transfers lists: the first one, or the one that token names.
func (a Admin) TransfersPage(ctx context.Context, status, token string) (*Page[*roamcardv1.UnmatchedTransfer], error) {
	res, err := a.ListTransfers(ctx, &roamcardv1.ListTransfersRequest{Status: given(status), PageToken: given(token)})
	if err != nil {
		return nil, err
	}
	return page(res.GetTransfers(), res.NextPageToken), nil
}

// Reconciliations lists the comparisons of the books that have ended, newest first: those that ended so or, when it is
// empty, all.
func (a Admin) Reconciliations(ctx context.Context, outcome string) iter.Seq2[*roamcardv1.ReconciliationRun, error] {
	return pages(func(token string) (*Page[*roamcardv1.ReconciliationRun], error) {
		return a.ReconciliationsPage(ctx, outcome, token)
	})
}

// ReconciliationsPage reads one page of what Reconciliations lists: the first one, or the one that token names.
func (a Admin) ReconciliationsPage(
	ctx context.Context, outcome, token string,
) (*Page[*roamcardv1.ReconciliationRun], error) {
	res, err := a.ListReconciliations(ctx,
		&roamcardv1.ListReconciliationsRequest{Outcome: given(outcome), PageToken: given(token)})
	if err != nil {
		return nil, err
	}
	return page(res.GetReconciliations(), res.NextPageToken), nil
}

// Findings lists what differs between the books, newest first: open or resolved, of one code or, when it is empty, of
// any.
func (a Admin) Findings(ctx context.Context, status, code string) iter.Seq2[*roamcardv1.Finding, error] {
	return pages(func(token string) (*Page[*roamcardv1.Finding], error) {
		return a.FindingsPage(ctx, status, code, token)
	})
}

// FindingsPage reads one page of what Findings lists: the first one, or the one that token names.
func (a Admin) FindingsPage(ctx context.Context, status, code, token string) (*Page[*roamcardv1.Finding], error) {
	res, err := a.ListFindings(ctx,
		&roamcardv1.ListFindingsRequest{Status: given(status), Code: given(code), PageToken: given(token)})
	if err != nil {
		return nil, err
	}
	return page(res.GetFindings(), res.NextPageToken), nil
}
