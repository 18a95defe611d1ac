package roamcard_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// environ sets what a test names, and nothing else of this package's.
func environ(t *testing.T, values map[string]string) {
	t.Helper()
	for _, name := range []string{
		"URL", "SIGNER", "SIGNER_ADDRESS", "WALLET_KEY", "WALLET_KEY_FILE", "MODE", "MAX_PER_PAYMENT_USD", "MAX_PER_DAY_USD",
		"APPROVE_ABOVE_USD", "JOURNAL", "RPC_URL", "OPERATOR_TOKEN", "OPERATOR_TOKEN_FILE",
	} {
		t.Setenv("ROAMCARD_"+name, values[name])
	}
}

func TestEnvironmentMakesAClientThatPays(t *testing.T) {
	journal, keyFile := t.TempDir(), filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t)
	environ(t, map[string]string{
		"URL": " " + s.URL + " ", "WALLET_KEY_FILE": keyFile, "MODE": "policy_gated", "MAX_PER_PAYMENT_USD": "25",
		"MAX_PER_DAY_USD":   "30.50",
		"APPROVE_ABOVE_USD": "24.99", "JOURNAL": journal,
	})
	asked := 0
	approve := func(context.Context, roamcard.Quote) (bool, error) { asked++; return true, nil }
	c, err := roamcard.FromEnv(roamcard.Config{Policy: roamcard.Policy{Approve: approve, PayTo: payTo}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Cards.TopUp(t.Context(), 2500, "k1"); err != nil || asked != 1 || len(s.sent()) != 1 {
		t.Errorf("%v; asked %d times, sent %d", err, asked, len(s.sent()))
	}
	if budget, err := c.Budget(t.Context()); err != nil || budget.Spent != 2500 || budget.Cap != 3050 {
		t.Errorf("%+v, %v", budget, err)
	}
	if _, err := os.Stat(filepath.Join(journal, "journal.json")); err != nil {
		t.Error(err)
	}
	if _, err := c.Cards.TopUp(t.Context(), 2500, "k2"); !errors.Is(err, roamcard.ErrPolicyDenied) {
		t.Errorf("above the cap of the day: %v", err)
	}
}

func TestEnvironmentGoesAfterTheCode(t *testing.T) {
	environ(t, map[string]string{"URL": "https://other.example", "MODE": "autonomous", "JOURNAL": t.TempDir(),
		"WALLET_KEY": key, "MAX_PER_PAYMENT_USD": "1", "MAX_PER_DAY_USD": "90"})
	s := open(t)
	signer, err := roamcard.NewKeySigner("0x" + strings.Repeat("47", 32))
	if err != nil {
		t.Fatal(err)
	}
	c, err := roamcard.FromEnv(roamcard.Config{
		BaseURL: s.URL, Signer: signer, Store: roamcard.NewMemoryStore(),
		Policy: roamcard.Policy{PayTo: payTo, MaxPerPayment: 2500},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Cards.TopUp(t.Context(), 2500, "k1"); err != nil || len(s.sent()) != 1 {
		t.Errorf("%v; sent %d", err, len(s.sent()))
	}
}

func TestEnvironmentWithoutAWalletReads(t *testing.T) {
	environ(t, map[string]string{"URL": "https://api.example.com", "JOURNAL": "/dev/null/none"})
	c, err := roamcard.FromEnv(roamcard.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Cards.Purchase(t.Context(), roamcard.NewKey()); !errors.Is(err, roamcard.ErrNoSigner) {
		t.Error(err)
	}
}

func TestEnvironmentTellsAllMistakesAtOnce(t *testing.T) {
	const secret = "not-a-key-but-secret"
	environ(t, map[string]string{
		"WALLET_KEY": secret, "MODE": "yolo", "MAX_PER_PAYMENT_USD": "0", "MAX_PER_DAY_USD": "1.234",
		"APPROVE_ABOVE_USD": "-1",
		"OPERATOR_TOKEN":    secret, "OPERATOR_TOKEN_FILE": "/nowhere",
	})
	_, err := roamcard.FromEnv(roamcard.Config{})
	if err == nil {
		t.Fatal("it was taken")
	}
	for _, name := range []string{"URL", "WALLET_KEY", "MODE", "MAX_PER_PAYMENT_USD", "MAX_PER_DAY_USD",
		"APPROVE_ABOVE_USD", "OPERATOR_TOKEN"} {
		if !strings.Contains(err.Error(), "ROAMCARD_"+name) {
			t.Errorf("%s is not named in %v", name, err)
		}
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("a secret is told: %v", err)
	}
	for _, values := range []map[string]string{
		{"SIGNER": "sign"}, {"SIGNER_ADDRESS": payTo}, {"SIGNER": "sign", "SIGNER_ADDRESS": "0x1"},
		{"WALLET_KEY": key, "WALLET_KEY_FILE": "/nowhere"},
		{"WALLET_KEY_FILE": "/nowhere"}, {"WALLET_KEY": key, "JOURNAL": "/dev/null/none"},
	} {
		values["URL"] = "https://api.example.com"
		environ(t, values)
		if _, err := roamcard.FromEnv(roamcard.Config{}); err == nil {
			t.Errorf("%v was taken", values)
		}
	}
}
