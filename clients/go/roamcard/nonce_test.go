package roamcard_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/x402"
)

// vector is one of clients/testing/nonces.json, which the clients of every language stand.
type vector struct {
	Origin, Path, Payer, Key, Nonce string
	// Also are other paths of the same purchase.
	Also    []string
	Attempt int
}

// at serves requests to any origin by a handler.
type at struct{ handler http.Handler }

func (a at) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, req)
	return w.Result(), nil
}

func TestTheNoncesAreThoseOfEveryLanguage(t *testing.T) {
	data, err := os.ReadFile("../../testing/nonces.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(data, &vectors); err != nil || len(vectors) == 0 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	for _, v := range vectors {
		for _, path := range append(v.Also, v.Path) {
			if got := payNonce(t, v, path); got != v.Nonce {
				t.Errorf("%s %s, attempt %d: %s, want %s", path, v.Key, v.Attempt, got, v.Nonce)
			}
		}
	}
}

// payNonce is what a payment at the path carries after so many were proven dead.
func payNonce(t *testing.T, v vector, path string) string {
	t.Helper()
	s := &shop{Server: &httptest.Server{URL: v.Origin}, t: t, amount: "25000000", payTo: payTo}
	for range v.Attempt {
		s.answers = append(s.answers, dead)
	}
	p, _ := payer(t, roamcard.NewMemoryJournal())
	p.Next, p.Signer = at{s}, signerOf(t, v.Payer)
	body, err := json.Marshal(map[string]string{"idempotencyKey": v.Key})
	if err != nil {
		t.Fatal(err)
	}
	for range v.Attempt + 1 {
		res, err := (&http.Client{Transport: p}).Post(v.Origin+path, "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	sent := s.sent()
	payment, err := x402.DecodePayment(sent[len(sent)-1])
	if err != nil {
		t.Fatal(err)
	}
	return payment.Authorization.Nonce.String()
}

// signerOf is one of the two wallets that the vectors name: the one of these tests, and a well-known one of
// development chains.
func signerOf(t *testing.T, address string) roamcard.Signer {
	t.Helper()
	for _, k := range []string{key, "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"} {
		s, err := roamcard.NewKeySigner(k)
		if err != nil {
			t.Fatal(err)
		}
		if strings.EqualFold(s.Address(), address) {
			return addressed{s, address}
		}
	}
	t.Fatalf("no wallet is %s", address)
	return nil
}

// addressed spells its address in another way.
type addressed struct {
	roamcard.Signer
	address string
}

func (a addressed) Address() string { return a.address }

func (s stage) deadPaymentGetsAnotherNonce(t *testing.T) {
	w, p := s.wallet(t), s.proxy(t)
	c := buyerOf(t, s.BaseURL, p.BaseURL, w, func(cfg *roamcard.Config) { cfg.Policy.MaxPerDay = 2500; cfg.Policy.MaxPerPayment = 2500 })
	for range 2 {
		p.inject(t, fault{"on": "paid", "dead": true})
		if _, err := c.BuyCard(t.Context(), "k"); err == nil {
			t.Fatal("a dead payment bought a card")
		}
	}
	if order, err := c.BuyCard(t.Context(), "k"); err != nil || order.GetReplayed() {
		t.Fatalf("%v, replayed %v", err, order.GetReplayed())
	}
	if len(w.nonces) != 3 || w.nonces[0] == w.nonces[1] || w.nonces[1] == w.nonces[2] || w.nonces[0] == w.nonces[2] {
		t.Errorf("nonces %v, want three different ones", w.nonces)
	}
	s.paid(t, w, 1)
}

// onePurchaseOverBothProtocols repeats over REST what was bought over Connect.
func (s stage) onePurchaseOverBothProtocols(t *testing.T) {
	w, p := s.wallet(t), s.proxy(t)
	c := buyerOf(t, s.BaseURL, p.BaseURL, w, nil)
	bought, err := c.BuyCard(t.Context(), "both")
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.HTTP.Post(s.BaseURL+"/api/card/purchase", "application/json", strings.NewReader(`{ "idempotencyKey": "both" }`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var again struct {
		OrderID  string
		Replayed bool
	}
	if err := json.NewDecoder(res.Body).Decode(&again); err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK || again.OrderID != bought.GetOrderId() || !again.Replayed || w.signed != 1 {
		t.Errorf("%d, %+v, signed %d; want order %s again, signed once", res.StatusCode, again, w.signed, bought.GetOrderId())
	}
	s.paid(t, w, 1)
}
