package authtest

import (
	"crypto/sha256"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/x402"
)

// NewStore makes an empty pair of stores. It is called once for each rule.
type NewStore func(t *testing.T) (auth.Challenges, auth.Sessions)

// noon is the time of every rule; stores must not use a clock of their own.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 123e6, time.UTC)

// RunStore checks the promises of auth.Challenges and auth.Sessions. Cards named by reveal
// challenges need not exist; their sessions do.
func RunStore(t *testing.T, newStore NewStore) {
	t.Helper()
	for _, rule := range []struct {
		name string
		test func(*testing.T, auth.Challenges, auth.Sessions)
	}{
		{"a challenge comes back as it was stored", challengeComesBack},
		{"what is not there is ErrNotFound", nothingThere},
		{"one of fifty consumes a challenge", oneConsumes},
		{"an expired challenge cannot be consumed", expiredStays},
		{"the latest challenge is the wallet's newest open one of the purpose", latestIsNewestOpen},
		{"a session comes back as it was stored", sessionComesBack},
		{"a token opens one session", tokenOnce},
		{"a revoked session stays revoked", revokeOnce},
	} {
		t.Run(rule.name, func(t *testing.T) {
			challenges, sessions := newStore(t)
			rule.test(t, challenges, sessions)
		})
	}
}

func challengeComesBack(t *testing.T, challenges auth.Challenges, sessions auth.Sessions) {
	wallet := x402.Address{1, 2, 3}
	s := storedSession(t, sessions, wallet)
	signIn := newChallenge(wallet, auth.PurposeSignIn)
	reveal := newChallenge(wallet, auth.PurposeReveal)
	reveal.Scheme, reveal.CardID, reveal.SessionID = auth.EIP712, uuid.New(), s.ID
	sealed := reveal
	sealed.ID, sealed.Nonce, sealed.RecipientKey = uuid.New(), "sealed1234",
		[]byte("0123456789abcdef\x00123456789abcde\xff")
	for _, want := range []auth.Challenge{signIn, reveal, sealed} {
		create(t, challenges, want)
		sameChallenge(t, want, find(t, challenges, want.ID))
	}
	if err := challenges.Create(t.Context(), signIn); err == nil {
		t.Error("a challenge could be stored twice")
	}
}

func nothingThere(t *testing.T, challenges auth.Challenges, sessions auth.Sessions) {
	if _, err := challenges.Find(t.Context(), uuid.New()); !errors.Is(err, auth.ErrNotFound) {
		t.Errorf("Find: %v", err)
	}
	if _, err := challenges.Latest(t.Context(), x402.Address{9}, auth.PurposeSignIn); !errors.Is(err, auth.ErrNotFound) {
		t.Errorf("Latest: %v", err)
	}
	if spent, err := challenges.Consume(t.Context(), uuid.New(), noon); spent || err != nil {
		t.Errorf("Consume = %v, %v", spent, err)
	}
	if _, err := sessions.FindByHash(t.Context(), sha256.Sum256([]byte("none"))); !errors.Is(err, auth.ErrNotFound) {
		t.Errorf("FindByHash: %v", err)
	}
	if err := sessions.Revoke(t.Context(), uuid.New(), noon); err != nil {
		t.Errorf("Revoke: %v", err)
	}
}

func oneConsumes(t *testing.T, challenges auth.Challenges, _ auth.Sessions) {
	c := newChallenge(x402.Address{1}, auth.PurposeSignIn)
	other := newChallenge(x402.Address{1}, auth.PurposeSignIn)
	create(t, challenges, c)
	create(t, challenges, other)
	now := noon.Add(time.Minute)

	const racers = 50
	var winners atomic.Int32
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range racers {
		wg.Go(func() {
			<-start
			spent, err := challenges.Consume(t.Context(), c.ID, now)
			if err != nil {
				t.Errorf("Consume: %v", err)
			}
			if spent {
				winners.Add(1)
			}
		})
	}
	close(start)
	wg.Wait()
	if n := winners.Load(); n != 1 {
		t.Fatalf("%d of %d consumed the challenge", n, racers)
	}
	c.ConsumedAt = &now
	sameChallenge(t, c, find(t, challenges, c.ID))
	sameChallenge(t, other, find(t, challenges, other.ID))
}

func expiredStays(t *testing.T, challenges auth.Challenges, _ auth.Sessions) {
	c := newChallenge(x402.Address{1}, auth.PurposeSignIn)
	create(t, challenges, c)
	for _, now := range []time.Time{c.ExpiresAt, c.ExpiresAt.Add(time.Hour)} {
		if spent, err := challenges.Consume(t.Context(), c.ID, now); spent || err != nil {
			t.Errorf("Consume at %s = %v, %v", now, spent, err)
		}
	}
	sameChallenge(t, c, find(t, challenges, c.ID))
	if spent, err := challenges.Consume(t.Context(), c.ID, c.ExpiresAt.Add(-time.Millisecond)); !spent || err != nil {
		t.Errorf("Consume in the last moment = %v, %v", spent, err)
	}
}

func latestIsNewestOpen(t *testing.T, challenges auth.Challenges, sessions auth.Sessions) {
	mine, theirs := x402.Address{1}, x402.Address{2}
	s := storedSession(t, sessions, mine)
	issued := func(wallet x402.Address, purpose auth.Purpose, later time.Duration) auth.Challenge {
		c := newChallenge(wallet, purpose)
		c.IssuedAt = c.IssuedAt.Add(later)
		c.ExpiresAt = c.ExpiresAt.Add(later)
		if purpose == auth.PurposeReveal {
			c.CardID, c.SessionID = uuid.New(), s.ID
		}
		create(t, challenges, c)
		return c
	}
	newest := issued(mine, auth.PurposeSignIn, 2*time.Millisecond)
	older := issued(mine, auth.PurposeSignIn, time.Millisecond)
	issued(mine, auth.PurposeSignIn, 0)
	issued(theirs, auth.PurposeSignIn, 3*time.Millisecond)
	reveal := issued(mine, auth.PurposeReveal, 4*time.Millisecond)

	latest := func(purpose auth.Purpose) auth.Challenge {
		c, err := challenges.Latest(t.Context(), mine, purpose)
		if err != nil {
			t.Fatalf("Latest: %v", err)
		}
		return c
	}
	sameChallenge(t, newest, latest(auth.PurposeSignIn))
	sameChallenge(t, reveal, latest(auth.PurposeReveal))
	if spent, err := challenges.Consume(t.Context(), newest.ID, noon); !spent || err != nil {
		t.Fatalf("Consume = %v, %v", spent, err)
	}
	sameChallenge(t, older, latest(auth.PurposeSignIn))
}

func sessionComesBack(t *testing.T, _ auth.Challenges, sessions auth.Sessions) {
	for _, scopes := range [][]auth.Scope{
		{auth.ScopeOrders, auth.ScopeCards, auth.ScopeReveal, auth.ScopeActivity}, {auth.ScopeOrders},
	} {
		want := newSession(x402.Address{7})
		want.Scopes = scopes
		if err := sessions.Create(t.Context(), want); err != nil {
			t.Fatalf("Create: %v", err)
		}
		sameSession(t, want, findSession(t, sessions, want.TokenHash))
	}
}

func tokenOnce(t *testing.T, _ auth.Challenges, sessions auth.Sessions) {
	first := storedSession(t, sessions, x402.Address{1})
	second := newSession(x402.Address{2})
	second.TokenHash = first.TokenHash
	if err := sessions.Create(t.Context(), second); err == nil {
		t.Error("two sessions share a token")
	}
	sameSession(t, first, findSession(t, sessions, first.TokenHash))
}

func revokeOnce(t *testing.T, _ auth.Challenges, sessions auth.Sessions) {
	s, other := storedSession(t, sessions, x402.Address{1}), storedSession(t, sessions, x402.Address{1})
	at := noon.Add(time.Minute)
	for _, now := range []time.Time{at, at.Add(time.Minute)} {
		if err := sessions.Revoke(t.Context(), s.ID, now); err != nil {
			t.Fatalf("Revoke: %v", err)
		}
	}
	s.RevokedAt = &at
	sameSession(t, s, findSession(t, sessions, s.TokenHash))
	sameSession(t, other, findSession(t, sessions, other.TokenHash))
}

func newChallenge(wallet x402.Address, purpose auth.Purpose) auth.Challenge {
	return auth.Challenge{
		ID: uuid.New(), Purpose: purpose, Wallet: wallet, Scheme: auth.EIP191,
		Message: "line one\nline two: \u00fc", Nonce: "nonce" + uuid.NewString()[:8],
		IssuedAt: noon, ExpiresAt: noon.Add(5 * time.Minute),
	}
}

func newSession(wallet x402.Address) auth.Session {
	id := uuid.New()
	return auth.Session{
		ID: id, Wallet: wallet, Scopes: []auth.Scope{auth.ScopeOrders, auth.ScopeCards},
		TokenHash: sha256.Sum256(id[:]), IssuedAt: noon, ExpiresAt: noon.Add(time.Hour),
	}
}

func storedSession(t *testing.T, sessions auth.Sessions, wallet x402.Address) auth.Session {
	t.Helper()
	s := newSession(wallet)
	if err := sessions.Create(t.Context(), s); err != nil {
		t.Fatalf("Create: %v", err)
	}
	return s
}

func create(t *testing.T, challenges auth.Challenges, c auth.Challenge) {
	t.Helper()
	if err := challenges.Create(t.Context(), c); err != nil {
		t.Fatalf("Create: %v", err)
	}
}

func find(t *testing.T, challenges auth.Challenges, id uuid.UUID) auth.Challenge {
	t.Helper()
	c, err := challenges.Find(t.Context(), id)
	if err != nil {
		t.Fatalf("Find: %v", err)
	}
	return c
}

func findSession(t *testing.T, sessions auth.Sessions, hash [32]byte) auth.Session {
	t.Helper()
	s, err := sessions.FindByHash(t.Context(), hash)
	if err != nil {
		t.Fatalf("FindByHash: %v", err)
	}
	return s
}

func sameChallenge(t *testing.T, want, got auth.Challenge) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("challenge (-want +got):\n%s", diff)
	}
}

func sameSession(t *testing.T, want, got auth.Session) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("session (-want +got):\n%s", diff)
	}
}
