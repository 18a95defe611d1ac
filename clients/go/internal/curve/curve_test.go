package curve_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/roamcard/roamcard/clients/go/internal/curve"
	"github.com/roamcard/roamcard/internal/x402"
)

// reference is a payment that the reference client made.
func reference(t *testing.T) (p x402.Payment, digest x402.Hash) {
	t.Helper()
	data, err := os.ReadFile("../../../../internal/x402/testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct{ PaymentSignatureHeader, Digest string }
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	if p, err = x402.DecodePayment(golden.PaymentSignatureHeader); err != nil {
		t.Fatal(err)
	}
	if digest, err = x402.ParseHash(golden.Digest); err != nil {
		t.Fatal(err)
	}
	return p, digest
}

func TestRecoversWhoSigned(t *testing.T) {
	p, digest := reference(t)
	if signer, err := curve.Recover(digest, p.Signature); err != nil || signer != p.Authorization.From {
		t.Errorf("signed by %s, %v; want %s", signer, err, p.Authorization.From)
	}
	for i := range p.Signature {
		other := []byte(p.Signature)
		other[i] ^= 1
		if signer, err := curve.Recover(digest, x402.Signature(other)); err == nil && signer == p.Authorization.From {
			t.Errorf("with byte %d changed it is still signed by %s", i, signer)
		}
	}
}

func TestSignatureIsTheKeys(t *testing.T) {
	key, err := curve.ParseKey("4646464646464646464646464646464646464646464646464646464646464646")
	if err != nil {
		t.Fatal(err)
	}
	const account = "0x9d8A62f656a8d1615C1294fd71e9CFb3E4855A4F" // of EIP-155's example
	if got := key.Address().String(); got != account {
		t.Errorf("the account is %s, want %s", got, account)
	}
	for i := range 100 {
		digest := x402.Keccak256([]byte{byte(i)})
		s := key.Sign(digest)
		if signer, err := curve.Recover(digest, s); err != nil || signer != key.Address() {
			t.Errorf("%s: signed by %s, %v", hex.EncodeToString(digest[:]), signer, err)
		}
	}
}
