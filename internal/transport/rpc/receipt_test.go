package rpc

import (
	"testing"

	"connectrpc.com/connect/v2"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/receipt"
	"github.com/roamcard/roamcard/internal/x402"
)

// A receipt in a settlement says that what was paid for was delivered.
func TestSettlementHasTheReceiptOfADeliveryAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		signed *checkout.SignedReceipt
		want   string
	}{
		"pending":   {nil, ""},
		"delivered": {&checkout.SignedReceipt{Outcome: receipt.Delivered, JWS: "a.b.c"}, "a.b.c"},
		"refunded":  {&checkout.SignedReceipt{Outcome: receipt.Refunded, JWS: "a.b.c"}, ""},
	} {
		header := &connect.Header{}
		paid := checkout.PaidOrder{Payment: payment.Payment{Receipt: &payment.Receipt{}}, Receipt: tt.signed}
		if err := setReceipt(header, paid); err != nil {
			t.Fatal(err)
		}
		got, err := x402.DecodeSettlement(header.Get(x402.HeaderResponse))
		if err != nil || got.SignedReceipt() != tt.want || (got.Extensions == nil) != (tt.want == "") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
