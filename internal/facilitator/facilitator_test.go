package facilitator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/facilitator"
	"github.com/roamcard/roamcard/internal/facilitator/facilitatortest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	price = money.USDC(25_000_000)
	token = "t0p-secret-token"
)

var terms = payment.Terms{
	Network: x402.NetworkID, Asset: x402.Address{1}, PayTo: x402.Address{2}, MaxTimeout: 2 * time.Minute,
	Domain: x402.Domain{Name: "USD Coin", Version: "2", ChainID: x402.ChainID, Contract: x402.Address{1}},
}

// bench is a facilitator over a chain in memory, and a client of it with a clock of its own.
type bench struct {
	*testing.T
	chain  *paymenttest.Chain
	remote *facilitatortest.Server
	client *facilitator.Facilitator
	spans  *tracetest.SpanRecorder
	logs   *logged

	mu  sync.Mutex
	now time.Time
}

// logged is a log that is written by calls that go on.
type logged struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func newBench(t *testing.T, change func(*facilitator.Config)) *bench {
	t.Helper()
	b := &bench{T: t, now: time.Unix(1_790_000_000, 0), spans: tracetest.NewSpanRecorder(), logs: &logged{}}
	b.chain = paymenttest.NewChain(terms.Domain, b.time)
	b.remote = facilitatortest.New(
		facilitatortest.Config{Chain: b.chain, Settler: b.chain, Token: secret.New(token), Now: b.time},
	)
	server := httptest.NewServer(b.remote)
	t.Cleanup(func() {
		server.CloseClientConnections() // calls go on without who made them
		server.Close()
	})
	c := facilitator.Config{
		URL: server.URL, Token: secret.New(token), HTTP: server.Client(), Timeout: 5 * time.Second, Pause: 2 * time.Second,
		Requirements:  func(p payment.Payment) x402.Requirements { return terms.Requirements(p.Authorization.Value, nil) },
		SubmitTimeout: time.Minute, Alone: true,
		Now: b.time, Log: slog.New(slog.NewTextHandler(b.logs, nil)),
		Tracer: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(b.spans)).Tracer("test"),
	}
	if change != nil {
		change(&c)
	}
	var err error
	if b.client, err = facilitator.New(c); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) time() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bench) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

// claim is a stored payment of a funded payer, another one for each nonce.
func (b *bench) claim(nonce byte) payment.Payment { b.Helper(); return b.claimOf(nonce, nonce) }

func (b *bench) claimOf(payer, nonce byte) payment.Payment {
	b.Helper()
	key, err := crypto.ToECDSA(crypto.Keccak256([]byte{payer}))
	if err != nil {
		b.Fatal(err)
	}
	a := x402.Authorization{From: x402.Address(crypto.PubkeyToAddress(key.PublicKey)), To: terms.PayTo, Value: price,
		ValidBefore: uint64(b.time().Unix()) + 120, Nonce: x402.Hash{31: nonce}}
	s, err := curve.Sign(terms.Domain, a, key)
	if err != nil {
		b.Fatal(err)
	}
	b.chain.Fund(a.From, price)
	return payment.Payment{ID: uuid.New(), Status: payment.Claimed, Network: terms.Network, Asset: terms.Asset,
		Authorization: a, Signature: s, CreatedAt: b.time()}
}

func TestSubmitReadsOutcomes(t *testing.T) {
	tests := []struct {
		name  string
		fault facilitatortest.Fault
		// taken says that the answer is no failure; refused that it is a no; moved that the money moved.
		taken, refused, moved bool
	}{
		{"honest", facilitatortest.Honest, true, false, true},
		{"pending", facilitatortest.Pending, true, false, true},
		{"pending as HTTP 500", facilitatortest.Pending500, true, false, true},
		{"reply lost after the broadcast", facilitatortest.Lose, false, false, true},
		{"failure after success", facilitatortest.Deny, false, true, true},
		{"half a text", facilitatortest.Garble, false, false, true},
		{"endless text", facilitatortest.Flood, false, false, true},
		{"error before the effect", facilitatortest.Fail, false, false, false},
		{"refused", facilitatortest.Refuse, false, true, false},
		{"lie", facilitatortest.Lie, true, false, false},
		{"success without a transaction", facilitatortest.Boast, false, false, false},
		{"success of another payment", facilitatortest.Mistake, false, false, false},
		{"pending for ever", facilitatortest.Stall, true, false, false},
		{"token refused", facilitatortest.Unauthorized, false, false, false},
		{"too many requests", facilitatortest.Limit, false, false, false},
		{"redirect", facilitatortest.Redirect, false, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, nil)
			b.remote.Next(tt.fault)
			p := b.claim(1)
			err := b.client.Submit(t.Context(), p)
			if (err == nil) != tt.taken {
				t.Errorf("error %v, want none: %t", err, tt.taken)
			}
			if refusal, no := errors.AsType[*facilitator.Refusal](err); no != tt.refused {
				t.Errorf("refusal %v, want one: %t", refusal, tt.refused)
			}
			if _, rejected := errors.AsType[*payment.Rejection](err); rejected {
				t.Error("a remote answer is reported as our own verdict")
			}
			want := 0
			if tt.moved {
				want = 1
			}
			if got := b.chain.Calls().Transfers; got != want {
				t.Errorf("%d transfers, want %d", got, want)
			}
			if b.remote.Calls("/elsewhere") != 0 {
				t.Error("a redirect was followed")
			}
			b.wantNoSecrets(p)
		})
	}
}

// wantNoSecrets searches what was logged and traced for what must not be there.
func (b *bench) wantNoSecrets(p payment.Payment) {
	b.Helper()
	var told strings.Builder
	told.WriteString(b.logs.String())
	spans := b.spans.Ended()
	if len(spans) == 0 {
		b.Error("no span")
	}
	for _, s := range spans {
		told.WriteString(s.Name() + s.Status().Description)
		for _, a := range s.Attributes() {
			told.WriteString(string(a.Key) + "=" + a.Value.String() + "\n")
		}
	}
	if !strings.Contains(b.logs.String(), p.ID.String()) {
		b.Error("the payment is not named in the logs")
	}
	for name, secret := range map[string]string{"token": token, "signature": p.Signature.Hex()[2:],
		"nonce": p.Authorization.Nonce.String()[2:]} {
		if strings.Contains(told.String(), secret) {
			b.Errorf("the %s is told:\n%s", name, told.String())
		}
	}
}

func TestSubmitSendsSameBytesEachTime(t *testing.T) {
	b := newBench(t, nil)
	b.remote.Always(facilitatortest.Stall)
	p := b.claim(1)
	for range 3 {
		if err := b.client.Submit(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		b.pass(2 * time.Second)
	}
	bodies := b.remote.Settles()
	if len(bodies) != 3 || !bytes.Equal(bodies[0], bodies[1]) || !bytes.Equal(bodies[0], bodies[2]) {
		t.Errorf("%d bodies that differ", len(bodies))
	}
}

func TestSubmitSendsResource(t *testing.T) {
	sold := x402.Resource{
		URL: "https://shop.example/api/card/purchase", Description: "A card", MimeType: "application/json",
	}
	var broken error
	b := newBench(t, func(c *facilitator.Config) {
		c.Resource = func(context.Context, payment.Payment) (x402.Resource, map[string]any, error) {
			return sold, map[string]any{"bazaar": json.RawMessage(`{"info":{}}`)}, broken
		}
	})
	if err := b.client.Submit(t.Context(), b.claim(1)); err != nil {
		t.Fatal(err)
	}
	var sent struct {
		PaymentPayload struct {
			Resource   x402.Resource
			Extensions map[string]any
		}
	}
	if err := json.Unmarshal(b.remote.Settles()[0], &sent); err != nil {
		t.Fatal(err)
	}
	if sent.PaymentPayload.Resource != sold || sent.PaymentPayload.Extensions["bazaar"] == nil {
		t.Errorf("it was told %+v", sent.PaymentPayload)
	}
	// What is sold is not known: nothing is sent, and the facilitator is not to blame.
	broken = errors.New("no database")
	if err := b.client.Submit(t.Context(), b.claim(2)); !errors.Is(err, broken) || len(b.remote.Settles()) != 1 {
		t.Errorf("%d calls and %v", len(b.remote.Settles()), err)
	}
	broken = nil
	if err := b.client.Submit(t.Context(), b.claim(2)); err != nil {
		t.Errorf("it is held against the facilitator: %v", err)
	}
}

func TestSubmitPausesBetweenCallsOfPayment(t *testing.T) {
	b := newBench(t, nil)
	good, bad := b.claim(1), b.claim(2)
	b.remote.Next(facilitatortest.Stall, facilitatortest.Refuse)
	for range 5 {
		if err := b.client.Submit(t.Context(), good); err != nil {
			t.Errorf("good: %v", err)
		}
		_, refused := errors.AsType[*facilitator.Refusal](b.client.Submit(t.Context(), bad))
		if !refused {
			t.Error("a cached refusal is lost")
		}
	}
	if n := b.remote.Calls("/settle"); n != 2 {
		t.Errorf("%d calls, want one for each payment", n)
	}
	if err := b.client.Submit(t.Context(), bad); !errors.Is(err, payment.ErrBackingOff) {
		t.Errorf("%v, want it said that nobody was asked", err)
	}
}

func TestSubmitBacksOffFromFailingFacilitator(t *testing.T) {
	b := newBench(t, nil)
	b.remote.Always(facilitatortest.Fail)
	for i := range byte(10) {
		if err := b.client.Submit(t.Context(), b.claim(i)); err == nil {
			t.Error("no error")
		}
	}
	if n := b.remote.Calls("/settle"); n != 3 {
		t.Errorf("%d calls, want 3", n)
	}
	b.remote.Always(facilitatortest.Honest)
	b.pass(time.Second)
	if err := b.client.Submit(t.Context(), b.claim(20)); err != nil {
		t.Errorf("after the rest: %v", err)
	}
	if err := b.client.Submit(t.Context(), b.claim(21)); err != nil {
		t.Errorf("once it works: %v", err)
	}
}

func TestRefusalsDoNotBackOffFacilitator(t *testing.T) {
	b := newBench(t, nil)
	b.remote.Always(facilitatortest.Refuse)
	for i := range byte(6) {
		_ = b.client.Submit(t.Context(), b.claim(i))
	}
	if n := b.remote.Calls("/settle"); n != 6 {
		t.Errorf("%d calls, want 6", n)
	}
}

func TestSubmitHonorsRetryAfter(t *testing.T) {
	for name, limit := range map[string]facilitatortest.Fault{
		"seconds": facilitatortest.Limit, "date": facilitatortest.LimitUntil,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.remote.Next(limit)
			_ = b.client.Submit(t.Context(), b.claim(1))
			if err := b.client.Submit(t.Context(), b.claim(2)); !errors.Is(err, payment.ErrBackingOff) {
				t.Errorf("another payment at once: %v", err)
			}
			b.pass(time.Second)
			if err := b.client.Submit(t.Context(), b.claim(3)); err != nil {
				t.Errorf("after the second it asked for: %v", err)
			}
		})
	}
}

func TestSubmitTimesOut(t *testing.T) {
	b := newBench(t, func(c *facilitator.Config) { c.Timeout = 50 * time.Millisecond })
	b.remote.Always(facilitatortest.Hang)
	if err := b.client.Submit(t.Context(), b.claim(1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the deadline", err)
	}
}

func TestCallGoesOnWithoutItsCaller(t *testing.T) {
	b := newBench(t, func(c *facilitator.Config) { c.Timeout, c.SubmitTimeout = 20*time.Second, time.Nanosecond })
	b.remote.Always(facilitatortest.Hang)
	p := b.claim(1)
	for range 3 {
		if err := b.client.Submit(t.Context(), p); err != nil {
			t.Errorf("while the facilitator is asked: %v", err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_ = b.client.Submit(gone, b.claim(2))
	b.eventually(func() bool { return b.remote.Calls("/settle") == 2 }, "both payments are asked for, once each")
	if err := b.client.Ready(t.Context()); err != nil {
		t.Errorf("it is held against the facilitator: %v", err)
	}
}

// eventually waits for a condition, as long as the test may take.
func (b *bench) eventually(is func() bool, what string) {
	b.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !is() {
		select {
		case <-b.Context().Done():
			b.Fatalf("never: %s", what)
		case <-look.C:
		}
	}
}

func TestTokenSourceIsCalledForEachCall(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	b := newBench(t, func(c *facilitator.Config) {
		c.Token = secret.New("stale")
		c.URL += "/" // a slash at the end changes nothing
		c.TokenSource = func(_ context.Context, method, host, path string) (secret.Text, error) {
			mu.Lock()
			defer mu.Unlock()
			if !strings.HasPrefix(host, "127.0.0.1:") {
				t.Errorf("host %q", host)
			}
			asked = append(asked, method+" "+path)
			return secret.New(token), nil
		}
	})
	if err := b.client.Supported(t.Context()); err != nil {
		t.Error(err)
	}
	if err := b.client.Submit(t.Context(), b.claim(1)); err != nil {
		t.Error(err)
	}
	if got := strings.Join(asked, ", "); got != "GET /supported, POST /verify, POST /settle" {
		t.Errorf("tokens for %s", got)
	}
}

func TestSubmitSendsNothingWithoutToken(t *testing.T) {
	broken := errors.New("no key")
	b := newBench(t, func(c *facilitator.Config) {
		c.TokenSource = func(context.Context, string, string, string) (secret.Text, error) {
			return secret.Text{}, broken
		}
	})
	if err := b.client.Submit(t.Context(), b.claim(1)); !errors.Is(err, broken) || b.remote.Calls("/settle") != 0 {
		t.Errorf("%v after %d calls", err, b.remote.Calls("/settle"))
	}
}

func TestReadyNeedsOurKind(t *testing.T) {
	b := newBench(t, nil)
	ready := func(want bool) {
		t.Helper()
		if err := b.client.Ready(t.Context()); (err == nil) != want {
			t.Errorf("%v, want ready: %t", err, want)
		}
	}
	ours := x402.Kind{X402Version: 2, Scheme: "exact", Network: "eip155:8453"}
	b.remote.Kinds(x402.Kind{X402Version: 2, Scheme: "exact", Network: "eip155:84532"},
		x402.Kind{X402Version: 1, Scheme: "exact", Network: "eip155:8453"})
	ready(false)
	b.remote.Kinds(ours)
	ready(false) // the answer stands for a moment
	b.pass(2 * time.Second)
	ready(true)
	b.remote.Kinds()
	ready(true)
	if n := b.remote.Calls("/supported"); n != 2 {
		t.Errorf("%d calls, want 2", n)
	}
	b.pass(5 * time.Second)
	ready(false)
}

// TestSlowSupportedIsWaitedForInTheBackground: what was known a minute ago stands until there is an answer.
func TestSlowSupportedIsWaitedForInTheBackground(t *testing.T) {
	b := newBench(t, func(c *facilitator.Config) { c.Timeout = time.Minute })
	b.ready("")
	answers := make(chan struct{})
	b.remote.OnSupported(func() { <-answers })
	b.pass(6 * time.Second)
	b.ready("")
	b.remote.Kinds()
	close(answers)
	b.eventually(func() bool { return fault.Of(b.client.Ready(t.Context())) == fault.FacilitatorDown },
		"the answer counts once it is there")
}

// moved tells the client what the chain shows of a payment.
func (b *bench) moved(p payment.Payment) {
	b.Helper()
	v, err := b.chain.Verdict(b.Context(), p.Authorization, p.Since())
	if err != nil || v.State != payment.Settled {
		b.Fatalf("%+v, %v, want it settled", v, err)
	}
	b.client.Moved(p, *v.Receipt)
}

func (b *bench) ready(want fault.Code) {
	b.Helper()
	if err := b.client.Ready(b.Context()); fault.Of(err) != want {
		b.Errorf("ready: %v, want %q", err, want)
	}
}

// simulated is a bench whose client asks the chain what would move.
func simulated(t *testing.T, change func(*facilitator.Config)) *bench {
	t.Helper()
	var b *bench
	b = newBench(t, func(c *facilitator.Config) {
		c.Simulate = func(ctx context.Context, p payment.Payment) error {
			return b.chain.Simulate(ctx, p.Authorization, p.Signature)
		}
		if change != nil {
			change(c)
		}
	})
	return b
}

// TestReadyFailsWhenFacilitatorSettlesNothing lists our kind, and fails or refuses every settlement.
func TestReadyFailsWhenFacilitatorSettlesNothing(t *testing.T) {
	for name, mode := range map[string]facilitatortest.Fault{"fails": facilitatortest.Fail,
		"refuses": facilitatortest.Refuse, "does not know us": facilitatortest.Unauthorized,
		"boasts": facilitatortest.Boast} {
		t.Run(name, func(t *testing.T) {
			b := simulated(t, nil)
			b.remote.Always(mode)
			for range 3 {
				for i := range byte(2) {
					_ = b.client.Submit(t.Context(), b.claim(i))
				}
				b.pass(time.Minute)
			}
			b.ready("") // however often they are asked for, two payers may be at fault
			third := b.claim(3)
			_ = b.client.Submit(t.Context(), third)
			b.ready(fault.FacilitatorDown)
			b.pass(31 * time.Second)
			b.ready(fault.FacilitatorDown) // no success has been seen since
			b.remote.Always(facilitatortest.Honest)
			if err := b.client.Submit(t.Context(), third); err != nil {
				t.Errorf("the payment that waits: %v", err)
			}
			b.ready(fault.FacilitatorDown) // it says so
			b.moved(third)
			b.ready("")
			b.remote.Always(mode)
			for i := range byte(3) {
				_ = b.client.Submit(t.Context(), b.claim(10+i))
			}
			b.ready(fault.FacilitatorDown)
			b.pass(61 * time.Second)
			b.ready("") // nothing waits for it: the next payer finds out
			_ = b.client.Submit(t.Context(), b.claim(20))
			b.ready(fault.FacilitatorDown)
		})
	}
}

// TestClaimsAreHeldAgainstTheChain: a facilitator that claims what the chain does not have closes the sale at once, and
// one that is pending for ever after as many payers as could be at fault.
func TestClaimsAreHeldAgainstTheChain(t *testing.T) {
	for name, tt := range map[string]struct {
		mode   facilitatortest.Fault
		payers byte
	}{"lies": {facilitatortest.Lie, 1}, "stalls": {facilitatortest.Stall, 3}} {
		t.Run(name, func(t *testing.T) {
			b := simulated(t, nil)
			b.remote.Always(tt.mode)
			var all []payment.Payment
			for i := range tt.payers {
				all = append(all, b.claim(i))
				if err := b.client.Submit(t.Context(), all[i]); err != nil {
					t.Error(err)
				}
			}
			b.pass(5 * time.Second)
			_ = b.client.Submit(t.Context(), all[0])
			b.ready("") // a block may still have it
			b.pass(2 * time.Second)
			for i := range tt.payers {
				b.ready("")
				_ = b.client.Submit(t.Context(), all[i])
			}
			b.ready(fault.FacilitatorDown)
			b.remote.Always(facilitatortest.Honest)
			b.pass(8 * time.Second)
			if err := b.client.Submit(t.Context(), all[0]); err != nil {
				t.Error(err)
			}
			b.moved(all[0])
			b.ready("")
		})
	}
}

// TestPayersFaultIsNeverTheFacilitators: payers who claim and move their money away, as many as there are.
func TestPayersFaultIsNeverTheFacilitators(t *testing.T) {
	b := simulated(t, nil)
	b.remote.Always(facilitatortest.Fail)
	for i := range byte(6) {
		p := b.claim(i)
		b.chain.Spend(p.Authorization.From)
		if _, rejected := errors.AsType[*payment.Rejection](b.client.Submit(t.Context(), p)); !rejected {
			t.Error("not rejected")
		}
	}
	if n := b.remote.Calls("/settle") + b.remote.Calls("/verify"); n != 0 {
		t.Errorf("%d calls for payments that would not move", n)
	}
	b.ready("")
}

// TestSubmitStopsAtReverts: what a payer makes a facilitator send in vain is bounded, and closes nothing.
func TestSubmitStopsAtReverts(t *testing.T) {
	var reverted atomic.Bool
	b := simulated(t, func(c *facilitator.Config) {
		c.Reverted = func(context.Context, x402.Hash) (bool, error) { return reverted.Load(), nil }
	})
	// Its payer has the money whenever we look, and not when the transaction is included.
	raced := b.claim(1)
	reverted.Store(true)
	b.remote.Always(facilitatortest.Lie)
	// Another spends it while the facilitator is asked, and gets it again.
	drained := b.claim(2)
	b.remote.OnSettle(func() { b.chain.Spend(drained.Authorization.From) })
	for _, p := range []payment.Payment{raced, drained} {
		for range 5 {
			if p.ID == drained.ID {
				b.remote.Always(facilitatortest.Fail)
				b.chain.Fund(p.Authorization.From, price)
			}
			_ = b.client.Submit(t.Context(), p)
			b.pass(9 * time.Second)
		}
	}
	if n := b.remote.Calls("/settle"); n != 4 {
		t.Errorf("%d calls, want two for each payment", n)
	}
	for _, p := range []payment.Payment{raced, drained} {
		if err := b.client.Submit(t.Context(), p); !errors.Is(err, payment.ErrMissed) {
			t.Errorf("%v, want it missed", err)
		}
	}
	b.ready("")
}

// TestFacilitatorWhoseTransactionsRevertIsDown: with too little gas, say. What waited for it is sent once it works.
func TestFacilitatorWhoseTransactionsRevertIsDown(t *testing.T) {
	b := simulated(t, func(c *facilitator.Config) {
		c.Reverted = func(context.Context, x402.Hash) (bool, error) { return true, nil }
		now := c.Now
		c.HeadTime = func(context.Context) (time.Time, error) { return now().Add(-2 * time.Second), nil } // blocks lag
	})
	b.remote.Always(facilitatortest.Lie)
	waiting := []payment.Payment{b.claim(1), b.claim(2), b.claim(3)}
	for range 20 {
		for _, p := range waiting {
			_ = b.client.Submit(t.Context(), p)
		}
		b.pass(time.Second)
	}
	b.ready(fault.FacilitatorDown)
	if n := b.remote.Calls("/settle"); n != 6 {
		t.Errorf("%d calls, want two for each payment", n)
	}
	b.remote.Always(facilitatortest.Honest)
	b.pass(61 * time.Second)
	next := b.claim(4)
	if err := b.client.Submit(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	b.moved(next)
	b.ready("")
	for _, p := range waiting {
		if err := b.client.Submit(t.Context(), p); err != nil {
			t.Errorf("what waits: %v", err)
		}
		b.moved(p)
	}
}

// TestSamePayersCloseASaleForAMinute, however often they fail: they may have the money whenever we look, and not in the
// block, and the facilitator may not say which transaction reverted.
func TestSamePayersCloseASaleForAMinute(t *testing.T) {
	b := simulated(t, nil)
	b.remote.Always(facilitatortest.Refuse)
	bouncing := []payment.Payment{b.claim(1), b.claim(2), b.claim(3), b.claim(4), b.claim(5)}
	fail := func() {
		for _, p := range bouncing {
			_ = b.client.Submit(t.Context(), p)
		}
	}
	fail()
	for range 5 {
		b.ready(fault.FacilitatorDown)
		b.pass(10 * time.Second)
		fail()
	}
	b.pass(11 * time.Second)
	fail()
	b.ready("")
	b.remote.Always(facilitatortest.Honest)
	next := b.claim(9)
	if err := b.client.Submit(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	b.moved(next)
	b.remote.Always(facilitatortest.Refuse)
	b.pass(time.Minute)
	for i := range byte(5) {
		_ = b.client.Submit(t.Context(), b.claimOf(1+i, 40+i))
	}
	b.ready("") // the same ones again
}

// TestOldSettlementIsNoNews: a call that ends late tells of a transfer that was made before the others failed.
func TestOldSettlementIsNoNews(t *testing.T) {
	for name, alone := range map[string]bool{"alone": true, "next to a relayer": false} {
		t.Run(name, func(t *testing.T) {
			b := simulated(t, func(c *facilitator.Config) {
				c.Alone, c.Timeout, c.SubmitTimeout, c.SkipVerify = alone, time.Minute, time.Nanosecond, true
			})
			moves, ends := make(chan struct{}), make(chan struct{})
			b.remote.OnMoved(func() { close(moves); <-ends })
			first := b.claim(1)
			_ = b.client.Submit(t.Context(), first)
			<-moves
			b.moved(first)
			b.pass(time.Second)
			b.remote.Always(facilitatortest.Fail)
			failed := []payment.Payment{b.claim(2), b.claim(3), b.claim(4)}
			for _, p := range failed {
				_ = b.client.Submit(t.Context(), p)
			}
			down := func() bool { return fault.Of(b.client.Ready(t.Context())) == fault.FacilitatorDown }
			b.eventually(down, "three have failed")
			close(ends)
			ended := func() bool { return strings.Contains(b.logs.String(), "outcome=claimed") }
			b.eventually(ended, "the first call has ended")
			if !down() {
				t.Error("an old settlement opens the sale")
			}
		})
	}
}

// TestFacilitatorThatAsksForALongPauseIsDown for as long, and nobody signs for it meanwhile.
func TestFacilitatorThatAsksForALongPauseIsDown(t *testing.T) {
	b := simulated(t, nil)
	b.remote.Next(facilitatortest.LimitLong)
	_ = b.client.Submit(t.Context(), b.claim(1))
	b.ready(fault.FacilitatorDown)
	b.pass(30 * time.Second) // an hour is too long to believe
	b.ready("")
}

// TestNothingIsHeldAgainstAFacilitatorWhileNodesAreDown: then nobody knows whether a payment would move.
func TestNothingIsHeldAgainstAFacilitatorWhileNodesAreDown(t *testing.T) {
	b := simulated(t, nil)
	b.remote.Always(facilitatortest.Fail)
	b.remote.OnSettle(func() { b.chain.Down(true) })
	for i := range byte(4) {
		b.chain.Down(false)
		_ = b.client.Submit(t.Context(), b.claim(i))
	}
	b.ready("")
	if err := b.client.Submit(t.Context(), b.claim(9)); err == nil || b.remote.Calls("/settle") != 4 {
		t.Errorf("asked %d times, %v", b.remote.Calls("/settle"), err)
	}
}

// TestPayersWhomAFacilitatorDoesNotTakeCloseNothing: one that settles for others and not for them is not down.
func TestPayersWhomAFacilitatorDoesNotTakeCloseNothing(t *testing.T) {
	b := simulated(t, nil)
	unwanted := func(mode facilitatortest.Fault) {
		b.remote.Always(mode)
		for i := range byte(3) {
			_ = b.client.Submit(t.Context(), b.claim(i))
		}
		b.remote.Always(facilitatortest.Honest)
	}
	unwanted(facilitatortest.Screen) // says that it is about them
	b.ready("")
	unwanted(facilitatortest.Refuse)
	b.ready(fault.FacilitatorDown) // nobody knows yet
	b.pass(61 * time.Second)
	p := b.claim(9)
	if err := b.client.Submit(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	b.moved(p)
	unwanted(facilitatortest.Refuse)
	b.ready("")
	again := b.claim(1) // it takes one of them after all
	if err := b.client.Submit(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	b.moved(again)
	b.remote.Always(facilitatortest.Refuse)
	for _, payer := range []byte{1, 20, 21} {
		_ = b.client.Submit(t.Context(), b.claimOf(payer, 30+payer))
	}
	b.ready(fault.FacilitatorDown)
}

// TestOthersTransferIsNoProof: next to a relayer, what moved may have been moved by that.
func TestOthersTransferIsNoProof(t *testing.T) {
	b := simulated(t, func(c *facilitator.Config) { c.Alone = false })
	b.remote.Always(facilitatortest.Lie)
	p := b.claim(1)
	_ = b.client.Submit(t.Context(), p)
	b.pass(8 * time.Second)
	_ = b.client.Submit(t.Context(), p)
	b.ready(fault.FacilitatorDown)
	if err := b.chain.Submit(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	b.moved(p)
	b.ready(fault.FacilitatorDown)
	b.remote.Always(facilitatortest.Honest)
	next := b.claim(2)
	if err := b.client.Submit(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	b.moved(next)
	b.ready("")
}

func TestFacilitatorThatInsistsOnVerification(t *testing.T) {
	b := newBench(t, nil)
	b.remote.Insist()
	b.remote.Next(facilitatortest.Fail)
	p := b.claim(1)
	_ = b.client.Submit(t.Context(), p)
	b.pass(2 * time.Second)
	if err := b.client.Submit(t.Context(), p); err != nil || b.remote.Calls("/verify") != 2 {
		t.Errorf("%v after %d verifications", err, b.remote.Calls("/verify"))
	}
	b.moved(p)

	// What it says about another network is a reason all the same.
	b = newBench(t, func(c *facilitator.Config) { c.SkipVerify = true })
	b.remote.Insist()
	refusal, refused := errors.AsType[*facilitator.Refusal](b.client.Submit(t.Context(), b.claim(1)))
	if !refused || refusal.Reason != "payment_must_be_verified_before_settlement" || b.remote.Calls("/verify") != 0 {
		t.Errorf("%v after %d verifications", refusal, b.remote.Calls("/verify"))
	}
	if !strings.Contains(b.logs.String(), refusal.Reason) {
		t.Error("the reason is not logged")
	}
}

func TestReadyFailsWithWrongToken(t *testing.T) {
	b := newBench(t, func(c *facilitator.Config) { c.Token = secret.New("another") })
	if err := b.client.Supported(t.Context()); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("%v, want HTTP 401", err)
	}
	if s := b.spans.Ended()[0]; s.Status().Code != codes.Error || s.Name() != "facilitator supported" {
		t.Errorf("span %s with status %v", s.Name(), s.Status())
	}
}

func TestErrorsDoNotQuoteFacilitator(t *testing.T) {
	quoting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := new(bytes.Buffer)
		_, _ = body.ReadFrom(r.Body)
		p, _, err := x402.DecodeFacilitatorRequest(body.Bytes())
		if err != nil {
			t.Errorf("decode: %v", err)
		}
		_, _ = w.Write([]byte(`{"success":false,"errorReason":"bad_` + p.Signature.Hex()[2:] + `","transaction":"` +
			p.Signature.Hex() + `"}`))
	}))
	t.Cleanup(quoting.Close)
	b := newBench(t, func(c *facilitator.Config) { c.URL = quoting.URL })
	p := b.claim(1)
	refusal, ok := errors.AsType[*facilitator.Refusal](b.client.Submit(t.Context(), p))
	if !ok || refusal.Reason != "unreadable" {
		t.Errorf("%v, want an unreadable reason", refusal)
	}
	b.wantNoSecrets(p)
}

func TestCollectorTrustsChainOnly(t *testing.T) {
	b := newBench(t, func(c *facilitator.Config) { c.Pause, c.Window, c.Now = time.Nanosecond, time.Nanosecond, time.Now })
	// A lie, a denial before the effect and a lost reply: the payment moves once, when the chain says so.
	b.remote.Next(facilitatortest.Lie, facilitatortest.Refuse, facilitatortest.Fail, facilitatortest.Lose)
	c := payment.NewCollector(payment.CollectorConfig{Chain: b.chain, Settler: b.client, Timeout: 10 * time.Second,
		Log: slog.New(slog.DiscardHandler)})
	if v := paymenttest.Decide(t.Context(), c, b.claim(1), time.Millisecond, 10*time.Second); v.State != payment.Settled {
		t.Errorf("verdict %+v, want settled", v)
	}
	if n := b.chain.Calls().Transfers; n != 1 || b.remote.Calls("/settle") != 4 {
		t.Errorf("%d transfers after %d calls, want 1 after 4", n, b.remote.Calls("/settle"))
	}
}

func TestNewRefusesMissingAddress(t *testing.T) {
	for _, url := range []string{"", "facilitator.example.com", "ftp://example.com", "https://user:pass@example.com",
		"https://example.com?key=1"} {
		_, err := facilitator.New(
			facilitator.Config{URL: url, Requirements: func(payment.Payment) x402.Requirements { return x402.Requirements{} }},
		)
		if err == nil || strings.Contains(err.Error(), "pass") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// TestFacilitatorIsAskedForKeysOnly: what a facilitator does with a smart account's code, and its gas, is not known.
func TestFacilitatorIsAskedForKeysOnly(t *testing.T) {
	b := newBench(t, nil)
	p := b.claim(1)
	p.Signature += "of a smart account"
	if err := b.client.Submit(t.Context(), p); !errors.Is(err, payment.ErrNotForThis) || len(b.remote.Settles()) != 0 {
		t.Errorf("%d calls and %v", len(b.remote.Settles()), err)
	}
}
