package x402

import (
	"encoding/base64"
	"encoding/json"
	"testing"
)

func TestSettlementTakesItsReceiptAlong(t *testing.T) {
	header, err := EncodeSettlement(Settlement{
		Success: true, Network: NetworkID, Extensions: map[string]any{OfferReceipt: DeclareReceipt("a.b.c")},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeSettlement(header)
	if err != nil || got.SignedReceipt() != "a.b.c" {
		t.Errorf("%q, %v", got.SignedReceipt(), err)
	}
	for name, extensions := range map[string]map[string]any{
		"none": nil, "no object": {OfferReceipt: "x"}, "no info": {OfferReceipt: map[string]any{}},
		"another form": {OfferReceipt: map[string]any{"info": map[string]any{
			"receipt": map[string]any{"format": "eip712", "signature": "0x"},
		}}},
	} {
		if got := (Settlement{Extensions: extensions}).SignedReceipt(); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A settlement without extensions is written as before there were any.
func TestSettlementWithoutExtensionsHasNoMemberForThem(t *testing.T) {
	header, err := EncodeSettlement(Settlement{Success: true, Network: NetworkID})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(header)
	if want := `{"success":true,"transaction":"","network":"eip155:8453"}`; err != nil || string(raw) != want {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestOffersNameTheirPlaceInAccepts(t *testing.T) {
	raw, err := json.Marshal(DeclareOffers("a.b.c", "d.e.f")["info"])
	want := `{"offers":[{"format":"jws","acceptIndex":0,"signature":"a.b.c"},` +
		`{"format":"jws","acceptIndex":1,"signature":"d.e.f"}]}`
	if err != nil || string(raw) != want {
		t.Errorf("%s, %v", raw, err)
	}
}
