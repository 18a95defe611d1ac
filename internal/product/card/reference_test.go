package card_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/product/card"
)

// TestReferencesNeverChange: an issuer knows cards by references that were derived years ago.
func TestReferencesNeverChange(t *testing.T) {
	const name, adopted = "a-wallet/a-key", "adopted:6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	fee := card.FeeArgs{Card: uuid.MustParse("00000000-0000-7000-8000-00000000000c"), Version: 1}
	again, ofOpening := fee, fee
	again.Version, ofOpening.Opening = 2, "f00d"
	for _, r := range []struct{ what, got, want string }{
		{"opening", card.OpeningRef(name, 1).String(), "0b8dc3df-9845-5021-9f5a-94a00a3fcb48"},
		{"second opening", card.OpeningRef(name, 2).String(), "643730a0-c7d3-5821-8e9c-518be3d06645"},
		{"adopted card", card.OpeningRef(adopted, 1).String(), "6ba7b810-9dad-11d1-80b4-00c04fd430c8"},
		{"second opening, adopted", card.OpeningRef(adopted, 2).String(), "90d8b432-515c-5032-affd-626f4c9c55fc"},
		{"fee of a card", fee.Ref().String(), "16660b28-f82b-5b57-826e-ec821df91dab"},
		{"second withdrawal", again.Ref().String(), "4bed8cda-c4bb-5699-aa06-a055825a3338"},
		{"fee of an opening", ofOpening.Ref().String(), "181b386f-4466-55a0-8bd5-aae9c2543de2"},
	} {
		if r.got != r.want {
			t.Errorf("%s: reference %s, want %s", r.what, r.got, r.want)
		}
	}
}
