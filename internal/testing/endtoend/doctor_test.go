package endtoend_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/devtools/doctor"
	"github.com/roamcard/roamcard/internal/testing/apptest"
	"github.com/roamcard/roamcard/internal/x402"
)

// TestDoctorFindsEachMisconfiguration examines a service that has all it needs, one with wrong keys and a wrong payee,
// and one with a secret that others may read.
func TestDoctorFindsEachMisconfiguration(t *testing.T) {
	w := newWorld(t, plan{chain: ownChain(t)}) // whose clock nobody moves
	dir := t.TempDir()
	secret := filepath.Join(dir, "quote.key")
	if err := os.WriteFile(secret, []byte(strings.Repeat("5a", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"ADDR":            "127.0.0.1:0",
		"BASE_URL":        "http://127.0.0.1:1",
		"ENVIRONMENT":     "sandbox",
		"DATABASE__URL":   w.databaseURL,
		"CHAIN__RPC_URL":  w.rpcURL,
		"PAYMENT__PAY_TO": w.payTo.String(),
		"RELAYER__KEYS":   w.config.RelayerKeys[0].Reveal(),
		"ISSUER__URL":     w.issuer.url,
		"ISSUER__KEY":     w.config.IssuerKey.Reveal(),
		"SUPPLIER__URL":   w.issuer.url,
		"SUPPLIER__KEY":   w.config.Esim.Key.Reveal(),
		"ESIM__KEYS":      w.config.Esim.Keys.Reveal(),
		"ESIM__TOKEN_KEY": w.config.Esim.TokenKey.Reveal(),
		"QUOTE__KEY_FILE": secret,
	} {
		t.Setenv("ROAMCARD_"+name, value)
	}
	apptest.HideVariables(t)
	w.mine(1) // so that the chain's clock is now
	tried, details, least := map[string]string{}, map[string]string{}, 10
	examine := func(probe bool) (failed []string, err error) {
		var out bytes.Buffer
		err = doctor.Run(t.Context(), doctor.Config{JSON: true, Probe: probe, Spend: "5.00", Out: &out})
		var told struct {
			OK     bool
			Checks []struct{ Name, Status, Detail, Fix string }
		}
		if err := json.Unmarshal(out.Bytes(), &told); err != nil {
			t.Fatalf("%v: %s", err, out.String())
		}
		for _, c := range told.Checks {
			tried[c.Name], details[c.Name] = c.Status, c.Detail
			if c.Status == "fail" {
				failed = append(failed, c.Name)
				t.Logf("%s: %s; fix: %s", c.Name, c.Detail, c.Fix)
			}
			if c.Status == "fail" && c.Fix == "" {
				t.Errorf("%s has no fix", c.Name)
			}
		}
		if told.OK != (err == nil) || len(told.Checks) < least {
			t.Errorf("ok %v, %d checks, %v", told.OK, len(told.Checks), err)
		}
		return failed, err
	}
	if failed, err := examine(true); err != nil {
		t.Errorf("a service that has all it needs fails %v: %v", failed, err)
	}
	for _, step := range []string{
		"opens a card", "loads once when asked twice", "freezes a card", "orders a profile", "adds data to a profile",
		"adds it once when asked twice",
	} {
		if got := tried["sandbox "+step]; got != "ok" {
			t.Errorf("the probe %s: %q", step, got)
		}
	}
	wantSettlerExamined(t, w, func() (detail, status string) {
		if _, err := examine(false); err != nil && !errors.Is(err, app.ErrNotReady) {
			t.Fatal(err)
		}
		return details["settler contract"], tried["settler contract"]
	})
	t.Setenv("ROAMCARD_SUPPLIER__KEY", "another")
	t.Setenv("ROAMCARD_ISSUER__KEY", "another")
	t.Setenv("ROAMCARD_PAYMENT__PAY_TO", usdc().String())
	failed, err := examine(false)
	if got := strings.Join(failed, ", "); !errors.Is(err, app.ErrNotReady) ||
		got != "token, payee, issuer, esim supplier" {
		t.Errorf("found %q, %v", got, err)
	}
	if err := os.Chmod(secret, 0o644); err != nil {
		t.Fatal(err)
	}
	least = 1
	if failed, _ := examine(false); len(failed) != 1 || !strings.Contains(details["configuration"], "chmod 600 "+secret) {
		t.Errorf("found %q: %s", failed, details["configuration"])
	}
}

// wantSettlerExamined changes what the chain has of the contracts that settle batches, and gives it back.
func wantSettlerExamined(t *testing.T, w *world, examine func() (detail, status string)) {
	t.Helper()
	codeAt := func(address x402.Address) (code string) {
		t.Helper()
		w.rpc(&code, "eth_getCode", address.String(), "latest")
		return code
	}
	own, multicall := codeAt(settler.Address), codeAt(settler.MulticallAddress)
	for _, c := range []struct{ name, own, multicall, status, says string }{
		{"the contract", own, multicall, "ok", settler.Address.String() + " has the expected code"},
		{"other code", "0x00", multicall, "fail", "has the hash"},
		{"none", "0x", multicall, "ok", "batches use Multicall3"},
		{"neither", "0x", "0x", "ok", "each payment has a transaction of its own"},
	} {
		w.rpc(nil, "anvil_setCode", settler.Address.String(), c.own)
		w.rpc(nil, "anvil_setCode", settler.MulticallAddress.String(), c.multicall)
		if detail, status := examine(); status != c.status || !strings.Contains(detail, c.says) {
			t.Errorf("%s: %s, %s", c.name, status, detail)
		}
	}
	w.rpc(nil, "anvil_setCode", settler.Address.String(), own)
	w.rpc(nil, "anvil_setCode", settler.MulticallAddress.String(), multicall)
}
