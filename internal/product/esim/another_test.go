package esim

import (
	"testing"

	"github.com/roamcard/roamcard/internal/order"
)

// TestDataOfAnotherPlanIsNotBelieved: an order of the same key, which was lost, has asked for a dearer plan.
func TestDataOfAnotherPlanIsNotBelieved(t *testing.T) {
	a := adding{plan: Plan{Code: "fr-1"}}
	got, err := a.known(t.Context(), nil, Purchase{State: PurchaseReady, Code: "fr-20"})
	if err != nil || got.State != order.Doubtful {
		t.Errorf("delivery %+v, %v", got, err)
	}
}
