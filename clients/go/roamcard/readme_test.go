package roamcard_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheREADMEsProgramsRun runs what a reader copies, and checks that the README shows nothing else.
func TestTheREADMEsProgramsRun(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	printed := map[string]string{"buycard": "is ACTIVE.", "tour": "The tour is over."}
	var sources string
	for name, last := range printed {
		source, err := os.ReadFile("../examples/" + name + "/main.go")
		if err != nil {
			t.Fatal(err)
		}
		sources += string(source)
		// With the address of this run's service in place of the one that people use.
		w, home := s.wallet(), t.TempDir()
		edited, binary := filepath.Join(home, "main.go"), filepath.Join(home, name)
		if err := os.WriteFile(edited, []byte(strings.ReplaceAll(string(source), "http://127.0.0.1:8402", s.BaseURL)), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("go", "build", "-o", binary, edited).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		cmd := exec.Command(binary)
		cmd.Dir, cmd.Env = home, append(os.Environ(), "WALLET_KEY="+w.key)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), last) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(snippets) < 8 {
		t.Errorf("%d snippets", len(snippets))
	}
	for _, snippet := range snippets {
		if !strings.Contains(sources, snippet[1]) {
			t.Errorf("no example has what the README shows:\n%s", snippet[1])
		}
	}
}
