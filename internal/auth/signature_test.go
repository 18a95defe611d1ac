package auth_test

import (
	"encoding/hex"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/handshake"
)

// badSignatures are the ways to misspell a signature, each made from a good one.
var badSignatures = map[string]func(good string) string{
	"empty":             func(string) string { return "" },
	"only 0x":           func(string) string { return "0x" },
	"no 0x":             func(s string) string { return s[2:] },
	"0X":                func(s string) string { return "0X" + s[2:] },
	"64 bytes":          func(s string) string { return s[:len(s)-2] },
	"66 bytes":          func(s string) string { return s + "00" },
	"odd digits":        func(s string) string { return s[:len(s)-1] },
	"not hex":           func(s string) string { return s[:len(s)-1] + "g" },
	"white space":       func(s string) string { return s + "\n" },
	"high s":            highS,
	"v of 2":            func(s string) string { return s[:len(s)-2] + "02" },
	"v of 29":           func(s string) string { return s[:len(s)-2] + "1d" },
	"v with a chain id": func(s string) string { return s[:len(s)-2] + "25" },
	"r of zero":         func(s string) string { return "0x" + strings.Repeat("00", 32) + s[66:] },
	"s of zero":         func(s string) string { return s[:66] + strings.Repeat("00", 32) + s[130:] },
	"r of the order": func(s string) string {
		return "0x" + hex.EncodeToString(crypto.S256().Params().N.Bytes()) + s[66:]
	},
	"compact, EIP-2098":   func(s string) string { return s[:130] },
	"ERC-6492":            func(s string) string { return s + strings.Repeat("6492", 16) },
	"contract, ERC-1271":  func(s string) string { return "0x" + strings.Repeat("00", 31) + "20" + s[2:] },
	"other v":             flipV,
	"one bit of r":        func(s string) string { return flipDigit(s, 10) },
	"one bit of s":        func(s string) string { return flipDigit(s, 120) },
	"all zero":            func(string) string { return "0x" + strings.Repeat("00", 65) },
	"two signatures":      func(s string) string { return s + s[2:] },
	"all ones, with v 27": func(string) string { return "0x" + strings.Repeat("ff", 64) + "1b" },
}

func TestRecoverAcceptsEverySpellingOfV(t *testing.T) {
	w := authtest.NewWallet(t, "ada")
	digest := handshake.PersonalDigest("hello")
	sig := w.SignDigest(digest)
	low := map[string]string{"1b": "00", "1c": "01"}[sig[len(sig)-2:]]
	for _, s := range []string{sig, sig[:len(sig)-2] + low, "0x" + strings.ToUpper(sig[2:])} {
		if got, err := auth.Recover(digest, s); err != nil || got != w.Address() {
			t.Errorf("Recover(%s) = %s, %v", s, got, err)
		}
	}
}

func TestRecoverNeverFindsTheSignerInAMisspelledSignature(t *testing.T) {
	w := authtest.NewWallet(t, "ada")
	digest := handshake.PersonalDigest("hello")
	sig := w.SignDigest(digest)
	for name, alter := range badSignatures {
		if got, err := auth.Recover(digest, alter(sig)); err == nil && got == w.Address() {
			t.Errorf("%s: recovered the signer", name)
		}
	}
}

func TestPersonalDigestCountsBytes(t *testing.T) {
	for _, text := range []string{"", "hello", "schön 世界", strings.Repeat("x", 1000)} {
		if got := handshake.PersonalDigest(text); [32]byte(accounts.TextHash([]byte(text))) != got {
			t.Errorf("%.20q: digest %x", text, got)
		}
	}
}

// highS is the malleable form of a signature, with n-s and the other v.
func highS(sig string) string {
	s, _ := new(big.Int).SetString(sig[66:130], 16)
	s.Sub(crypto.S256().Params().N, s)
	return flipV(sig[:66] + hex.EncodeToString(s.FillBytes(make([]byte, 32))) + sig[130:])
}

func flipV(sig string) string {
	return sig[:130] + map[string]string{"1b": "1c", "1c": "1b"}[sig[130:]]
}

func flipDigit(sig string, at int) string {
	digit := "0"
	if sig[at] == '0' {
		digit = "1"
	}
	return sig[:at] + digit + sig[at+1:]
}
