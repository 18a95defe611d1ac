package stripe_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/stripe"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

// TestDetailsAreTheCardholders: codes go where Stripe sends them, and whole numbers and addresses stay with Stripe.
func TestDetailsAreTheCardholders(t *testing.T) {
	b := start(t)
	a := b.opened()
	for _, c := range []struct {
		email, phone string
		method       card.ChallengeMethod
		destination  string
	}{
		{"cards@programme.example", "+1 302 555 0142", card.ChallengeSMS, "***42"},
		{"cards@programme.example", "", card.ChallengeEmail, "c***@programme.example"},
		{"", "+1 302 555 0142", card.ChallengeSMS, "***42"},
		{"", "", card.ChallengeNone, ""},
	} {
		b.fake.SetContact(c.email, c.phone)
		got, err := b.Details(t.Context(), a.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&card.Billing{
			Name: "Programme Inc", Line1: "1 Programme Street", City: "Dover", Region: "DE", PostalCode: "19901", Country: "US",
		}, got.Billing); diff != "" {
			t.Error(diff)
		}
		if got.Challenge.Method != c.method || got.Challenge.Destination != c.destination ||
			card.CheckInstructions(got.Challenge.Instructions) != nil {
			t.Errorf("%+v: %+v", c, got.Challenge)
		}
	}
	told := b.dialWith(stripe.Config{
		HTTP: &http.Client{Transport: b.web.Client().Transport}, Instructions: "Call the operator.",
	})
	if got, err := told.Details(t.Context(), a.ID); err != nil || got.Challenge.Instructions != "Call the operator." {
		t.Errorf("with instructions of the operator's: %+v, %v", got, err)
	}
	// A cardholder that no cards are opened for has details of those that there are.
	b.fake.SetHolder("inactive", "")
	if _, err := b.Details(t.Context(), a.ID); err != nil {
		t.Error(err)
	}
	b.fake.Fault("cardholder", vendorfake.WrongOwner)
	if got, err := b.Details(t.Context(), a.ID); err == nil {
		t.Errorf("of another cardholder: %+v", got)
	}
}
