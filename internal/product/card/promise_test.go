package card_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/topup"
)

func TestWhatWasPromisedIsOfferedAgain(t *testing.T) {
	s, id := owned(t, card.Active)
	quoted := order.Offer{Price: 2600, Item: json.RawMessage(`{}`)}
	if got, err := offered(t.Context(), s.Cards, &quoted); err != nil || got.Price != 2600 || got.Description == "" {
		t.Errorf("a card: %+v, %v", got, err)
	}
	topups := topup.Topups{Cards: s.Cards}
	item, err := json.Marshal(topup.Split{Gross: 5000, Fee: 75, Credit: 4925, Card: id})
	if err != nil {
		t.Fatal(err)
	}
	promised, err := offered(t.Context(), topups, &order.Offer{Price: 5000, Item: item})
	if err != nil || promised.Price != 5000 || string(promised.Item) != string(item) {
		t.Fatalf("a top-up: %+v, %v", promised, err)
	}
	got, err := topups.Reserve(t.Context(), owner, promised)
	if err != nil || string(got.Item) != string(item) || got.Reservations[0].Units != 4925 {
		t.Errorf("reserved %+v, %v", got, err)
	}
	if _, err := offered(t.Context(), topups, &order.Offer{Price: 5000, Item: json.RawMessage(`[]`)}); err == nil {
		t.Error("an item that cannot be read is offered")
	}
}

func TestPromisedTopUpIsForTheCardItWasPromisedFor(t *testing.T) {
	s, _ := owned(t, card.Active)
	item, err := json.Marshal(topup.Split{Gross: 5000, Fee: 100, Credit: 4900, Card: uuid.New()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = topup.Topups{Cards: s.Cards}.Reserve(t.Context(), owner, order.Offer{Price: 5000, Item: item})
	wantFault(t, err, fault.TermsChanged)
}
