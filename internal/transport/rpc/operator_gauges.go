package rpc

import (
	"context"
	"strconv"

	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/admin"
)

// CountOrders implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) CountOrders(
	ctx context.Context, _ *roamcardv1.CountOrdersRequest,
) (*roamcardv1.CountOrdersResponse, error) {
	counts, err := s.Queue.Counts(ctx)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.CountOrdersResponse{Counts: orderCounts(counts)}, nil
}

// GetGauges implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) GetGauges(
	ctx context.Context, _ *roamcardv1.GetGaugesRequest,
) (*roamcardv1.GetGaugesResponse, error) {
	g, err := s.Gauges(ctx)
	if err != nil {
		return nil, err
	}
	res := &roamcardv1.GetGaugesResponse{AsOf: timestamp(g.At)}
	for _, f := range g.Floats {
		res.Floats = append(res.Floats,
			&roamcardv1.FloatGauge{Provider: f.Provider, Units: strconv.FormatInt(int64(f.Units), 10)})
	}
	for _, a := range g.Accounts {
		res.Accounts = append(res.Accounts, accountGauge(a))
	}
	for _, j := range g.Jobs {
		res.Jobs = append(res.Jobs, &roamcardv1.JobGauge{
			Kind: string(j.Kind), Status: string(j.Status), Count: uint32(j.Count), Oldest: timestamp(j.Oldest),
		})
	}
	for _, n := range g.Nodes {
		res.Nodes = append(res.Nodes,
			&roamcardv1.NodeGauge{Node: n.Node, Block: uint32(n.Block), AgeSeconds: uint32(n.Age.Seconds())})
	}
	return res, nil
}

func accountGauge(a admin.Account) *roamcardv1.AccountGauge {
	m := &roamcardv1.AccountGauge{Name: a.Name, Address: a.Address.String()}
	if a.Units != nil {
		m.Units = proto.String(strconv.FormatInt(int64(*a.Units), 10))
	}
	if a.Wei != nil {
		m.Wei = proto.String(a.Wei.String())
	}
	return m
}
