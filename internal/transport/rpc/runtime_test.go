package rpc

import (
	"testing"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
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
