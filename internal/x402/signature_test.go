package x402

import (
	"bytes"
	"errors"
	"math/big"
	"strings"
	"testing"
)

func TestSignatureForms(t *testing.T) {
	good, err := ParseSignature(readGolden(t).Signature)
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(s *[65]byte)) string {
		s := [65]byte([]byte(good))
		change(&s)
		return Signature(s[:]).Hex()
	}
	order := new(big.Int).SetBytes([]byte(curveOrder))
	highS := func(s *[65]byte) {
		high := new(big.Int).Sub(order, new(big.Int).SetBytes(s[32:64]))
		high.FillBytes(s[32:64])
		s[64] = 27 + 28 - s[64]
	}
	tests := []struct{ name, text, reason string }{
		{"as signed", good.Hex(), ""},
		{"upper case", "0x" + strings.ToUpper(good.Hex()[2:]), ""},
		{"v 0 or 1", with(func(s *[65]byte) { s[64] -= 27 }), ""},
		{"v 29", with(func(s *[65]byte) { s[64] = 29 }), ReasonSignature},
		{"v 2", with(func(s *[65]byte) { s[64] = 2 }), ReasonSignature},
		{"high s", with(highS), ReasonSignature},
		{"r zero", with(func(s *[65]byte) { clear(s[:32]) }), ReasonSignature},
		{"s zero", with(func(s *[65]byte) { clear(s[32:64]) }), ReasonSignature},
		{"r is the order", with(func(s *[65]byte) { order.FillBytes(s[:32]) }), ReasonSignature},
		{"s is the order", with(func(s *[65]byte) { order.FillBytes(s[32:64]) }), ReasonSignature},
		{"EIP-2098", good.Hex()[:2+128], ReasonSignatureForm},
		{"64 bytes and a nibble", good.Hex()[:2+129], "malformed"},
		{"66 bytes", good.Hex() + "00", ReasonSignatureForm},
		{"empty", "0x", ReasonSignatureForm},
		{"no prefix", good.Hex()[2:], "malformed"},
		{"ERC-6492", good.Hex() + strings.Repeat("6492", 16), ReasonFactory},
		{"ERC-1271", "0x" + strings.Repeat("ab", 300), ReasonSignatureForm},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := ParseSignature(tt.text)
			if got := reasonOf(t, err); got != tt.reason {
				t.Errorf("reason %q (%v), want %q", got, err, tt.reason)
			}
			if _, contract := errors.AsType[*PayerKindError](err); contract != (tt.reason == ReasonFactory ||
				tt.reason == ReasonSignatureForm && len(tt.text) > 2+130) {
				t.Errorf("a contract's: %v, %v", contract, err)
			}
			if err == nil && s != good {
				t.Error("not the same signature")
			}
		})
	}
}

func TestSignaturesOfSmartAccounts(t *testing.T) {
	good, err := ParseSignature(readGolden(t).Signature)
	if err != nil {
		t.Fatal(err)
	}
	long := func(n int) string { return "0x" + strings.Repeat("ab", n) }
	for _, tt := range []struct{ name, text, reason string }{
		{"a key's", good.Hex(), ""},
		{"66 bytes", long(66), ""},
		{"one that makes the account", long(300) + strings.Repeat("6492", 16), ""},
		{"the longest", long(MaxContractSignature), ""},
		{"longer", long(MaxContractSignature + 1), ReasonSignatureForm},
		{"one owner's of a Safe, by personal_sign", good.Hex()[:2+128] + "1f", ""},
		{"a key's with v of 29", good.Hex()[:2+128] + "1d", ReasonSignature},
		{"64 bytes", long(64), ReasonSignatureForm},
		{"empty", "0x", ReasonSignatureForm},
		{"no hex", long(66) + "z", "malformed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := ParseAnySignature(tt.text)
			if got := reasonOf(t, err); got != tt.reason {
				t.Errorf("reason %q (%v), want %q", got, err, tt.reason)
			}
			if err == nil && (s.Hex() != tt.text || s.IsOfKey() != (tt.text == good.Hex())) {
				t.Errorf("read as %s, a key's: %t", s.Hex(), s.IsOfKey())
			}
			if _, contract := errors.AsType[*PayerKindError](err); contract {
				t.Error("refused for its payer's kind, which its form does not tell")
			}
		})
	}
}

// TestSignatureOfAKeysSize: one owner's of a Safe is as long as a key's. It is told from one, reaches the token as it
// was sent, and is read of the call again.
func TestSignatureOfAKeysSize(t *testing.T) {
	keys, err := ParseSignature(readGolden(t).Signature)
	if err != nil {
		t.Fatal(err)
	}
	s := keys.OfAccount()
	if s == keys || s.IsOfKey() || !s.IsOfAccount() || !s.IsKeySized() || s.Hex() != keys.Hex() || s.OfAccount() != s {
		t.Errorf("%s, of a key %t, of an account %t", s.Hex(), s.IsOfKey(), s.IsOfAccount())
	}
	if long := AccountSignature(strings.Repeat("a", 130)); long.IsKeySized() || long.OfAccount() != long {
		t.Error("a longer one is taken for one of a key's size")
	}
	a := Authorization{From: Address{1}, To: Address{2}, Value: 3, ValidBefore: 4, Nonce: Hash{5}}
	call := TransferCall(a, s)
	if want := TransferBytesCall(a, []byte(keys)); !bytes.Equal(call, want) {
		t.Errorf("the call is %x, want %x", call, want)
	}
	for _, want := range []Signature{s, keys} {
		if of, read, ok := TransferOf(TransferCall(a, want)); !ok || of != a || read != want {
			t.Errorf("read of the call: %t, %s", ok, read.Hex())
		}
	}
}
