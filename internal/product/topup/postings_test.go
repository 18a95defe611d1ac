package topup

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
)

// TestEveryTopupIsSplitToTheCent is the money identity for all amounts that can be bought: what was paid is what the
// card got and the fee, and the customer is owed nothing any more.
func TestEveryTopupIsSplitToTheCent(t *testing.T) {
	amounts := 0
	for gross := MinOrder; gross <= MaxOrder; gross++ {
		amounts++
		split := SplitOf(gross)
		split.Card = uuid.UUID{1}
		id := split.Card.String()
		postings := append(split.Postings("o"), ledger.Settled("o", gross.USDC()))
		for _, p := range postings {
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
		}
		got := ledger.Balances(postings)
		if got[ledger.Customer("o")] != 0 || got[ledger.Card(id)]-got[ledger.LoadFeeRevenue] != gross.USDC() ||
			got[ledger.Card(id)] != -got[ledger.Holder(id)] {
			t.Fatalf("%s: %v", gross, got)
		}
	}
	if amounts != 22_501 {
		t.Errorf("%d amounts", amounts)
	}
}

func TestFulfilledOrderIsPostedByItsProduct(t *testing.T) {
	split := SplitOf(2500)
	split.Card = uuid.UUID{1}
	item, err := json.Marshal(split)
	if err != nil {
		t.Fatal(err)
	}
	free := Split{Credit: 2500, Card: split.Card}
	if diff := cmp.Diff([]ledger.Posting{ledger.Loaded("o", split.Card.String(), 2500)}, free.Postings("o")); diff != "" {
		t.Errorf("a top-up without a fee (-want +got):\n%s", diff)
	}
	got, err := Topups{}.Postings(order.Order{ID: "o", Item: item})
	want := []ledger.Posting{ledger.Loaded("o", split.Card.String(), 2450), ledger.LoadFee("o", 50)}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("a top-up: %v (-want +got):\n%s", err, diff)
	}
	if _, err := (Topups{}).Postings(order.Order{ID: "o", Item: []byte("[]")}); err == nil {
		t.Error("a top-up that cannot be read is posted")
	}
}
