package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"connectrpc.com/connect"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/testing/faultpoint"
	"github.com/roamcard/roamcard/internal/x402"
)

// buy is the paid part of every paid method: the payment header in, the receipt header out.
func (c Config) buy(ctx context.Context, kind order.Kind, key string, request any) (checkout.PaidOrder, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return checkout.PaidOrder{}, fmt.Errorf("marshal the request: %w", err)
	}
	call, ok := connect.CallInfoForHandlerContext(ctx)
	if !ok {
		return checkout.PaidOrder{}, fmt.Errorf("buy outside of a call")
	}
	sold, err := c.Checkout.Buy(ctx, checkout.Purchase{
		Kind: kind, Key: key, Request: body, Payment: x402.PaymentIn(call.RequestHeader()), Resource: c.resource(ctx),
		Extensions: c.extensions(ctx),
	})
	if err != nil {
		if f, ok := fault.As(err); ok && f.Status == http.StatusPaymentRequired {
			c.Metrics.Challenged(ctx, string(kind))
		}
		return checkout.PaidOrder{}, err
	}
	return sold, handOut(call, sold)
}

// handOut puts the receipt of what was sold on the answer.
func handOut(call connect.CallInfo, sold checkout.PaidOrder) error {
	receipt, err := x402.EncodeSettlement(checkout.Receipt(sold.Payment))
	if err != nil {
		return fmt.Errorf("encode the receipt: %w", err)
	}
	call.ResponseHeader().Set(x402.HeaderResponse, receipt)
	faultpoint.Reach("answer.ready")
	return nil
}
