package lithic_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/provider/lithic"
	"github.com/roamcard/roamcard/internal/provider/lithic/lithicfake"
	"github.com/roamcard/roamcard/internal/secret"
)

func registered(own map[string]string) provider.Config {
	all := map[string]string{
		lithic.FloatKey: lithicfake.Float, lithic.ProgramKey: lithicfake.Program,
		lithic.TransferKey: "TRANSFER/ACCOUNT_TO_ACCOUNT/load", lithic.RevealKey: "embed",
	}
	maps.Copy(all, own)
	c := provider.Config{URL: "https://api.example.com", Key: secret.New(lithicfake.DevKey), Own: provider.Values{}}
	for key, text := range all {
		c.Own[key] = secret.New(text)
	}
	return c
}

func TestSettingsDecideHowNumbersAreShown(t *testing.T) {
	for text, want := range map[string]card.Reveal{"embed": card.RevealEmbed, "inline": card.RevealInline} {
		client, err := lithic.AsIssuer().Dial(registered(map[string]string{lithic.RevealKey: text}))
		if err != nil || client.Capabilities().Reveal != want || client.Capabilities().Check() != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestSettingsAreCheckedWhenTheyAreRead(t *testing.T) {
	taken := map[string][]string{
		lithic.FloatKey: {lithicfake.Float}, lithic.ProgramKey: {lithicfake.Program}, lithic.AccountKey: {lithicfake.Account},
		lithic.TransferKey:     {"TRANSFER/ACCOUNT_TO_ACCOUNT/load", "FEE/CARD_CREATE/issue fee"},
		lithic.RevealKey:       {"embed", "inline"},
		lithic.BillingKey:      {"Programme Inc; 1 Programme Street; ; Dover; DE; 19901; US"},
		lithic.ChallengeKey:    {"sms", "none"},
		lithic.InstructionsKey: {"Approve it with the operator."},
	}
	refused := map[string][]string{
		lithic.FloatKey:   {"", "float", "00000000-0000-0000-0000-000000000000"},
		lithic.ProgramKey: {"", "1234"},
		lithic.AccountKey: {"me"},
		lithic.TransferKey: {"", "TRANSFER", "TRANSFER/ACCOUNT_TO_ACCOUNT", "TRANSFER/ACCOUNT_TO_ACCOUNT/", "a/b/c",
			"A/B/c/d"},
		lithic.RevealKey: {"", "sealed"}, lithic.BillingKey: {"", "1 Programme Street"},
		lithic.ChallengeKey: {"", "phone"}, lithic.InstructionsKey: {"", "two\nlines"},
	}
	for _, s := range lithic.AsIssuer().Settings {
		for _, text := range taken[s.Key] {
			if err := s.Check(text); err != nil {
				t.Errorf("%s: %q is refused: %v", s.Key, text, err)
			}
		}
		for _, text := range refused[s.Key] {
			if s.Check(text) == nil {
				t.Errorf("%s: %q is taken", s.Key, text)
			}
		}
		delete(taken, s.Key)
	}
	if len(taken) > 0 {
		t.Errorf("there are no settings %v", taken)
	}
}

func TestMistakesShowTogether(t *testing.T) {
	c := registered(nil)
	if wrong := lithic.AsIssuer().Validate(c); len(wrong) > 0 {
		t.Errorf("nothing is wrong with %v", wrong)
	}
	c.SpendLimits, c.URL = true, "http://api.example.com"
	text := ""
	for _, err := range lithic.AsIssuer().Validate(c) {
		text += err.Error() + "\n"
	}
	for _, want := range []string{"issuer.spend_limits: ", "issuer.url: the URL is not https"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	if _, err := lithic.AsIssuer().Dial(c); err == nil {
		t.Error("dialled without https")
	}
	if !lithic.AsIssuer().Real {
		t.Error("production refuses the issuer")
	}
}

// Without settings nothing is promised: what the vendor's document has of an address is not compared any more.
func TestSettingsDecideWhichDetailsAreTold(t *testing.T) {
	set := map[string]string{
		lithic.BillingKey:   "Programme Inc; 1 Programme Street; ; Dover; DE; 19901; US",
		lithic.ChallengeKey: "sms", lithic.InstructionsKey: "Ask the operator.",
	}
	client, err := lithic.AsIssuer().Dial(registered(set))
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.(card.Controls).Details(t.Context(), "any")
	if err != nil || got.Billing == nil || *got.Billing != billing ||
		got.Challenge != (card.Challenge{Method: card.ChallengeSMS, Instructions: "Ask the operator."}) {
		t.Errorf("with settings: %+v, %v", got, err)
	}
	if client, err = lithic.AsIssuer().Dial(registered(nil)); err != nil || client.Capabilities().Details.Any() {
		t.Errorf("without settings, %+v is promised, %v", client.Capabilities().Details, err)
	}
	delete(set, lithic.ChallengeKey)
	if wrong := lithic.AsIssuer().Validate(registered(set)); len(wrong) != 1 {
		t.Errorf("instructions without a method: %v", wrong)
	}
}
