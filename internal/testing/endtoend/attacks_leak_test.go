package endtoend_test

import (
	"bytes"
	"encoding/hex"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/testing/invariants"
	"github.com/roamcard/roamcard/internal/x402"
)

// TestRequestHostIsIgnored is A33.
func TestRequestHostIsIgnored(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	want := callInfoOf(t, w.send(purchase("h", "")))
	for name, value := range map[string]string{
		"Host":               "evil.example",
		"X-Forwarded-Host":   "evil.example",
		"X-Forwarded-Proto":  "http",
		"X-Forwarded-Prefix": "/evil",
		"Forwarded":          "host=evil.example;proto=http",
		"X-Forwarded-Server": "evil.example",
		"X-Original-Host":    "evil.example",
		"Origin":             "https://evil.example",
	} {
		r := purchase("h", "")
		r.header = map[string]string{name: value}
		a := w.send(r)
		required, err := x402.DecodeRequired(a.header.Get(x402.HeaderRequired))
		if err != nil || required.Resource.URL != origin+purchasePath {
			t.Errorf("%s: resource %q (%v)", name, required.Resource.URL, err)
		}
		if name != "Origin" {
			if diff := cmp.Diff(want, callInfoOf(t, a)); diff != "" {
				t.Errorf("%s shows:\n%s", name, diff)
			}
		}
	}
}

// TestAnswersAreNotCacheable is A35 over every route, well answered or not.
func TestAnswersAreNotCacheable(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	b := w.buyer()
	order := b.buyCard("c")
	ch := b.revealChallenge(order.Issuance.CardID)
	routes := []request{
		purchase("c", ""), purchase("c", header(t, b.payment())), purchase("c", "x"), {method: "GET", path: purchasePath},
		{path: purchasePath, body: "{"},
		{method: "GET", path: "/api/cards", header: b.bearer()}, {path: "/api/cards", header: b.bearer()},
		{method: "GET", path: "/api/cards"},
		{method: "GET", path: "/api/cards/" + order.Issuance.CardID + "/balance", header: b.bearer()},
		{path: "/api/cards/" + order.Issuance.CardID + "/reveal-challenge", body: "{}", header: b.bearer()},
		{path: "/api/cards/" + order.Issuance.CardID + "/reveal", body: revealBody(ch.IntentID, b.sign(ch.Message)),
			header: b.bearer()},
		{method: "GET", path: "/api/orders", header: b.bearer()},
		{method: "GET", path: "/api/orders/" + order.OrderID, header: b.bearer()},
		{method: "GET", path: "/api/auth/session", header: b.bearer()},
		{path: "/api/auth/challenge", body: `{"address":` + jsonText(b.address.String()) + `}`},
		{path: "/api/auth/verify", body: `{}`}, {path: "/api/auth/logout", header: b.bearer()},
		{method: "GET", path: "/health"}, {method: "GET", path: "/ready"}, {method: "GET", path: "/nowhere"},
		{method: "GET", path: "/api/config"}, {method: "GET", path: "/api/card/discovery"},
	}
	for _, r := range routes {
		a := w.send(r)
		h := a.header
		if !strings.Contains(h.Get("Cache-Control"), "no-store") {
			t.Errorf("%s %s (%d): Cache-Control %q", r.method, r.path, a.status, h.Get("Cache-Control"))
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Etag") != "" ||
			h.Get("Last-Modified") != "" ||
			h.Get("Content-Security-Policy") == "" || h.Get("Strict-Transport-Security") == "" || h.Get("Server") != "" ||
			h.Get("Set-Cookie") != "" {
			t.Errorf("%s %s (%d): headers %v", r.method, r.path, a.status, h)
		}
		if !slices.ContainsFunc(h.Values("Vary"), func(v string) bool { return strings.Contains(v, "Origin") }) &&
			h.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s %s (%d): Vary %v with origin %q", r.method, r.path, a.status, h.Values("Vary"),
				h.Get("Access-Control-Allow-Origin"))
		}
	}
}

// TestUnpaidRequestsCostNothing is A41, A42 and A45: challenges and cheap refusals write nothing, hold
// nothing, and ask the chain nothing unless somebody has signed a payment to us.
func TestUnpaidRequestsCostNothing(t *testing.T) {
	t.Parallel()
	w, node := newProxyWorld(t, nil)
	b := w.buyer()
	unsigned := []request{purchase("u", ""), {path: purchasePath}, purchase("u", "!"), {path: purchasePath, body: "{}"}}
	for _, c := range headerCases(t, b) {
		unsigned = append(unsigned, c.request)
	}
	before, asked := w.footprint(), node.callCounts()
	w.sendAll(unsigned)
	if diff := cmp.Diff(asked, node.callCounts()); diff != "" {
		t.Errorf("%d requests that nobody has signed asked the chain:\n%s", len(unsigned), diff)
	}
	var refused []request
	for _, c := range rejectedCases(t, b) {
		refused = append(refused, c.request)
	}
	// Whoever has signed is told that another payment is safe only after the chain was asked what became of this one.
	w.sendAll(refused)
	for method, n := range node.callCounts() {
		if most := asked[method] + 3*len(refused); n > most {
			t.Errorf("%d refused payments asked %s %d times, want at most %d", len(refused), method, n, most)
		}
	}
	w.wantFootprint("the requests left a trace", before)
}

// sendAll sends requests eight at a time; none may be an error of the service's.
func (w *world) sendAll(requests []request) {
	w.t.Helper()
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := worker; i < len(requests); i += 8 {
				if a := w.send(requests[i]); a.err != nil || a.status >= 500 {
					w.t.Errorf("request %d: %d %v", i, a.status, a.err)
				}
			}
		})
	}
	all.Wait()
}

// TestSecretsAreNeitherLoggedNorStored is A44: after a whole story, from the terms to the reveal, with faults, no
// secret is in the log, and none but the claimed signatures in the database.
func TestSecretsAreNeitherLoggedNorStored(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	w := newWorld(t, plan{log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	b := w.buyer()
	w.issuer.fault("open", "error_after", 1, 0) // its text repeats what must not be seen
	w.issuer.fault("move", "error_after", 1, 0)
	p := b.payment()
	surplus := b.payment()
	var order paidOrder
	w.send(purchase("secret-story", header(t, p))).into(t, 200, &order)
	w.send(purchase("secret-story", header(t, surplus))).into(t, 200, nil)
	w.awaitSettled()
	b.signIn()
	b.get("/api/orders/"+order.OrderID).into(t, 200, &order)
	reveal := func() answer { return b.reveal(order.Issuance.CardID) }
	w.issuer.fault("sensitive", "error_after", 1, 0)
	w.issuer.fault("sensitive", "malformed", 1, 0)
	for range 2 {
		if a := reveal(); a.status != 503 {
			t.Errorf("reveal from a failing issuer: %d", a.status)
		}
	}
	var shown struct {
		Credentials struct{ Number, SecurityCode string } `json:"credentials"`
	}
	reveal().into(t, 200, &shown)
	if len(shown.Credentials.Number) < 12 {
		t.Fatalf("no card was revealed")
	}
	secrets := map[string]string{
		"the bearer":          b.token,
		"the buyer's key":     hex.EncodeToString(crypto.FromECDSA(b.key)),
		"the relayer's key":   strings.TrimPrefix(w.config.RelayerKeys[0].Reveal(), "0x"),
		"the payment":         hex.EncodeToString([]byte(p.Signature)),
		"the surplus payment": hex.EncodeToString([]byte(surplus.Signature)),
		"the header":          header(t, p)[200:260],
		"the number":          shown.Credentials.Number,
		"the number in fours": grouped(shown.Credentials.Number),
		"the quote key":       w.config.QuoteKey.Reveal(),
		"the receipts' key":   w.config.ReceiptKeys[0].Reveal(),
		"the issuer's answer": `"securityCode"`,
	}
	for _, v := range invariants.Leaks(map[string]string{"the log": log.String(), "the database": w.dump()}, secrets) {
		t.Error(v)
	}
	// What a claimed payment needs is kept; the search sees it there.
	kept := map[string]string{"the payments with their signatures": w.rows("payments", "t::text")}
	if found := invariants.Leaks(kept, map[string]string{"the payment": secrets["the payment"]}); len(found) == 0 {
		t.Error("the search does not find what is there")
	}
	if !strings.Contains(log.String(), "secret-story") && !strings.Contains(log.String(), `"request"`) {
		t.Error("the log is empty: nothing was looked at")
	}
	w.checkBooks()
}

func grouped(number string) string {
	var parts []string
	for len(number) > 4 {
		parts, number = append(parts, number[:4]), number[4:]
	}
	return strings.Join(append(parts, number), " ")
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String is all that was written.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
