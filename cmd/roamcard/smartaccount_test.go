package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/testing/devserver"
)

// TestSmartAccountOnTheCommandLine buys, repeats, signs in and reveals as the owner of an account with code, and pays
// nothing from one that is not deployed.
func TestSmartAccountOnTheCommandLine(t *testing.T) {
	home(t)
	s, c := devserver.Start(t), customer{t}
	key, owner := s.Wallet(0)
	account := s.SmartAccount(owner, 1_000_000_000).Address()
	t.Setenv("ROAMCARD_URL", s.BaseURL)
	t.Setenv("ROAMCARD_WALLET_KEY", key)
	by := " --account " + account
	c.runs([]command{
		{"wallet address" + by, exitOK, account, ""},
		{"wallet balance --rpc-url " + s.RPCURL + by, exitOK, "1000.000000 USDC", ""},
		{"card buy --key one --yes --max 60 --account ''", exitUsage, "", "--account is given and empty"},
		{"card buy --key one --yes --max 60 --account 0x12", exitUsage, "", "--account"},
		{"card buy --key one --yes --max 60 --owner-index 1", exitUsage, "", "--owner-index needs --account"},
		{"card buy --key one --yes --max 60 --safe", exitUsage, "", "--safe needs --account"},
		{"card buy --key one --yes --max 60 --safe --owner-index 1" + by, exitUsage, "", "--owner-index is of"},
		{"card buy --key other --yes --max 60 --owner-index 1" + by, exitFailure, "", "signature"},
		{"card buy --key one --yes --max 60 --wait" + by, exitOK, "active", "Settled in 0x"},
		{"card buy --key one --yes --max 60 --json" + by, exitOK, `"replayed": true`, ""},
		{"card list --json" + by, exitOK, `"ACTIVE"`, ""},
		{"card list --json", exitOK, "[]", ""},
	})
	c.revealsInABrowser(by)
	if paid := s.Transfers(account); len(paid) != 1 || paid[0] != 25_000_000 {
		t.Errorf("paid %v", paid)
	}
	key, owner = s.Wallet(0)
	t.Setenv("ROAMCARD_WALLET_KEY", key)
	by = " --account " + s.UndeployedAccount(owner, 1_000_000_000).Address()
	c.runs([]command{
		{"card buy --key two --yes --max 60 --max-day 200 --rpc-url " + s.RPCURL + by, exitFailure, "", "is not deployed"},
		{"card buy --key two --yes --max 60 --max-day 200" + by, exitFailure, "", "payment_rejected"},
	})
}

// revealsInABrowser shows the card to the person at a browser that the desktop opens.
func (c customer) revealsInABrowser(by string) {
	c.t.Helper()
	if runtime.GOOS != "linux" {
		return // the desktop's browser is stood in for on Linux only
	}
	bin, window := c.t.TempDir(), filepath.Join(c.t.TempDir(), "window")
	script := "#!/bin/sh\nTEST_COMMAND= TEST_BROWSER='" + window + "' exec '" + os.Args[0] + "' \"$1\"\n"
	if err := os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(script), 0o700); err != nil {
		c.t.Fatal(err)
	}
	c.t.Setenv("DISPLAY", ":0")
	c.t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	c.run(command{"card reveal --present browser" + by, exitOK, "", ""})
	if page, err := os.ReadFile(window); err != nil || !strings.Contains(string(page), "</html>") {
		c.t.Errorf("the browser shows %d bytes, %v", len(page), err)
	}
}
