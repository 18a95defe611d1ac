package receipt_test

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/receipt"
)

const origin = "https://cards.example:8443"

// seed is the private key of RFC 8037, appendix A.
func seed(t testing.TB) []byte {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A")
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func signer(t testing.TB, seeds ...[]byte) *receipt.Signer {
	t.Helper()
	s, err := receipt.New(origin, seeds...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func document(t testing.TB, s *receipt.Signer) []byte {
	t.Helper()
	d, err := s.Document()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func claims() receipt.Claims {
	return receipt.Claims{
		Amount: "25000000", Asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", IssuedAt: 1763640000,
		Network: "eip155:8453", OrderID: "ord_1", Outcome: receipt.Delivered,
		Payer: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", Product: "card_issue",
		ResourceURL: origin + "/api/card/purchase?a=1&b=<2>", Transaction: "0xabc", Version: 1,
	}
}

func sign(t testing.TB, s *receipt.Signer, c receipt.Claims) string {
	t.Helper()
	jws, err := s.Receipt(c)
	if err != nil {
		t.Fatal(err)
	}
	return jws
}

func TestReceiptVerifiesAsSigned(t *testing.T) {
	s := signer(t, seed(t))
	got, err := receipt.Verify(sign(t, s, claims()), document(t, s))
	want := receipt.Proof{Claims: claims(), Signer: "did:web:cards.example%3A8443",
		KeyID: "did:web:cards.example%3A8443#kPrK_qmxVWaYVA9w"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// The header, the canonical payload and the signature are what other implementations compute: the key id begins the
// thumbprint of RFC 8037, appendix A.3, of the same key.
func TestReceiptIsCanonical(t *testing.T) {
	parts := strings.Split(sign(t, signer(t, seed(t)), claims()), ".")
	head, payload := part(t, parts[0]), part(t, parts[1])
	if want := `{"alg":"EdDSA","kid":"did:web:cards.example%3A8443#kPrK_qmxVWaYVA9w"}`; head != want {
		t.Errorf("header %s", head)
	}
	if want := `{"amount":"25000000","asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913","issuedAt":1763640000,` +
		`"network":"eip155:8453","orderId":"ord_1","outcome":"delivered",` +
		`"payer":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8","product":"card_issue",` +
		`"resourceUrl":"https://cards.example:8443/api/card/purchase?a=1&b=<2>","transaction":"0xabc",` +
		`"version":1}`; payload != want {
		t.Errorf("payload %s", payload)
	}
}

func TestMembersAreDeclaredInCanonicalOrder(t *testing.T) {
	s := signer(t, seed(t))
	refunded := claims()
	refunded.Outcome, refunded.RefundTransaction = receipt.Refunded, "0xdef"
	offer, err := s.Offer(receipt.Offer{Amount: "1", ValidUntil: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, jws := range []string{offer, sign(t, s, refunded)} {
		text := part(t, strings.Split(jws, ".")[1])
		var names []string
		d := json.NewDecoder(strings.NewReader(text))
		_, _ = d.Token() // the brace
		for d.More() {
			name, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name.(string))
			_, _ = d.Token() // its value
		}
		if !slices.IsSorted(names) || len(names) < 8 {
			t.Errorf("%v", names)
		}
	}
}

func TestReceiptOfARetiredKeyVerifies(t *testing.T) {
	old, next := seed(t), slices.Repeat([]byte{7}, ed25519.SeedSize)
	jws := sign(t, signer(t, old), claims())
	rotated := signer(t, next, old)
	if _, err := receipt.Verify(jws, document(t, rotated)); err != nil {
		t.Error(err)
	}
	if got, err := receipt.Verify(sign(t, rotated, claims()), document(t, signer(t, next))); err != nil {
		t.Errorf("%v, %v", got, err)
	}
	_, err := receipt.Verify(jws, document(t, signer(t, next)))
	if err == nil || !strings.Contains(err.Error(), "has no key") {
		t.Errorf("without the retired key: %v", err)
	}
}

// forged is a JWS that a key signed, whatever is in it.
func forged(key ed25519.PrivateKey, head, payload string) string {
	signed := encode(head) + "." + encode(payload)
	return signed + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(signed)))
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func part(t *testing.T, text string) string {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestForgedReceiptIsRefused(t *testing.T) {
	own := ed25519.NewKeyFromSeed(seed(t))
	s := signer(t, seed(t))
	parts := strings.Split(sign(t, s, claims()), ".")
	head, payload := part(t, parts[0]), part(t, parts[1])
	thief := ed25519.NewKeyFromSeed(slices.Repeat([]byte{9}, ed25519.SeedSize))
	swap := func(text, old, with string) string {
		if !strings.Contains(text, old) {
			t.Fatalf("%s has no %s", text, old)
		}
		return strings.Replace(text, old, with, 1)
	}
	mac := hmac.New(sha256.New, own.Public().(ed25519.PublicKey))
	hs := encode(swap(head, "EdDSA", "HS256")) + "." + parts[1]
	mac.Write([]byte(hs))
	tests := map[string]struct{ jws, want string }{
		"of another key":    {forged(thief, head, payload), "not by the key"},
		"of an unknown key": {forged(thief, swap(head, "#kPrK", "#kPrL"), payload), "has no key"},
		"of another service": {
			forged(thief, swap(head, "cards.example", "thief.example"), payload), "has no key",
		},
		"changed payload": {
			parts[0] + "." + encode(swap(payload, "ord_1", "ord_2")) + "." + parts[2], "not by the key",
		},
		"alg none": {encode(swap(head, "EdDSA", "none")) + "." + parts[1] + ".", `signed by "none"`},
		"the public key as a secret": {
			hs + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), `signed by "HS256"`,
		},
		"no signature":        {parts[0] + "." + parts[1] + ".", "not by the key"},
		"no kid":              {forged(own, `{"alg":"EdDSA"}`, payload), "not canonical"},
		"a critical header":   {forged(own, swap(head, "{", `{"crit":["b64"],`), payload), "unknown field"},
		"a key in the header": {forged(thief, swap(head, "{", `{"jwk":{"kty":"OKP"},`), payload), "unknown field"},
		"an algorithm twice": {
			forged(own, swap(head, "{", `{"alg":"none",`), payload), "not canonical",
		},
		"a member twice":    {forged(own, head, swap(payload, "{", `{"amount":"1",`)), "not canonical"},
		"in another case":   {forged(own, head, swap(payload, `"payer"`, `"Payer"`)), "not canonical"},
		"an unknown member": {forged(own, head, swap(payload, "{", `{"aaa":1,`)), "unknown field"},
		"in another order":  {forged(own, head, swap(payload, `"version":1`, `"version": 1`)), "not canonical"},
		"two values":        {forged(own, head, payload+"{}"), "not canonical"},
		"another version":   {forged(own, head, swap(payload, `"version":1`, `"version":2`)), "of version 2"},
		"another outcome":   {forged(own, head, swap(payload, "delivered", "lost")), "unknown"},
		"a refund without its transaction": {
			forged(own, head, swap(payload, "delivered", "refunded")), "against its outcome",
		},
		"for another's resource": {
			forged(own, head, swap(payload, "cards.example:8443", "cards.example:8444")), "may not sign for",
		},
		"for no URL": {forged(own, head, swap(payload, "https://cards", "cards")), "may not sign for"},
		"an offer":   {offerOf(t, s), "not one of version 1"},
		"padded":     {parts[0] + "." + parts[1] + "." + parts[2] + "==", "not by the key"},
		"four parts": {strings.Join(parts, ".") + ".", "three parts"},
		"nothing":    {"", "three parts"},
		"long":       {strings.Repeat("a", 20000) + "..", "three parts"},
		"no base64":  {"?." + parts[1] + "." + parts[2], "not base64url"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := receipt.Verify(tt.jws, document(t, s))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func offerOf(t *testing.T, s *receipt.Signer) string {
	t.Helper()
	jws, err := s.Offer(receipt.Offer{Amount: "1"})
	if err != nil {
		t.Fatal(err)
	}
	return jws
}

func TestDocumentDecidesWhichKeysSign(t *testing.T) {
	s := signer(t, seed(t))
	jws := sign(t, s, claims())
	text := string(document(t, s))
	tests := map[string]struct{ old, with, want string }{
		"asserts nothing":   {`"assertionMethod": [`, `"authentication": [`, "may not sign"},
		"of another":        {`"controller": "did:web:cards`, `"controller": "did:web:other`, "may not sign"},
		"another curve":     {`"crv": "Ed25519"`, `"crv": "X25519"`, "not a key of Ed25519"},
		"a short key":       {`"x": "11qY`, `"x": "`, "not a key of Ed25519"},
		"another's subject": {`"id": "did:web:cards.example%3A8443",`, `"id": "did:web:other.example",`, "may not sign"},
		"no document":       {text, `[]`, "not a DID document"},
		"no subject":        {text, `{}`, "not a DID document"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(text, tt.old) {
				t.Fatalf("no %s in %s", tt.old, text)
			}
			_, err := receipt.Verify(jws, []byte(strings.Replace(text, tt.old, tt.with, 1)))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v; want %q", err, tt.want)
			}
		})
	}
}

func TestSignerNeedsAnOriginAndKeys(t *testing.T) {
	if _, err := receipt.New(origin); err == nil {
		t.Error("no key is enough")
	}
	if _, err := receipt.New(origin, []byte("short")); err == nil {
		t.Error("a short key is enough")
	}
	dids := map[string]string{}
	for _, origin := range []string{
		"https://Cards.example", "http://127.0.0.1:8402", "https://cards.example/", "https://cards.example/shop", "",
		"https://me@cards.example",
	} {
		did, err := receipt.DID(origin)
		if err != nil {
			did = "none"
		}
		dids[origin] = did
	}
	want := map[string]string{
		"https://Cards.example": "did:web:cards.example", "http://127.0.0.1:8402": "did:web:127.0.0.1%3A8402",
		"https://cards.example/": "did:web:cards.example", "https://cards.example/shop": "none", "": "none",
		"https://me@cards.example": "none",
	}
	if !maps.Equal(dids, want) {
		t.Error(cmp.Diff(want, dids))
	}
}

func FuzzVerify(f *testing.F) {
	s := signer(f, seed(f))
	did, valid := document(f, s), sign(f, s, claims())
	f.Add(valid)
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, jws string) {
		if got, err := receipt.Verify(jws, did); err == nil && jws != valid {
			t.Errorf("%+v of %q", got, jws)
		}
	})
}
