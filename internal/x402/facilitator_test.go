package x402

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func facilitated() Payment {
	p := Payment{
		Accepted: Requirements{Scheme: Scheme, Network: NetworkID, Amount: "25000000", Asset: Address{1}.String(),
			PayTo:             Address{2}.String(),
			MaxTimeoutSeconds: 120, Extra: map[string]any{"version": "2", "name": "USD Coin"}},
		Authorization: Authorization{From: Address{3}, To: Address{2}, Value: 25_000_000, ValidBefore: 1_790_000_120,
			Nonce: Hash{4}},
	}
	rs := make([]byte, 64)
	rs[31], rs[63] = 1, 1
	p.Signature = KeySignature(rs, 0)
	return p
}

func TestFacilitatorRequestIsReadAsItWasWritten(t *testing.T) {
	body, err := EncodeFacilitatorRequest(facilitated())
	if err != nil {
		t.Fatal(err)
	}
	again, err := EncodeFacilitatorRequest(facilitated())
	if err != nil || !bytes.Equal(body, again) {
		t.Errorf("equal payments have different bodies (%v):\n%s\n%s", err, body, again)
	}
	p, r, err := DecodeFacilitatorRequest(body)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	if diff := cmp.Diff(facilitated(), p); diff != "" {
		t.Errorf("payment (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(facilitated().Accepted, r); diff != "" {
		t.Errorf("requirements (-want +got):\n%s", diff)
	}
	// Readers refuse a resource without URL; a payment that has none does not name one.
	if strings.Contains(string(body), `"resource"`) {
		t.Errorf("an empty resource is written: %s", body)
	}
}

func TestDamagedFacilitatorRequestIsMalformed(t *testing.T) {
	for _, body := range []string{"", "[]", "{}", `{"paymentPayload":"text"}`, `{"paymentPayload":{"x402Version":2}}`} {
		if _, _, err := DecodeFacilitatorRequest([]byte(body)); err == nil {
			t.Errorf("%q is taken", body)
		}
	}
}
