package rpc

import (
	"slices"
	"testing"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/payment"
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
		s := RuntimeService{Terms: payment.Terms{SmartAccountKinds: kinds}}
		config, err := s.GetConfig(t.Context(), &roamcardv1.GetConfigRequest{})
		if err != nil || !slices.Equal(config.GetNetwork().GetSmartAccountKinds(), kinds) {
			t.Errorf("%v: the config has %v, %v", kinds, config.GetNetwork().GetSmartAccountKinds(), err)
		}
		if got := s.Terms.AccountTypes(); !slices.Equal(got, append([]string{"eoa"}, kinds...)) {
			t.Errorf("%v: the accounts that may pay are %v", kinds, got)
		}
	}
}
