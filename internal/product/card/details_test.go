package card_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/x402"
)

func TestOwnerReadsDetails(t *testing.T) {
	s, id := owned(t, card.Active)
	billing := cardtest.Billing
	want := card.Details{Billing: &billing, Challenge: card.Challenge{
		Method: card.ChallengeSMS, Destination: "***42", Instructions: "Ask the operator.",
	}}
	got, err := s.Details(t.Context(), id, owner)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, details (-want +got):\n%s", err, diff)
	}
	if _, err := s.Details(t.Context(), id, x402.Address{9}); fault.Of(err) != fault.CardNotFound {
		t.Errorf("a stranger's read: %v", err)
	}
	if _, err := s.Details(t.Context(), uuid.New(), owner); fault.Of(err) != fault.CardNotFound {
		t.Errorf("no card: %v", err)
	}
	s.issuer.Fault(cardtest.Details, fulfilmenttest.ErrorBefore)
	if _, err := s.Details(t.Context(), id, owner); fault.Of(err) != fault.DependencyDown {
		t.Errorf("a silent issuer: %v", err)
	}
}

func TestDetailsOfAllIssuersAreWhatOneCanRelyOn(t *testing.T) {
	sms := card.DetailKinds{Billing: true, Challenges: []card.ChallengeMethod{card.ChallengeSMS}}
	none := card.DetailKinds{Challenges: []card.ChallengeMethod{card.ChallengeNone}}
	both := card.DetailKinds{Challenges: []card.ChallengeMethod{card.ChallengeNone, card.ChallengeSMS}}
	if diff := cmp.Diff(both, sms.And(none)); diff != "" {
		t.Error(diff)
	}
	if got := sms.And(card.DetailKinds{Billing: true}); !got.Billing || len(got.Challenges) != 0 || !got.Any() {
		t.Errorf("with one that does not tell: %+v", got)
	}
	if got := none.And(card.DetailKinds{Billing: true}); got.Any() {
		t.Errorf("nothing in common: %+v", got)
	}
}

func TestBillingIsReadFromASetting(t *testing.T) {
	got, err := card.ParseBilling("Programme Inc; 1 Programme Street;; Dover; DE ;19901; US")
	if diff := cmp.Diff(cardtest.Billing, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for name, text := range map[string]string{
		"empty": "", "one too few": "a;b;;c;d;1", "one too many": "a;b;;c;d;1;US;x", "no name": ";b;;c;d;1;US",
		"no street": "a;;;c;d;1;US", "no city": "a;b;;;d;1;US", "no postal code": "a;b;;c;d;;US", "no country": "a;b;;c;d;1;",
		"a country's name": "a;b;;c;d;1;USA", "small letters": "a;b;;c;d;1;us", "two lines": "a\nb;b;;c;d;1;US",
		"too long": strings.Repeat("a", 201) + ";b;;c;d;1;US",
	} {
		if got, err := card.ParseBilling(text); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestSettingsOfChallengesAreChecked(t *testing.T) {
	for _, good := range []string{"none", "sms", "email", "out_of_band", "automatic"} {
		if err := card.CheckChallenge(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "SMS", "phone"} {
		if card.CheckChallenge(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if err := card.CheckInstructions("Approve it in the app."); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", " ", "a\nb", strings.Repeat("a", card.MaxInstructions+1)} {
		if card.CheckInstructions(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestDestinationsAreMasked(t *testing.T) {
	for number, want := range map[string]string{
		"+1 (302) 555-0142": "***42", "12345": "***", "": "***", "none": "***",
	} {
		if got := card.MaskPhone(number); got != want {
			t.Errorf("%q is %q", number, got)
		}
	}
	for address, want := range map[string]string{
		"cards@programme.example": "c***@programme.example", "élan@x.example": "é***@x.example", "@x": "***", "x@": "***",
		"": "***",
	} {
		if got := card.MaskEmail(address); got != want {
			t.Errorf("%q is %q", address, got)
		}
	}
}
