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
	"time"

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

func TestNoncesAreThoseOfEveryLanguage(t *testing.T) {
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

// payNonce is the nonce of a payment at the path after the service told so many to be dead.
func payNonce(t *testing.T, v vector, path string) string {
	t.Helper()
	s := &shop{Server: &httptest.Server{URL: v.Origin}, t: t, amount: "25000000", payTo: payTo}
	for range v.Attempt {
		s.answers = append(s.answers, dead)
	}
	p, _ := payer(t, roamcard.NewMemoryStore())
	p.Next, p.Signer = at{s}, signerOf(t, v.Payer)
	now := &clock{at: time.Now()}
	p.Now = now.now
	s.now = p.Now
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
		now.add(3 * time.Minute) // then the chain can no longer take it
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

// TestTopupOfAnEsimIsKeptWithItsOrder: over REST the order is in the path, and a process that resumes asks by Connect.
func TestTopupOfAnEsimIsKeptWithItsOrder(t *testing.T) {
	for path, body := range map[string]string{
		"/api/esim/orders/ord_01/topup":      `{"idempotencyKey":"more","planId":"p"}`,
		"/roamcard.v1.EsimService/TopUpEsim": `{"idempotencyKey":"more","planId":"p","orderId":"ord_01"}`,
	} {
		s := &shop{Server: &httptest.Server{URL: "https://roamcard.example"}, t: t, amount: "25000000", payTo: payTo}
		store := roamcard.NewMemoryStore()
		p, _ := payer(t, store)
		p.Next = at{s}
		now := &clock{at: time.Now()}
		p.Now = now.now
		s.now = p.Now
		res, err := (&http.Client{Transport: p}).Post(s.URL+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Fatal(err)
		}
		book, err := store.Read(t.Context())
		if err != nil || len(book.Purchases) != 1 {
			t.Fatalf("%s: %d purchases are kept, %v", path, len(book.Purchases), err)
		}
		for _, e := range book.Purchases {
			var asked struct{ OrderID, PlanID string }
			if err := json.Unmarshal(e.Request, &asked); err != nil || asked.OrderID != "ord_01" || asked.PlanID != "p" ||
				e.Operation != roamcard.OpESIMTopup {
				t.Errorf("%s is kept as %s of %s, %v", path, e.Request, e.Operation, err)
			}
		}
	}
}
