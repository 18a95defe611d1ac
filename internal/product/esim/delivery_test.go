package esim_test

import (
	"testing"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/esim"
)

// TestDeliveryOfEveryStoredCombination: an eSIM that was given back does not read as delivered.
func TestDeliveryOfEveryStoredCombination(t *testing.T) {
	want := map[order.Status]esim.DeliveryStatus{
		order.PaymentRequired: "unpaid", order.Expired: "unpaid", order.Settling: "pending", order.Settled: "pending",
		order.Provisioning: "pending", order.Fulfilled: "fulfilled", order.OperatorReview: "review",
		order.RefundPending: "refund_pending", order.Refunded: "refunded",
	}
	for _, s := range order.Statuses() {
		for _, p := range []esim.Status{"", esim.Ordered, esim.Ready, esim.Failed, esim.Cancelled} {
			expected := want[s]
			if s == order.Fulfilled && p == esim.Cancelled {
				expected = esim.DeliveryCancelled
			}
			if got := esim.DeliveryOf(s, p); got != expected || got == "" {
				t.Errorf("order %s, profile %q: %q, want %q", s, p, got, expected)
			}
		}
	}
}
