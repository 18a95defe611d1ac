package topup

import (
	"testing"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
)

// TestReferencesOfLoadsNeverChange: an order that is made again after data loss has to find its load.
func TestReferencesOfLoadsNeverChange(t *testing.T) {
	const name, adopted = "a-wallet/a-key", "adopted:6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	for _, r := range []struct {
		name    string
		attempt int
		want    string
	}{
		{"ord_1", 1, "a205a471-aee7-5d4d-9d1a-b00a404a4025"},
		{"ord_1", 2, "bbb16229-1d75-5469-bf42-7053405054d4"},
		{name, 1, "04894ca7-320c-5d26-8a2a-3d8d88891519"},
		{name, 3, "2c71970b-0735-53cf-9e5d-e28f361ac506"},
		{adopted, 1, "6ba7b810-9dad-11d1-80b4-00c04fd430c8"},
	} {
		if got := LoadRef(r.name, r.attempt).String(); got != r.want {
			t.Errorf("attempt %d of %s is %s, want %s", r.attempt, r.name, got, r.want)
		}
	}
	known := Topups{}.References(order.Order{ID: "ord_1", Delivery: 2})
	if len(known) != 2 || known[1].Reference != LoadRef("ord_1", 2).String() || known[1].Version != 2 {
		t.Errorf("known by %+v", known)
	}
}

func TestLargestTopUpIsOneLoad(t *testing.T) {
	if got := SplitOf(MaxOrder).Credit; got > card.MaxLoad {
		t.Errorf("%s is more than is put on a card at once", got)
	}
}
