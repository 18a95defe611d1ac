package rpc

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/connect/v2/connectproto"
	"github.com/google/uuid"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/store/memory"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/x402"
)

const operatorToken = "operator token of the test"

// harness serves the card service over HTTP with all interceptors. Its stores and its issuer are
// in memory; orders are not stored.
type harness struct {
	*testing.T
	url      string
	auth     *auth.Auth
	sessions *authtest.Sessions
	issuer   *cardtest.Issuer
	store    memory.Cards
	client   roamcardv1connect.CardServiceClient
	log      *lines
	now      time.Time
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{
		T: t, sessions: &authtest.Sessions{}, issuer: cardtest.NewIssuer(cardtest.Config{Instant: true}),
		store: memory.New(nil).Cards(), log: &lines{}, now: time.Now(),
	}
	now := func() time.Time { return h.now }
	var err error
	h.auth, err = auth.New(auth.Config{
		Challenges: &authtest.Challenges{}, Sessions: h.sessions, Domain: "shop.example", URI: "https://shop.example",
		ChainID: x402.ChainID, Now: now, Operators: []auth.Operator{{Name: "ada",
			Hash: sha256.Sum256([]byte(operatorToken))}},
	})
	if err != nil {
		t.Fatal(err)
	}
	cards := card.New(card.Config{
		Store: h.store, Now: now, CallTimeout: time.Second,
		Workers: availability.Check{Name: "workers", Run: func(context.Context) error { return nil }},
		Providers: []card.Provider{{
			Issuer: h.issuer, Vault: h.issuer, Stock: h.issuer, Capabilities: h.issuer.Capabilities(),
		}},
	})
	terms := payment.Terms{
		Network: x402.NetworkID, Asset: x402.Address{0: 8, 19: 3}, PayTo: x402.Address{0: 0x70, 19: 1},
		Domain: x402.Domain{Name: "USD Coin", Version: "2", ChainID: x402.ChainID, Contract: x402.Address{0: 8, 19: 3}},
	}
	service := CardService{
		Sales: Sales{
			OrderViews: OrderViews{Views: map[order.Kind]View{card.Kind: CardView(h.store)}, BaseURL: "https://shop.example"},
			Checkout: checkout.New(checkout.Config{
				Products: []checkout.Product{cards}, Terms: terms, Now: now, QuoteKey: make([]byte, 32),
				Log: slog.New(slog.DiscardHandler),
			}),
		},
		Cards: cards, Credentials: cards, Reveals: h.auth, Terms: terms,
		Availability: map[order.Kind]availability.Product{card.Kind: cards.Availability()},
	}
	mux := served(t, Services{Cards: service}, h.auth)
	log := slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var calls telemetry.Calls
		mux.ServeHTTP(w, r.WithContext(telemetry.WithCalls(r.Context(), &calls)))
		log.LogAttrs(r.Context(), calls.Last().Level(), "request", calls.Last().AppendAttrs(nil)...)
	}))
	t.Cleanup(server.Close)
	h.url, h.client = server.URL, roamcardv1connect.NewCardServiceClient(
		connect.NewClient(connecthttp.NewTransport(server.Client(), server.URL)))
	return h
}

// served are services over HTTP, with what every method has around it.
func served(t *testing.T, s Services, callers rpcx.Callers) http.Handler {
	t.Helper()
	newServer, err := rpcx.Servers(rpcx.Config{Callers: callers})
	if err != nil {
		t.Fatal(err)
	}
	server, mux := newServer(), http.NewServeMux()
	s.Register(server, server)
	connecthttp.Mount(mux, server, rpcx.OverHTTP(rpcx.MaxMessage)...)
	return mux
}

// lines records what is logged.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is all of it.
func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// session signs a wallet in for some scopes and an hour, and returns its bearer token.
func (h *harness) session(w authtest.Wallet, scopes ...auth.Scope) string {
	h.Helper()
	random := make([]byte, 32)
	_, _ = rand.Read(random)
	token := "rcs_" + base64.RawURLEncoding.EncodeToString(random)
	err := h.sessions.Create(h.Context(), auth.Session{
		ID: uuid.New(), Wallet: w.Address(), Scopes: scopes, TokenHash: sha256.Sum256([]byte(token)),
		IssuedAt: h.now.UTC(), ExpiresAt: h.now.UTC().Add(time.Hour),
	})
	if err != nil {
		h.Fatal(err)
	}
	return token
}

// issue gives a wallet an active card.
func (h *harness) issue(w authtest.Wallet) card.Card {
	h.Helper()
	ref := fulfilmenttest.NewRef()
	a, err := h.issuer.Open(h.Context(), card.Opening{Ref: ref, Load: card.Price})
	if err != nil {
		h.Fatal(err)
	}
	c := card.Card{
		ID: uuid.New(), Order: "ord_1", Owner: w.Address(), Status: card.Active, Ref: ref, Account: a.ID,
		Last4: a.Last4, CreatedAt: h.now,
	}
	h.store.Put(c)
	return c
}

// as makes a context whose call sends a bearer token; info has the headers of the answer.
func as(t *testing.T, token string) (context.Context, *connect.CallInfo) {
	t.Helper()
	ctx, info := connect.NewClientContext(t.Context())
	if token != "" {
		info.RequestHeader().Set("Authorization", "Bearer "+token)
	}
	return ctx, info
}

// problemOf is the problem detail of a failed call.
func problemOf(t *testing.T, err error) *roamcardv1.Problem {
	t.Helper()
	failed, ok := errors.AsType[*connect.Error](err)
	if !ok {
		t.Fatalf("%v is not a connect error", err)
	}
	for _, detail := range failed.Details() {
		if value, err := connectproto.UnmarshalErrorDetail(detail); err == nil {
			if problem, ok := value.(*roamcardv1.Problem); ok {
				return problem
			}
		}
	}
	t.Fatalf("%v has no problem", err)
	return nil
}
