package rpc

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/esim"
)

// EsimTopups are the plans that eSIMs take.
type EsimTopups interface {
	// Plans is an order_not_fulfilled before there is an eSIM, and an esim_finished when it takes no more.
	Plans(ctx context.Context, o order.Order) ([]esim.Plan, error)
	// Await is the order of a plan once it is decided, or as it is at the deadline.
	Await(ctx context.Context, o order.Order, until time.Time) order.Order
}

// ListEsimTopups implements roamcardv1connect.EsimServiceHandler.
func (s EsimService) ListEsimTopups(
	ctx context.Context, req *roamcardv1.ListEsimTopupsRequest,
) (*roamcardv1.ListEsimTopupsResponse, error) {
	paid, err := s.owned(ctx, req.GetOrderId())
	if err != nil {
		return nil, err
	}
	plans, err := s.Topups.Plans(ctx, paid.Order)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ListEsimTopupsResponse{Plans: s.plans(plans)}, nil
}

// TopUpEsim implements roamcardv1connect.EsimServiceHandler.
func (s EsimService) TopUpEsim(
	ctx context.Context, req *roamcardv1.TopUpEsimRequest,
) (*roamcardv1.TopUpEsimResponse, error) {
	until := s.Now().Add(esim.InlineWait)
	paid, err := s.buy(ctx, esim.TopupKind, req.GetIdempotencyKey(), esim.TopupPurchase{
		Esim: order.ID(req.GetOrderId()), Plan: esim.PlanID(req.GetPlanId()),
	})
	if err != nil {
		return nil, err
	}
	paid.Order = s.Topups.Await(ctx, paid.Order, until)
	o, err := s.shown(ctx, paid)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.TopUpEsimResponse{Order: o}, nil
}

// EsimTopupView shows the state of the data of orders.
func EsimTopupView(plans PlanNames) View {
	return func(ctx context.Context, orders []order.Order, messages []*roamcardv1.Order) error {
		var bought []esim.PlanID
		for i, o := range orders {
			item, err := esim.TopupItemOf(o)
			if err != nil {
				return fmt.Errorf("order %s: %w", o.ID, err)
			}
			m := &roamcardv1.EsimTopup{
				Status: string(esim.DeliveryOf(o.Status, "")), OrderId: string(item.Esim), PlanId: string(item.Plan),
				Unlimited: item.Unlimited, ValidityDays: uint32(item.ValidityDays),
			}
			if !item.Unlimited {
				m.DataMb = proto.Uint32(uint32(item.DataMB))
			}
			messages[i].EsimTopup, bought = m, append(bought, item.Plan)
		}
		names, err := plans.PlanNames(ctx, bought...)
		if err != nil {
			return err
		}
		for i, id := range bought {
			messages[i].EsimTopup.PlanName = optionalText(names[id])
		}
		return nil
	}
}

// DescribeEsimTopups shows the terms of more data for eSIMs.
func DescribeEsimTopups(ctx context.Context, on availability.Product, res *roamcardv1.GetConfigResponse) (err error) {
	esimConfig(res).TopupPaused, err = on.Paused(ctx)
	return err
}
