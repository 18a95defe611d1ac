package goclient_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The test runs the programs that a reader copies, and checks that the README shows no other.
func TestREADMEsProgramsRun(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	printed := map[string]string{"buycard": "is ACTIVE.", "tour": "The tour is over."}
	var sources string
	for name, last := range printed {
		source, err := os.ReadFile("../../../clients/go/examples/" + name + "/main.go")
		if err != nil {
			t.Fatal(err)
		}
		sources += string(source)
		if out := s.runs(t, string(source)); !strings.Contains(out, last) ||
			strings.Contains(out, "paid and owns") != (name == "tour") {
			t.Errorf("%s: %s", name, out)
		}
	}
	readme, err := os.ReadFile("../../../clients/go/README.md")
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

// The test runs what the page about buying shows of this package. It leaves error checks to the reader; here the last
// error is checked, and an earlier one leaves nil.
func TestProgramOfThePageAboutBuyingRuns(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	page, err := os.ReadFile("../../../docs/buying.md")
	if err != nil {
		t.Fatal(err)
	}
	snippet := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(string(page))
	if snippet == nil {
		t.Fatal("it shows nothing")
	}
	program := `package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

func main() {
	ctx := context.Background()
` + snippet[1] + `
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("card", card)
}
`
	if out := s.runs(t, program); !strings.HasPrefix(out, "card ") {
		t.Error(out)
	}
}

// runs builds and runs a program with a wallet and a folder of its own, against this run's service in place of the one
// that people use, and gives what it prints.
func (s *stage) runs(t *testing.T, program string) string {
	t.Helper()
	w, home := s.wallet(), t.TempDir()
	source, binary := filepath.Join(home, "main.go"), filepath.Join(home, "program")
	if err := os.WriteFile(source, []byte(strings.ReplaceAll(program, "http://127.0.0.1:8402", s.BaseURL)),
		0o600); err != nil {
		t.Fatal(err)
	}
	goIn(t, "../../../clients/go", "build", "-ldflags=-s -w", "-o", binary, source)
	cmd := exec.Command(binary)
	cmd.Dir, cmd.Env = home, append(os.Environ(), "WALLET_KEY="+w.key,
		"ACCOUNT="+s.SmartAccount(w, 1_000_000_000).Address())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return string(out)
}
