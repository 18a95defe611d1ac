package mcp

import (
	"encoding/json"
	"testing"
)

// TestArgumentsAreIntegersInEverySpelling: what the schema calls an integer is one, exactly.
func TestArgumentsAreIntegersInEverySpelling(t *testing.T) {
	p := parameter{Name: "limit", Schema: map[string]any{"type": "integer"}}
	for value, want := range map[string]string{
		"5": "5", "5.0": "5", "0.5e1": "5", "50e-1": "5", "-0.0": "0", "9007199254740993.0": "9007199254740993",
	} {
		if got, err := p.text(json.RawMessage(value)); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %s", value, got, err, want)
		}
	}
	for _, value := range []string{"5.5", "5e-1", `"5"`, "true", "null", "[5]", "{}", "1e19", "1e999999999"} {
		if got, err := p.text(json.RawMessage(value)); err == nil {
			t.Errorf("%s is taken as %q", value, got)
		}
	}
}
