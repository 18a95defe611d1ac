package auth

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/handshake"
	"github.com/roamcard/roamcard/internal/x402"
)

// signed is a digest and signature made by viem.
type signed struct{ Text, Digest, Signature string }

// viemVectors are messages that viem wrote, hashed and signed, from createSiweMessage, signMessage
// and signTypedData with the documents of TestTypedDataAgreesWithViem.
type viemVectors struct {
	Signer string
	Texts  map[string]signed
	Typed  map[string]signed
}

func readViem(t testing.TB) (viemVectors, x402.Address) {
	t.Helper()
	body, err := os.ReadFile("testdata/viem.json")
	if err != nil {
		t.Fatal(err)
	}
	var v viemVectors
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	signer, err := x402.ParseAddress(v.Signer)
	if err != nil || len(v.Texts) == 0 || len(v.Typed) == 0 {
		t.Fatalf("vectors of %q: %v", v.Signer, err)
	}
	return v, signer
}

func (s signed) check(t *testing.T, digest [32]byte, signer x402.Address) {
	t.Helper()
	if got := "0x" + hex.EncodeToString(digest[:]); got != s.Digest {
		t.Fatalf("digest = %s, viem says %s", got, s.Digest)
	}
	if got, err := Recover(digest, s.Signature); err != nil || got != signer {
		t.Fatalf("Recover = %s, %v; want %s", got, err, signer)
	}
}

func TestSignaturesOfViemAreVerified(t *testing.T) {
	v, signer := readViem(t)
	for name, s := range v.Texts {
		t.Run(name, func(t *testing.T) {
			m, err := handshake.ParseMessage(s.Text)
			if err != nil {
				t.Fatal(err)
			}
			if m.Address != signer || m.ChainID != 8453 || m.Domain != "cards.example:8402" {
				t.Errorf("parsed %+v", m)
			}
			s.check(t, handshake.PersonalDigest(s.Text), signer)
		})
	}
}

func TestTypedDataAgreesWithViem(t *testing.T) {
	v, signer := readViem(t)
	issued := time.Date(2026, 3, 1, 12, 0, 0, 123e6, time.UTC)
	signIn := Challenge{
		ID: uuid.MustParse("f81d4fae-7dec-41d0-a765-00a0c91e6bf6"), Purpose: PurposeSignIn, Wallet: signer, Scheme: EIP712,
		Nonce: "NUMPHFQWVF2CZZZZ3K5Q7YV3XM", IssuedAt: issued, ExpiresAt: issued.Add(5 * time.Minute),
	}
	reveal := signIn
	reveal.Purpose = PurposeReveal
	reveal.CardID = uuid.MustParse("0b0c6f0e-5d7c-4b8a-9a55-1c3f0d4f5a11")
	reveal.SessionID = uuid.MustParse("6a1f6c1e-90b3-4a5b-8a43-55b1de1b2c22")
	reveal.RecipientKey = append(append([]byte{9}, make([]byte, 30)...), 0x3f)

	here := site{"cards.example:8402", "https://cards.example:8402", 8453, false}
	v.Typed["signIn"].check(t, here.typed(signIn).digest(), signer)
	v.Typed["reveal"].check(t, here.typed(reveal).digest(), signer)
}
