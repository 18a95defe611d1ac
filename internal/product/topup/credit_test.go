package topup_test

import (
	"testing"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/topup"
)

// TestCreditOfEveryStoredStatus: a top-up that is refunded keeps no fee and credits nothing.
func TestCreditOfEveryStoredStatus(t *testing.T) {
	want := map[order.Status]topup.CreditStatus{
		order.PaymentRequired: "unpaid", order.Expired: "unpaid", order.Settling: "queued", order.Settled: "queued",
		order.Provisioning: "pending", order.Fulfilled: "credited", order.OperatorReview: "review",
		order.RefundPending: "refused", order.Refunded: "refused",
	}
	for _, s := range order.Statuses() {
		got, err := topup.CreditOf(order.Order{
			ID: "ord_1", Kind: topup.Kind, Status: s,
			Item: []byte(`{"grossUsdCents":2500,"loadFeeUsdCents":50,"cardCreditUsdCents":2450}`),
		})
		if err != nil || got.Status != want[s] {
			t.Errorf("%s: %q, %v, want %q", s, got.Status, err, want[s])
		}
		fee, credit := money.Cents(50), money.Cents(2450)
		if s == order.Expired || s == order.RefundPending || s == order.Refunded {
			fee, credit = 0, 0
		}
		if got.Gross != 2500 || got.Fee != fee || got.Amount != credit {
			t.Errorf("%s: %s less %s is %s, want a fee of %s and a credit of %s", s, got.Gross, got.Fee, got.Amount, fee,
				credit)
		}
	}
	if _, err := topup.CreditOf(order.Order{Status: "lost", Item: []byte(`{}`)}); err == nil {
		t.Error("a status that there is not has a credit")
	}
}
