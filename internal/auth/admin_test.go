package auth_test

import (
	"crypto/sha256"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// clock is a time that only the test changes.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// bench is an Auth with its stores and clock.
type bench struct {
	*auth.Auth
	challenges *authtest.Challenges
	sessions   *authtest.Sessions
	clock      *clock
	config     auth.Config
}

func newBench(t *testing.T) *bench {
	t.Helper()
	d := &bench{
		challenges: new(authtest.Challenges), sessions: new(authtest.Sessions),
		clock: &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)},
	}
	d.config = auth.Config{
		Challenges: d.challenges, Sessions: d.sessions,
		Domain: "cards.example:8402", URI: "https://cards.example:8402", ChainID: 8453, Now: d.clock.Now,
		ActivityWallets: []x402.Address{authtest.NewWallet(t, "analyst").Address()},
		Operators: []auth.Operator{
			{Name: "alice", Hash: sha256.Sum256([]byte("rco_alice"))},
			{Name: "bob", Hash: sha256.Sum256([]byte("rco_bob"))},
		},
	}
	d.Auth = d.with(t, func(*auth.Config) {})
	return d
}

// with is another Auth on the same stores and clock.
func (d *bench) with(t *testing.T, change func(*auth.Config)) *auth.Auth {
	t.Helper()
	cfg := d.config
	change(&cfg)
	a, err := auth.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// signIn signs a wallet in and returns its caller and the header that says so.
func (d *bench) signIn(t *testing.T, w authtest.Wallet) (auth.Caller, string) {
	t.Helper()
	c, document, err := d.Challenge(t.Context(), w.Address(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, token, err := d.Verify(t.Context(), auth.VerifyRequest{
		Wallet: w.Address(), IntentID: c.ID, Signature: w.Sign(c, document),
	})
	if err != nil {
		t.Fatal(err)
	}
	header := "Bearer " + token.Reveal()
	caller, err := d.Authenticate(t.Context(), header)
	if err != nil {
		t.Fatal(err)
	}
	return caller, header
}

// consumed reports whether a challenge is used.
func (d *bench) consumed(t *testing.T, c auth.Challenge) bool {
	t.Helper()
	stored, err := d.challenges.Find(t.Context(), c.ID)
	if err != nil {
		t.Fatal(err)
	}
	return stored.ConsumedAt != nil
}

// uniform collects faults and checks that they are indistinguishable.
type uniform struct {
	code fault.Code
	seen *fault.Fault
}

func (u *uniform) check(t *testing.T, err error) {
	t.Helper()
	f, ok := fault.As(err)
	if !ok || f.Code != u.code {
		t.Fatalf("err = %v, want %s", err, u.code)
	}
	if u.seen == nil {
		u.seen = f
	}
	if f.Error() != u.seen.Error() || len(f.Fields) > 0 || f.RetryAfter != 0 || f.OrderID != "" ||
		errors.Unwrap(f) != nil {
		t.Errorf("%v can be told from %v", f, u.seen)
	}
}

var bothSchemes = []auth.Scheme{auth.EIP191, auth.EIP712}

func otherScheme(s auth.Scheme) auth.Scheme {
	if s == auth.EIP191 {
		return auth.EIP712
	}
	return auth.EIP191
}
