package rpc

import (
	"slices"
	"testing"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
)

func TestConfigShowsTheLimitsOfPurchases(t *testing.T) {
	res, err := RuntimeService{}.GetConfig(t.Context(), &roamcardv1.GetConfigRequest{})
	if err != nil {
		t.Fatal(err)
	}
	got := res.GetLimits()
	if got.GetIdempotencyKeyMaxLength() != 200 || got.GetPurchaseBodyMaxBytes() != 4096 ||
		got.GetPaymentHeaderMaxBytes() != 16384 {
		t.Errorf("%v", got)
	}
}

// Where no smart account may pay, no answer names any.
func TestSmartAccountsAreNamedWhereTheyMayPay(t *testing.T) {
	for _, kinds := range [][]string{nil, {"coinbase-smart-wallet", "safe"}} {
		s := RuntimeService{
			Terms: payment.Terms{SmartAccountKinds: kinds}, ReadyFor: card.Kind,
			Availability: map[order.Kind]availability.Product{card.Kind: {}},
		}
		config, err := s.GetConfig(t.Context(), &roamcardv1.GetConfigRequest{})
		if err != nil || !slices.Equal(config.GetNetwork().GetSmartAccountKinds(), kinds) {
			t.Errorf("%v: the config has %v, %v", kinds, config.GetNetwork().GetSmartAccountKinds(), err)
		}
		ready, err := s.GetReadiness(t.Context(), &roamcardv1.GetReadinessRequest{})
		if err != nil || !slices.Equal(ready.GetSmartAccountKinds(), kinds) {
			t.Errorf("%v: readiness has %v, %v", kinds, ready.GetSmartAccountKinds(), err)
		}
		if got := s.Terms.AccountTypes(); !slices.Equal(got, append([]string{"eoa"}, kinds...)) {
			t.Errorf("%v: the accounts that may pay are %v", kinds, got)
		}
	}
}
