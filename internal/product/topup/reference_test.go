package topup

import (
	"testing"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
)

// TestReferencesOfLoadsNeverChange: an order that is made again after data loss has to find its load.
func TestReferencesOfLoadsNeverChange(t *testing.T) {
	for attempt, want := range map[int]string{
		1: "a205a471-aee7-5d4d-9d1a-b00a404a4025", 2: "bbb16229-1d75-5469-bf42-7053405054d4",
	} {
		if got := LoadRef("ord_1", attempt).String(); got != want {
			t.Errorf("attempt %d is %s, want %s", attempt, got, want)
		}
	}
	known := Topups{}.References(order.Order{ID: "ord_1", Delivery: 2})
	if len(known) != 2 || known[1].Reference != LoadRef("ord_1", 2).String() || known[1].Version != 2 {
		t.Errorf("known by %+v", known)
	}
}

func TestTheLargestTopUpIsOneLoad(t *testing.T) {
	if got := SplitOf(MaxOrder).Credit; got > card.MaxLoad {
		t.Errorf("%s is more than is put on a card at once", got)
	}
}
