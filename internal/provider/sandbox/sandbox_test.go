package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/provider/sandbox/scenario"
)

// clock is a time that moves when a test says so.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// bench is a running server and a client of it.
type bench struct {
	*sandbox.Issuer
	t      *testing.T
	url    string
	clock  *clock
	server *sandbox.Server
	web    *httptest.Server
}

// start runs a server on a clock of its own; the client's timeout is short, as some tests use it up.
func start(t *testing.T, cfg sandbox.Config) *bench {
	t.Helper()
	b := &bench{t: t, clock: newClock()}
	if cfg.Now == nil {
		cfg.Now = b.clock.now
	}
	server, err := sandbox.NewServer(cfg)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	b.server, b.web = server, httptest.NewServer(server)
	b.url = b.web.URL
	t.Cleanup(b.stop)
	b.Issuer, err = sandbox.Dial(sandbox.ClientConfig{
		URL: b.url, APIKey: cfg.APIKey, HTTP: b.web.Client(), Timeout: time.Second, Now: cfg.Now,
		SpendLimits: cfg.SpendLimits,
	})
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	return b
}

func (b *bench) stop() {
	if err := b.server.Close(); err != nil {
		b.t.Errorf("close: %v", err)
	}
	b.web.Close()
}

// control calls the control API.
func (b *bench) control(method, path string, body, into any) {
	b.t.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(context.Background(), method, b.url+"/control/"+path, bytes.NewReader(encoded))
	if err != nil {
		b.t.Fatal(err)
	}
	resp, err := b.web.Client().Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.t.Fatalf("%s %s: %d %s %v", method, path, resp.StatusCode, answer, err)
	}
	if into != nil {
		if err := json.Unmarshal(answer, into); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bench) fault(op, mode string, delay time.Duration) {
	b.t.Helper()
	b.control(http.MethodPost, "faults", map[string]any{
		"op": op, "mode": mode, "delayMs": delay.Milliseconds(), "times": 1,
	}, nil)
}

// handles are what the suites hold of the part of the server that is controlled under a path.
func (b *bench) handles(
	under string, traits fulfilment.Traits, executed func() map[string]int,
) fulfilmenttest.Handles {
	return fulfilmenttest.Handles{
		Traits: traits,
		Settle: func() { b.control(http.MethodPost, under+"settle", nil, nil) },
		Fault: func(op fulfilmenttest.Op, mode fulfilmenttest.Mode) bool {
			fault := map[string]any{"op": op, "mode": mode, "delayMs": 1, "times": 1}
			b.control(http.MethodPost, under+"faults", fault, nil)
			return true
		},
		Executed: func(ref fulfilment.Ref) int { return executed()[ref.String()] },
	}
}

// shownBooks is what the tests read of the books.
type shownBooks struct {
	Float money.Cents `json:"floatCents"`
	Cards []struct {
		ID, Reference, Status, Number string
		Balance                       money.Cents `json:"balanceCents"`
	}
	Movements      []struct{ Reference, Status, Reason string }
	Executed, Sent map[string]int
	Requests       map[string]int
}

func (b *bench) books() shownBooks {
	b.t.Helper()
	var shown shownBooks
	b.control(http.MethodGet, "books", nil, &shown)
	return shown
}

// charge is a merchant's purchase.
func (b *bench) charge(t *testing.T, account string, amount money.Cents) {
	t.Helper()
	b.control(http.MethodPost, "cards/"+account+"/purchases", map[string]any{
		"amountCents": int64(amount), "merchant": "Corner shop", "category": "5411", "country": "US",
	}, nil)
}

// hold is a merchant's hold.
func (b *bench) hold(t *testing.T, account string, amount money.Cents) func(taken bool) {
	t.Helper()
	b.control(http.MethodPost, "cards/"+account, map[string]any{"holdCents": int64(amount)}, nil)
	return func(taken bool) {
		end := map[bool]string{true: "takeCents", false: "releaseCents"}[taken]
		b.control(http.MethodPost, "cards/"+account, map[string]any{end: int64(amount)}, nil)
	}
}

func (b *bench) open(played string) card.Account {
	b.t.Helper()
	account, err := b.Open(scenario.With(b.t.Context(), played), card.Opening{Ref: fulfilmenttest.NewRef(), Load: 2500})
	if err != nil {
		b.t.Fatalf("open: %v", err)
	}
	return account
}

// active opens a card and waits until it is active.
func (b *bench) active(played string) card.Account {
	b.t.Helper()
	account := b.open(played)
	b.clock.pass(time.Second)
	return b.want(account.Ref, card.AccountActive)
}

func (b *bench) want(ref fulfilment.Ref, state card.AccountState) card.Account {
	b.t.Helper()
	account, err := b.Account(b.t.Context(), ref)
	if err != nil || account.State != state {
		b.t.Fatalf("the card is %+v, %v; want %s", account, err, state)
	}
	return account
}

func (b *bench) withdraw(account card.Account, amount money.Cents, played string) fulfilment.Ref {
	b.t.Helper()
	ref := fulfilmenttest.NewRef()
	_, err := b.Move(scenario.With(b.t.Context(), played), card.Movement{
		Ref: ref, Account: account.ID, Direction: card.Withdrawal, Amount: amount,
	})
	if err != nil {
		b.t.Fatalf("withdraw: %v", err)
	}
	return ref
}

func (b *bench) wantMoved(on card.Account, ref fulfilment.Ref, state card.MovementState, refusal string) {
	b.t.Helper()
	moved, err := b.Moved(b.t.Context(), on.ID, ref)
	if err != nil || moved.State != state {
		b.t.Fatalf("the movement is %+v, %v; want %s", moved, err, state)
	}
	if code := refusalCode(moved.Refusal); code != refusal {
		b.t.Errorf("the movement failed for %q, want %q", code, refusal)
	}
}

func refusalCode(r *fulfilment.Refusal) string {
	if r == nil {
		return ""
	}
	return r.Code
}

func (b *bench) wantBalance(account card.Account, want money.Cents) {
	b.t.Helper()
	balance, err := b.Balance(b.t.Context(), account.ID)
	if err != nil || balance.Available != want {
		b.t.Errorf("the balance is %v, %v; want %v", balance.Available, err, want)
	}
}

func (b *bench) wantFloat(want money.Cents) {
	b.t.Helper()
	stock, err := b.Stock(b.t.Context())
	if err != nil || stock.Float != want {
		b.t.Errorf("the float is %v, %v; want %v", stock.Float, err, want)
	}
}

// The variant with spending limits opens cards with a limit only, the other one without.
func TestSandboxKeepsLimits(t *testing.T) {
	b := start(t, sandbox.Config{Dir: t.TempDir(), SettleAfter: time.Hour, SpendLimits: true})
	cardtest.Run(t, cardtest.Harness{
		Handles: b.handles("", b.Traits(), func() map[string]int { return b.books().Executed }),
		Issuer:  b, Vault: b, Stock: b, Lister: b, Controls: b, Charge: b.charge, Closer: b,
		Hold: b.hold, Capabilities: b.Capabilities(),
	})
	for limits, b := range map[bool]*bench{true: b, false: start(t, sandbox.Config{})} {
		_, err := b.Open(t.Context(), card.Opening{Ref: fulfilmenttest.NewRef(), Load: 1500, Limit: !limits})
		if no, refused := errors.AsType[*fulfilment.Refusal](err); !refused || no.Code != fulfilment.RefusedRequest {
			t.Errorf("with limits %t, the other way to open: %v", limits, err)
		}
	}
}

// Also over several pages and while cards are opened.
func TestSandboxListsEveryCardOnce(t *testing.T) {
	b := start(t, sandbox.Config{})
	const many = 1203
	for range many {
		if _, err := b.Open(t.Context(), card.Opening{Ref: fulfilmenttest.NewRef(), Load: 100}); err != nil {
			t.Fatal(err)
		}
	}
	seen, pages := map[fulfilment.Ref]bool{}, 0
	for after := ""; ; {
		page, next, err := b.Accounts(t.Context(), after)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, a := range page {
			if seen[a.Ref] {
				t.Errorf("%s is listed twice", a.Ref)
			}
			seen[a.Ref] = true
		}
		if next == "" {
			break
		}
		after = next
	}
	if len(seen) != many || pages != 3 {
		t.Errorf("%d cards on %d pages", len(seen), pages)
	}
}

func TestIssuerPassesTheKit(t *testing.T) {
	b := start(t, sandbox.Config{Dir: t.TempDir(), SettleAfter: time.Hour})
	cardtest.Run(t, cardtest.Harness{
		Handles: b.handles("", b.Traits(), func() map[string]int { return b.books().Executed }),
		Issuer:  b, Vault: b, Stock: b, Lister: b, Controls: b, Charge: b.charge, Closer: b,
		Hold: b.hold, Capabilities: b.Capabilities(),
	})
}

func TestControlAnswersLoopbackOnly(t *testing.T) {
	b := start(t, sandbox.Config{})
	r := httptest.NewRequest(http.MethodGet, "/control/books", nil)
	r.RemoteAddr = "192.0.2.7:4000"
	w := httptest.NewRecorder()
	b.server.ServeHTTP(w, r)
	if w.Code != http.StatusForbidden {
		t.Errorf("a stranger got status %d", w.Code)
	}
}

func TestBooksCountRequestsAndEffects(t *testing.T) {
	b := start(t, sandbox.Config{})
	opening := card.Opening{Ref: fulfilment.Ref(uuid.New()), Load: 2500}
	for range 3 {
		if _, err := b.Open(t.Context(), opening); err != nil {
			t.Fatal(err)
		}
	}
	shown := b.books()
	ref := opening.Ref.String()
	if shown.Sent[ref] != 3 || shown.Executed[ref] != 1 || shown.Requests["open"] != 3 {
		t.Errorf("sent %d, executed %d, requests %v", shown.Sent[ref], shown.Executed[ref], shown.Requests)
	}
}

func TestControlSetsFloatRangesAndCards(t *testing.T) {
	b := start(t, sandbox.Config{})
	account := b.active("")
	b.control(http.MethodPost, "cards/"+account.ID, map[string]any{"spendCents": 600}, nil)
	b.wantBalance(account, 1900)
	b.control(http.MethodPost, "cards/"+account.ID, map[string]any{"state": "locked"}, nil)
	b.want(account.Ref, card.AccountFrozen)

	b.control(http.MethodPost, "float", map[string]any{"cents": 2499}, nil)
	refused(t, b, fulfilment.RefusedFloat)
	b.control(http.MethodPost, "float", map[string]any{"cents": 5000}, nil)
	b.control(http.MethodPost, "bins", map[string]any{"prefix": "400000", "open": false}, nil)
	refused(t, b, card.RefusedBIN)
	b.control(http.MethodPost, "bins", map[string]any{"prefix": "511111", "open": true}, nil)
	b.active("")

	b.control(http.MethodPost, "cards/"+account.ID, map[string]any{"state": "terminated"}, nil)
	b.want(account.Ref, card.AccountClosed)
	b.wantFloat(2500 + 1900)
}

// refused opens a card that the issuer refuses, and asks again: a refusal is final.
func refused(t *testing.T, b *bench, code string) {
	t.Helper()
	opening := card.Opening{Ref: fulfilmenttest.NewRef(), Load: 2500}
	for range 2 {
		_, err := b.Open(t.Context(), opening)
		if got := refusalOf(err); refusalCode(got) != code {
			t.Errorf("Open = %v, want the refusal %s", err, code)
		}
	}
	read, err := b.Account(t.Context(), opening.Ref)
	if err != nil || read.State != card.AccountRejected || refusalCode(read.Refusal) != code {
		t.Errorf("the refused card reads back as %+v, %v", read, err)
	}
}
