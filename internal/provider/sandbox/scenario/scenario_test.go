package scenario_test

import (
	"testing"

	"github.com/roamcard/roamcard/internal/provider/sandbox/scenario"
)

func TestScenarioIsThreeDigitsAtTheEndOfAKey(t *testing.T) {
	for key, want := range map[string]string{
		"k~004": "004", "~123": "123", "k~0040": "", "k~04": "", "k~00a": "", "k004": "", "~004 ": "", "": "", "004": "",
		"k~001~002": "002",
	} {
		if got := scenario.Of(key); got != want {
			t.Errorf("%q asks for %q, want %q", key, got, want)
		}
	}
}

func TestScenarioTravelsWithItsContextAlone(t *testing.T) {
	if got := scenario.In(scenario.With(t.Context(), "002")); got != "002" {
		t.Errorf("the context plays %q", got)
	}
	if got := scenario.In(t.Context()); got != "" {
		t.Errorf("a context without a scenario plays %q", got)
	}
}
