package rpc

import (
	"context"

	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/order"
)

// GetSummary implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) GetSummary(
	ctx context.Context, req *roamcardv1.GetSummaryRequest,
) (*roamcardv1.GetSummaryResponse, error) {
	sum, err := s.Summary(ctx)
	if err != nil {
		return nil, err
	}
	res := &roamcardv1.GetSummaryResponse{
		AsOf: timestamp(sum.At), OpenFindings: uint32(sum.Findings), BlockingFindings: uint32(sum.Blocking),
		OpenTransfers: uint32(sum.Transfers), Orders: orderCounts(sum.Orders),
	}
	if !sum.Compared.IsZero() {
		res.ReconciledAt = timestamp(sum.Compared)
	}
	for _, j := range sum.Jobs {
		res.StoppedJobs = append(res.StoppedJobs,
			&roamcardv1.StoppedJobs{Kind: string(j.Kind), Status: string(j.Status), Count: uint32(j.Count)})
	}
	if req.OrderId != nil {
		version, err := s.Queue.Version(ctx, order.ID(req.GetOrderId()))
		if err != nil {
			return nil, err
		}
		res.OrderVersion = proto.Uint32(uint32(version))
	}
	return res, nil
}

func orderCounts(counts []admin.OrderCount) (all []*roamcardv1.OrderCount) {
	for _, c := range counts {
		all = append(all, &roamcardv1.OrderCount{
			Kind: string(c.Kind), Status: string(c.Status), Count: uint32(c.Count), Since: timestamp(c.Since),
			Latest: timestamp(c.Latest),
		})
	}
	return all
}
