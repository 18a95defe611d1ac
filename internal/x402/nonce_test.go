package x402_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/roamcard/roamcard/internal/x402"
)

// TestDerivedNonceIsThatOfEveryClient: the service recognises what a client of any language derived.
func TestDerivedNonceIsThatOfEveryClient(t *testing.T) {
	text, err := os.ReadFile("../../clients/testing/nonces.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Origin, Path, Payer, Key, Nonce string
		Attempt                         int
	}
	if err := json.Unmarshal(text, &vectors); err != nil || len(vectors) == 0 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	for _, v := range vectors {
		payer, err := x402.ParseAddress(v.Payer)
		if err != nil {
			t.Fatal(err)
		}
		if got := x402.DerivedNonce(v.Origin, v.Path, payer, v.Key, v.Attempt).String(); got != v.Nonce {
			t.Errorf("%s %s, attempt %d: %s, want %s", v.Path, v.Key, v.Attempt, got, v.Nonce)
		}
	}
}
