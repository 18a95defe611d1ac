package roamcard_test

import (
	"os"
	"regexp"
	"testing"
)

// Who uses a checkout replaces the client and all modules that its own go.mod replaces: those lines count here only.
func TestREADMEReplacesWhatACheckoutNeeds(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	own := [][]byte{[]byte("github.com/roamcard/roamcard/clients/go")}
	for _, line := range regexp.MustCompile(`(?m)^\t(\S+) => `).FindAllSubmatch(mod, -1) {
		own = append(own, line[1])
	}
	line := regexp.MustCompile(`-replace=(github\.com/roamcard/roamcard/(\S+))=\./roamcard/(\S+)`)
	said := line.FindAllSubmatch(readme, -1)
	if len(own) < 2 || len(said) != len(own) {
		t.Fatalf("the README replaces %d of %d modules", len(said), len(own))
	}
	for i, module := range own {
		if string(said[i][1]) != string(module) || string(said[i][2]) != string(said[i][3]) {
			t.Errorf("the README says %s, want %s", said[i][0], module)
		}
	}
}
