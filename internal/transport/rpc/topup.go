package rpc

import (
	"context"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/types/known/structpb"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// TopUpCard implements roamcardv1connect.CardServiceHandler.
func (s CardService) TopUpCard(
	ctx context.Context, req *roamcardv1.TopUpCardRequest,
) (*roamcardv1.TopUpCardResponse, error) {
	gross := topup.DefaultOrder
	if req.AmountUsdCents != nil {
		gross = money.Cents(req.GetAmountUsdCents())
	}
	paid, err := s.buy(ctx, topup.Kind, req.GetIdempotencyKey(), topup.Request{Gross: gross})
	if err != nil {
		return nil, err
	}
	o, err := s.shown(ctx, paid)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.TopUpCardResponse{Order: o}, nil
}

// CreateOrder implements roamcardv1connect.OrderServiceHandler.
func (s OrderService) CreateOrder(
	ctx context.Context, req *roamcardv1.CreateOrderRequest,
) (*roamcardv1.CreateOrderResponse, error) {
	gross, err := grossOf(req)
	if err != nil {
		return nil, err
	}
	resource, err := s.ownURL(req.GetResource())
	if err != nil {
		return nil, err
	}
	o, err := s.create(ctx, checkout.CreateRequest{Kind: topup.Kind, Resource: resource},
		topup.Request{Gross: gross})
	if err != nil {
		return nil, err
	}
	return &roamcardv1.CreateOrderResponse{Order: o}, nil
}

// grossOf is the price of an order, given in dollars, in cents, or in both.
func grossOf(req *roamcardv1.CreateOrderRequest) (money.Cents, error) {
	named := money.Cents(req.GetAmountUsdCents())
	if req.Amount == nil {
		if req.AmountUsdCents == nil {
			return topup.DefaultOrder, nil
		}
		return named, nil
	}
	gross, err := dollars(req.Amount)
	switch {
	case err != nil:
		return 0, rpcx.Invalid("amount", "amount",
			"must be US dollars with at most two decimals, as a number or a string such as 25.50")
	case gross < topup.MinOrder || gross > topup.MaxOrder:
		return 0, rpcx.Invalid("amount", "amount.range", fmt.Sprintf("must be %s to %s", topup.MinOrder, topup.MaxOrder))
	case req.AmountUsdCents != nil && named != gross:
		return 0, rpcx.Invalid("amount", "amount.differs", "must be the same as amountUsdCents")
	}
	return gross, nil
}

func dollars(v *structpb.Value) (money.Cents, error) {
	switch k := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		return money.ParseDollars(k.StringValue)
	case *structpb.Value_NumberValue:
		// The shortest decimal of the number is the one that was sent, see rpcx.CheckJSON.
		return money.ParseDollars(strconv.FormatFloat(k.NumberValue, 'f', -1, 64))
	}
	return 0, money.ErrAmount
}

// GetTopupDiscovery implements roamcardv1connect.CardServiceHandler.
func (s CardService) GetTopupDiscovery(
	ctx context.Context, _ *roamcardv1.GetTopupDiscoveryRequest,
) (*roamcardv1.GetTopupDiscoveryResponse, error) {
	paused, err := s.Availability[topup.Kind].Paused(ctx)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.GetTopupDiscoveryResponse{
		Paused:          paused,
		ContractVersion: 1,
		Payment:         s.cardTerms(topup.DefaultOrder, "/api/card/topup"),
		Ownership: &roamcardv1.TopupOwnership{
			Owner: "payer", ActiveCardRequired: true, CardSelectedByServer: true,
		},
		Limits: &roamcardv1.TopupLimits{
			MinOrderUsdCents: uint32(topup.MinOrder), DefaultOrderUsdCents: uint32(topup.DefaultOrder),
			MaxOrderUsdCents: uint32(topup.MaxOrder),
			LoadFeeBps:       topup.LoadFeeBPS, LoadFeeRounding: "floor",
		},
		Funding: &roamcardv1.TopupFunding{
			Asynchronous: true, ConfirmedBy: []string{"funding job", "issuer balance"},
			Poll: []string{"GET /api/orders/{orderId}", "GET /api/cards/{id}/balance"},
		},
	}, nil
}

// TopupView shows the state of the credits of orders.
func TopupView(_ context.Context, orders []order.Order, messages []*roamcardv1.Order) (err error) {
	for i, o := range orders {
		if messages[i].Topup, err = topupMessage(o); err != nil {
			return err
		}
	}
	return nil
}

// topupMessage shows the state of the credit of an order.
func topupMessage(o order.Order) (*roamcardv1.Topup, error) {
	c, err := topup.CreditOf(o)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.Topup{
		Status: string(c.Status), GrossUsdCents: uint32(c.Gross), LoadFeeUsdCents: uint32(c.Fee),
		CardCreditUsdCents: uint32(c.Amount),
	}, nil
}

// DescribeTopups shows the terms of top-ups.
func DescribeTopups(ctx context.Context, on availability.Product, res *roamcardv1.GetConfigResponse) (err error) {
	c := cardConfig(res)
	c.MinOrderUsdCents, c.MaxOrderUsdCents = uint32(topup.MinOrder), uint32(topup.MaxOrder)
	c.DefaultOrderUsdCents = uint32(topup.DefaultOrder)
	c.LoadFeeBps = topup.LoadFeeBPS
	c.TopupPaused, err = on.Paused(ctx)
	return err
}
