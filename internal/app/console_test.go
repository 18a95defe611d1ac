package app

import (
	"slices"
	"testing"
)

func TestHostsOfTheConsoleAreNamesWithoutPorts(t *testing.T) {
	got, err := hosts("console.example.com, Ops.internal,[fd00::1]")
	if err != nil || !slices.Equal(got, []string{"console.example.com", "Ops.internal", "[fd00::1]"}) {
		t.Errorf("%q, %v", got, err)
	}
	for _, wrong := range []string{
		"", "a.example,", "a.example:443", "https://a.example", "a.example/console", "ada@a.example", "a b",
	} {
		if got, err := hosts(wrong); err == nil {
			t.Errorf("%q gives %q", wrong, got)
		}
	}
}
