package goclient_test

import (
	"encoding/json"
	"os"
	"sync"
	"testing"
)

// scenarios prove what clients/testing/scenarios.json promises of the clients of every language.
var scenarios = map[string]func(*stage){
	"purchase":      purchase,
	"top-up":        topUp,
	"esim":          esim,
	"esim-late":     esimLate,
	"esim-topup":    esimTopup,
	"pay-order":     payOrder,
	"smart-account": smartAccount,
	"reply-dropped": replyDropped,
	"reply-late":    replyLate,
	"unavailable":   unavailable,
	"killed":        killed,
	"journal-lost":  journalLost,
	"parallel":      parallel,
	"caps":          caps,
	"wrong-terms":   wrongTerms,
	"approval":      approval,
	"poor":          poor,
	"reveal":        reveal,
	"controls":      controls,
	"watch":         watch,
	"sign-in":       signIn,
}

func TestScenarios(t *testing.T) {
	data, err := os.ReadFile("../../../clients/testing/scenarios.json")
	if err != nil {
		t.Fatal(err)
	}
	var promised map[string]string
	if err := json.Unmarshal(data, &promised); err != nil {
		t.Fatal(err)
	}
	for name := range scenarios {
		if promised[name] == "" {
			t.Errorf("scenarios.json does not know %q", name)
		}
	}
	for name := range promised {
		t.Run(name, func(t *testing.T) {
			play, there := scenarios[name]
			if !there {
				t.Fatal("nothing proves it")
			}
			t.Parallel()
			s := newStage(t)
			play(s)
			if !t.Failed() {
				report(t, name, len(s.transfers(s.wallets...))+s.fromAccounts())
			}
		})
	}
}

var reporting sync.Mutex

// report adds a scenario that passed to the file that ROAMCARD_SCENARIOS names.
func report(t *testing.T, name string, transfers int) {
	path := os.Getenv("ROAMCARD_SCENARIOS")
	if path == "" {
		return
	}
	line, err := json.Marshal(map[string]any{"client": "go", "scenario": name, "transfers": transfers})
	if err != nil {
		t.Fatal(err)
	}
	reporting.Lock()
	defer reporting.Unlock()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	// One write: other suites add lines of their own.
	if _, err := f.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
}
