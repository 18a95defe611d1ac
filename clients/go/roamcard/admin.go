package roamcard

import (
	"context"
	"iter"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
)

// Admin is what operators do, by their token; activity is for wallets that the service's configuration names.
type Admin struct {
	roamcardv1connect.OperatorServiceClient
	roamcardv1connect.ActivityServiceClient
}

// FeeJobs lists the withdrawals of the issue fee, newest first, those in a status unless it is empty.
func (a Admin) FeeJobs(ctx context.Context, status string) iter.Seq2[*roamcardv1.FeeJob, error] {
	return pages(func(token *string) ([]*roamcardv1.FeeJob, *string, error) {
		res, err := a.ListFeeJobs(ctx, &roamcardv1.ListFeeJobsRequest{Status: given(status), PageToken: token})
		if err != nil {
			return nil, nil, err
		}
		return res.GetJobs(), res.NextPageToken, nil
	})
}

// OrderQueue lists orders in a status, those that wait for an operator when it is empty.
func (a Admin) OrderQueue(ctx context.Context, status string) iter.Seq2[*roamcardv1.QueuedOrder, error] {
	return pages(func(token *string) ([]*roamcardv1.QueuedOrder, *string, error) {
		res, err := a.ListOrderQueue(ctx, &roamcardv1.ListOrderQueueRequest{Status: given(status), PageToken: token})
		if err != nil {
			return nil, nil, err
		}
		return res.GetOrders(), res.NextPageToken, nil
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
func (a Admin) Transfers(ctx context.Context, status string) iter.Seq2[*roamcardv1.StrayTransfer, error] {
	return pages(func(token *string) ([]*roamcardv1.StrayTransfer, *string, error) {
		res, err := a.ListTransfers(ctx, &roamcardv1.ListTransfersRequest{Status: given(status), PageToken: token})
		if err != nil {
			return nil, nil, err
		}
		return res.GetTransfers(), res.NextPageToken, nil
	})
}

// Findings lists what differs between the books, newest first: open or resolved, of one code or, when it is empty, of any.
func (a Admin) Findings(ctx context.Context, status, code string) iter.Seq2[*roamcardv1.Finding, error] {
	return pages(func(token *string) ([]*roamcardv1.Finding, *string, error) {
		res, err := a.ListFindings(ctx, &roamcardv1.ListFindingsRequest{Status: given(status), Code: given(code), PageToken: token})
		if err != nil {
			return nil, nil, err
		}
		return res.GetFindings(), res.NextPageToken, nil
	})
}
