package x402

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// golden is a payment made by the reference client.
type golden struct {
	Domain          goldenDomain `json:"domain"`
	DomainSeparator string       `json:"domainSeparator"`
	BaseSepolia     struct {
		Domain          goldenDomain `json:"domain"`
		DomainSeparator string       `json:"domainSeparator"`
	} `json:"baseSepolia"`
	TypeHash               string `json:"typeHash"`
	StructHash             string `json:"structHash"`
	Digest                 string `json:"digest"`
	Signature              string `json:"signature"`
	Recovered              string `json:"recovered"`
	PaymentSignatureHeader string `json:"paymentSignatureHeader"`
}

type goldenDomain struct {
	Name              string `json:"name"`
	Version           string `json:"version"`
	ChainID           uint64 `json:"chainId"`
	VerifyingContract string `json:"verifyingContract"`
}

func (d goldenDomain) domain(t *testing.T) Domain {
	return Domain{Name: d.Name, Version: d.Version, ChainID: d.ChainID, Contract: address(t, d.VerifyingContract)}
}

func readGolden(t *testing.T) golden {
	t.Helper()
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func hexOf(b []byte) string { return "0x" + hex.EncodeToString(b) }

func address(t *testing.T, s string) Address {
	t.Helper()
	a, err := ParseAddress(s)
	if err != nil {
		t.Fatalf("address %q: %v", s, err)
	}
	return a
}

func TestDomainSeparatorsOfBaseAndBaseSepolia(t *testing.T) {
	g := readGolden(t)
	if got := g.Domain.domain(t).Separator().String(); got != g.DomainSeparator {
		t.Errorf("Base: %s, want %s", got, g.DomainSeparator)
	}
	if got := g.BaseSepolia.Domain.domain(t).Separator().String(); got != g.BaseSepolia.DomainSeparator {
		t.Errorf("Base Sepolia: %s, want %s", got, g.BaseSepolia.DomainSeparator)
	}
}

func TestReferenceClientsPayment(t *testing.T) {
	g := readGolden(t)
	p, err := DecodePayment(g.PaymentSignatureHeader)
	if err != nil {
		t.Fatal(err)
	}
	d := g.Domain.domain(t)
	got := []string{transferTypeHash.String(), StructHash(p.Authorization).String(), d.Digest(p.Authorization).String(),
		p.Signature.Hex(), p.Authorization.From.String(), p.Authorization.Value.String()}
	want := []string{g.TypeHash, g.StructHash, g.Digest, g.Signature, g.Recovered, "990000"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("typed data (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"name": "USD Coin", "version": "2"}, p.Accepted.Extra); diff != "" {
		t.Errorf("extra (-want +got):\n%s", diff)
	}
	if p.Resource.URL != "http://127.0.0.1:4999/x" || p.Accepted.MaxTimeoutSeconds != 120 {
		t.Errorf("echo: %+v, %d s", p.Resource, p.Accepted.MaxTimeoutSeconds)
	}
}

func TestSelectorsAndTopicsOfTheToken(t *testing.T) {
	got := map[string]string{
		"transfer":      hexOf(selectorTransfer[:]),
		"transferBytes": hexOf(selectorTransferBytes[:]),
		"state":         hexOf(selectorState[:]),
		"balance":       hexOf(selectorBalance[:]),
		"separator":     hexOf(selectorSeparator[:]),
		"Transfer":      TopicTransfer.String(),
		"Used":          TopicUsed.String(),
		"Canceled":      TopicCanceled.String(),
	}
	want := map[string]string{
		"transfer":      "0xe3ee160e",
		"transferBytes": "0xcf092995",
		"state":         "0xe94a0102",
		"balance":       "0x70a08231",
		"separator":     "0x3644e515",
		"Transfer":      "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
		"Used":          "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5",
		"Canceled":      "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
