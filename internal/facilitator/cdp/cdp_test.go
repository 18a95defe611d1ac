package cdp_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/facilitator"
	"github.com/roamcard/roamcard/internal/facilitator/cdp"
	"github.com/roamcard/roamcard/internal/facilitator/facilitatortest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	settleHost = "api.cdp.coinbase.com"
	settlePath = facilitatortest.CDPPath + "/settle"
	// The two forms of ids.
	shortID = "0b1c2d3e-4f50-4617-8293-a4b5c6d7e8f9"
	longID  = "organizations/" + shortID + "/apiKeys/1a2b3c4d-5e6f-4071-8293-a4b5c6d7e8f9"
)

// seed makes the keys of these tests, and of the tokens in testdata.
var seed = sha256.Sum256([]byte("a throw-away key for tests"))

// testKey is a key as CDP knows it and as an account holder does.
type testKey struct {
	facilitatortest.CDPKey
	secret secret.Text
}

// keys are those of both kinds, the second one in both of its forms.
func keys() map[string]testKey {
	edwards, raw := facilitatortest.NewEd25519(shortID, seed)
	ec, pkcs8, sec1 := facilitatortest.NewES256(longID, seed)
	return map[string]testKey{
		"Ed25519":       {edwards, raw},
		"ES256, PKCS 8": {ec, pkcs8},
		"ES256, SEC 1":  {ec, sec1},
		"ES256, a line": {ec, secret.New(strings.ReplaceAll(pkcs8.Reveal(), "\n", `\n`))},
	}
}

func (k testKey) source(t *testing.T, now func() time.Time) *cdp.Source {
	t.Helper()
	s, err := cdp.New(k.ID, k.secret, now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func tokenFor(t *testing.T, s *cdp.Source, method, host, path string) string {
	t.Helper()
	token, err := s.Token(t.Context(), method, host, path)
	if err != nil {
		t.Fatal(err)
	}
	return token.Reveal()
}

// fake is a facilitator of Coinbase's kind that knows one key, at a time.
func fake(key facilitatortest.CDPKey, now time.Time) *facilitatortest.Server {
	return facilitatortest.New(facilitatortest.Config{Key: key, Now: func() time.Time { return now }})
}

// ask calls a fake at an address, and returns the status.
func ask(f *facilitatortest.Server, method, host, path, token string) int {
	r := httptest.NewRequest(method, "https://"+host+path, nil)
	r.RequestURI = path
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	http.StripPrefix(facilitatortest.CDPPath, f).ServeHTTP(w, r)
	return w.Code
}

func TestTokenIsForOneRequest(t *testing.T) {
	now := time.Unix(1_795_813_756, 5e8)
	const supported = facilitatortest.CDPPath + "/supported"
	for name, key := range keys() {
		s := key.source(t, func() time.Time { return now })
		tests := map[string]struct {
			method, host, path string
			after              time.Duration
			want               int
		}{
			"the request itself": {"GET", settleHost, supported, 0, 200},
			"at its end":         {"GET", settleHost, supported, 119 * time.Second, 200},
			"after its end":      {"GET", settleHost, supported, 120 * time.Second, 401},
			"before its begin":   {"GET", settleHost, supported, -time.Second, 401},
			"another method":     {"POST", settleHost, supported, 0, 401},
			"another host":       {"GET", "api.example.com", supported, 0, 401},
			"another path":       {"GET", settleHost, settlePath, 0, 401},
		}
		for which, tt := range tests {
			f := fake(key.CDPKey, now.Add(tt.after))
			token := tokenFor(t, s, "GET", settleHost, supported)
			if got := ask(f, tt.method, tt.host, tt.path, token); got != tt.want {
				t.Errorf("%s, %s: HTTP %d, %v", name, which, got, f.Denied())
			}
		}
		f := fake(key.CDPKey, now)
		token := tokenFor(t, s, "GET", settleHost, supported)
		first, again := ask(f, "GET", settleHost, supported, token), ask(f, "GET", settleHost, supported, token)
		if first != 200 || again != 401 {
			t.Errorf("%s: HTTP %d, and %d for the same token again", name, first, again)
		}
		if other := tokenFor(t, s, "GET", settleHost, supported); ask(f, "GET", settleHost, supported, other) != 200 {
			t.Errorf("%s: the second token is refused: %v", name, f.Denied())
		}
	}
}

// parts are the header and the claims of a token, as they are written.
func parts(t *testing.T, token string) (header, claims map[string]any) {
	t.Helper()
	for i, to := range []*map[string]any{&header, &claims} {
		raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, to); err != nil {
			t.Fatal(err)
		}
	}
	return header, claims
}

// TestTokensAreThoseOfTheSDK compares ours with tokens that CDP's SDK made of the same keys, and shows that the fake
// takes those.
func TestTokensAreThoseOfTheSDK(t *testing.T) {
	raw, err := os.ReadFile("testdata/tokens.json")
	if err != nil {
		t.Fatal(err)
	}
	var made map[string]string
	if err := json.Unmarshal(raw, &made); err != nil || len(made) != 4 {
		t.Fatalf("%d tokens, %v", len(made), err)
	}
	all := keys()
	for by, theirs := range made {
		key := all["Ed25519"]
		if strings.HasSuffix(by, "ES256") {
			key = all["ES256, PKCS 8"]
		}
		read, err := facilitatortest.ReadCDPToken(theirs)
		if err != nil {
			t.Fatalf("%s: %v", by, err)
		}
		now := time.Unix(read.Claims.NotBefore, 0)
		f := fake(key.CDPKey, now)
		if got := ask(f, "POST", settleHost, settlePath, theirs); got == http.StatusUnauthorized {
			t.Errorf("%s: the fake refuses it: %v", by, f.Denied())
		}
		ours := tokenFor(t, key.source(t, func() time.Time { return now }), "POST", settleHost, settlePath)
		header, claims := parts(t, ours)
		theirHeader, theirClaims := parts(t, theirs)
		if len(header["nonce"].(string)) != 32 {
			t.Errorf("nonce %q", header["nonce"])
		}
		header["nonce"] = theirHeader["nonce"] // random
		if strings.Contains(by, "Python") {    // which has no iat, and an aud of null
			delete(claims, "iat")
			delete(theirClaims, "aud")
		}
		if got, want := fmt.Sprint(header, claims), fmt.Sprint(theirHeader, theirClaims); got != want {
			t.Errorf("%s:\n%s, ours is\n%s", by, want, got)
		}
	}
}

func TestAnotherKeyIsRefused(t *testing.T) {
	now := func() time.Time { return time.Unix(1_795_813_756, 0) }
	all := keys()
	other := sha256.Sum256([]byte("another throw-away key"))
	edwards, raw := facilitatortest.NewEd25519(shortID, other)
	ec, pkcs8, _ := facilitatortest.NewES256(longID, other)
	for name, wrong := range map[string]struct{ used, known testKey }{
		"another Ed25519 key": {testKey{edwards, raw}, all["Ed25519"]},
		"another EC key":      {testKey{ec, pkcs8}, all["ES256, PKCS 8"]},
		"another kind":        {testKey{ec, pkcs8}, all["Ed25519"]},
		"another id": {
			testKey{facilitatortest.CDPKey{ID: longID}, all["Ed25519"].secret}, all["Ed25519"],
		},
	} {
		f := fake(wrong.known.CDPKey, now())
		if got := ask(f, "POST", settleHost, settlePath, tokenFor(t, wrong.used.source(t, now), "POST", settleHost,
			settlePath)); got != 401 {
			t.Errorf("%s: HTTP %d", name, got)
		}
	}
}

// TestSecretThatIsNoneIsRefusedUnquoted has what people paste.
func TestSecretThatIsNoneIsRefusedUnquoted(t *testing.T) {
	raw := keys()["Ed25519"].secret.Reveal()
	pkcs8 := keys()["ES256, PKCS 8"].secret.Reveal()
	encode := func(private any) string {
		t.Helper()
		der, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	larger, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	modulus, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&larger.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	halves, err := base64.StdEncoding.DecodeString(raw)
	if err != nil {
		t.Fatal(err)
	}
	halves[ed25519.PrivateKeySize-1] ^= 1
	const some = 10 // letters are enough to tell a quotation
	for name, text := range map[string]string{
		"empty":                        "",
		"a word":                       "hunter2hunter2",
		"a part":                       raw[:len(raw)-5],
		"the seed alone":               base64.StdEncoding.EncodeToString(halves[:ed25519.SeedSize]),
		"halves of two keys":           base64.StdEncoding.EncodeToString(halves),
		"hex":                          fmt.Sprintf("%x", halves),
		"half of a PEM":                pkcs8[:len(pkcs8)/2],
		"a PEM with a letter too many": strings.Replace(pkcs8, "M", "MM", 1),
		"a curve of 384 bits":          encode(larger),
		"RSA":                          encode(modulus),
		"Ed25519 as PEM":               encode(ed25519.NewKeyFromSeed(seed[:])),
		"a public key":                 string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
	} {
		_, err := cdp.New(shortID, secret.New(text), time.Now)
		if err == nil {
			t.Errorf("%s is taken", name)
			continue
		}
		for line := range strings.SplitSeq(text, "\n") {
			if !strings.HasPrefix(line, "-----") && len(line) >= some && strings.Contains(err.Error(), line[:some]) {
				t.Errorf("%s is quoted: %v", name, err)
			}
		}
	}
	if _, err := cdp.New("", keys()["Ed25519"].secret, time.Now); err == nil {
		t.Error("a key without an id is taken")
	}
}

// TestPaymentSettlesByKey settles by the client of facilitators, and looks for the key and its tokens in what is
// logged, traced and told.
func TestPaymentSettlesByKey(t *testing.T) {
	now := func() time.Time { return time.Unix(1_795_813_756, 0) }
	for name, key := range keys() {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, key, now)
			if err := b.client.Supported(t.Context()); err != nil {
				t.Errorf("supported: %v, %v", err, b.remote.Denied())
			}
			if err := b.client.Submit(t.Context(), b.claim()); err != nil {
				t.Errorf("settle: %v, %v", err, b.remote.Denied())
			}
			if n := b.chain.Calls().Transfers; n != 1 {
				t.Errorf("%d transfers, want 1", n)
			}
			b.wantNoSecrets(nil)
		})
		t.Run(name+", deleted at CDP", func(t *testing.T) {
			b := newBench(t, key, now)
			b.known(facilitatortest.CDPKey{ID: "another"})
			b.wantNoSecrets(b.client.Supported(t.Context()))
			if err := b.client.Submit(t.Context(), b.claim()); err == nil || !strings.Contains(err.Error(), "401") {
				t.Errorf("%v, want HTTP 401", err)
			} else {
				b.wantNoSecrets(err)
			}
		})
	}
}

// bench is a facilitator of Coinbase's kind over a chain in memory, and a client of it.
type bench struct {
	*testing.T
	chain  *paymenttest.Chain
	remote *facilitatortest.Server
	client *facilitator.Facilitator
	key    testKey
	now    func() time.Time
	logs   bytes.Buffer
	spans  *tracetest.SpanRecorder
	// tokens are those that were made.
	tokens []string
}

var terms = payment.Terms{
	Network: x402.NetworkID, Asset: x402.Address{1}, PayTo: x402.Address{2}, MaxTimeout: 2 * time.Minute,
	Domain: x402.Domain{Name: "USD Coin", Version: "2", ChainID: x402.ChainID, Contract: x402.Address{1}},
}

func newBench(t *testing.T, key testKey, now func() time.Time) *bench {
	t.Helper()
	b := &bench{T: t, key: key, now: now, spans: tracetest.NewSpanRecorder()}
	b.chain = paymenttest.NewChain(terms.Domain, now)
	b.known(key.CDPKey)
	server := httptest.NewServer(http.StripPrefix(facilitatortest.CDPPath, http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { b.remote.ServeHTTP(w, r) })))
	t.Cleanup(server.Close)
	source := key.source(t, now)
	var err error
	b.client, err = facilitator.New(facilitator.Config{
		URL: server.URL + facilitatortest.CDPPath, HTTP: server.Client(), Now: now,
		TokenSource: func(ctx context.Context, method, host, path string) (secret.Text, error) {
			token, err := source.Token(ctx, method, host, path)
			b.tokens = append(b.tokens, token.Reveal())
			return token, err
		},
		Requirements: func(p payment.Payment) x402.Requirements { return terms.Requirements(p.Authorization.Value, nil) },
		Log:          slog.New(slog.NewJSONHandler(&b.logs, nil)),
		Tracer:       sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(b.spans)).Tracer("test"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// known makes the facilitator one that knows a key.
func (b *bench) known(key facilitatortest.CDPKey) {
	b.remote = facilitatortest.New(facilitatortest.Config{Chain: b.chain, Settler: b.chain, Key: key, Now: b.now})
}

// claim is a stored payment of a funded payer.
func (b *bench) claim() payment.Payment {
	b.Helper()
	const price = money.USDC(25_000_000)
	key, err := crypto.ToECDSA(crypto.Keccak256([]byte("payer")))
	if err != nil {
		b.Fatal(err)
	}
	a := x402.Authorization{From: x402.Address(crypto.PubkeyToAddress(key.PublicKey)), To: terms.PayTo, Value: price,
		ValidBefore: uint64(b.now().Unix()) + 120, Nonce: x402.Hash{31: 1}}
	s, err := curve.Sign(terms.Domain, a, key)
	if err != nil {
		b.Fatal(err)
	}
	b.chain.Fund(a.From, price)
	return payment.Payment{ID: uuid.New(), Status: payment.Claimed, Network: terms.Network, Asset: terms.Asset,
		Authorization: a, Signature: s, CreatedAt: b.now()}
}

// wantNoSecrets looks for the key and the tokens in the logs, the traces and an error.
func (b *bench) wantNoSecrets(err error) {
	b.Helper()
	if len(b.tokens) == 0 || b.logs.Len() == 0 && len(b.spans.Ended()) == 0 {
		b.Errorf("%d tokens, and nothing is told", len(b.tokens))
	}
	told := b.logs.String() + fmt.Sprint(err)
	for _, s := range b.spans.Ended() {
		told += fmt.Sprint(s.Name(), s.Attributes(), s.Events(), s.Status())
	}
	for line := range strings.SplitSeq(strings.Join(append(slices.Clone(b.tokens), b.key.secret.Reveal()), "\n"), "\n") {
		for part := range strings.SplitSeq(line, ".") {
			if !strings.HasPrefix(part, "-----") && part != "" && strings.Contains(told, part) {
				b.Errorf("%q is told in %s", part, told)
			}
		}
	}
}
