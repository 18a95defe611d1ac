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
		{"one of fifty spends a challenge that was not stored before", oneSpends},
		{"an expired challenge cannot be consumed", expiredStays},
		{"a void challenge cannot be consumed", voidStays},
		{"open challenges are the wallet's of the purpose that can be consumed", openOfThePurpose},
		{"no source takes the place of another among the open challenges", openOfEachSource},
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
	signIn.Source = "one"
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
	open, err := challenges.Open(t.Context(), x402.Address{9}, auth.PurposeSignIn, "", noon)
	if len(open) != 0 || err != nil {
		t.Errorf("Open = %v, %v", open, err)
	}
	if err := challenges.Void(t.Context(), uuid.New(), noon); err != nil {
		t.Errorf("Void: %v", err)
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

func oneSpends(t *testing.T, challenges auth.Challenges, _ auth.Sessions) {
	now := noon.Add(time.Minute)
	c, other := newChallenge(x402.Address{1}, auth.PurposeRequest), newChallenge(x402.Address{1}, auth.PurposeRequest)
	c.ConsumedAt, other.ConsumedAt = &now, &now
	var winners atomic.Int32
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			fresh, err := challenges.Spend(t.Context(), c)
			if err != nil {
				t.Errorf("Spend: %v", err)
			}
			if fresh {
				winners.Add(1)
			}
		})
	}
	wg.Wait()
	if n := winners.Load(); n != 1 {
		t.Fatalf("%d of 50 spent the challenge", n)
	}
	sameChallenge(t, c, find(t, challenges, c.ID))
	if spent, err := challenges.Consume(t.Context(), c.ID, now); spent || err != nil {
		t.Errorf("Consume of a spent one = %v, %v", spent, err)
	}
	open, err := challenges.Open(t.Context(), x402.Address{1}, auth.PurposeRequest, "", now)
	if len(open) != 0 || err != nil {
		t.Errorf("open after it is spent: %v, %v", open, err)
	}
	if fresh, err := challenges.Spend(t.Context(), other); !fresh || err != nil {
		t.Errorf("Spend of another = %v, %v", fresh, err)
	}
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

func voidStays(t *testing.T, challenges auth.Challenges, _ auth.Sessions) {
	c := newChallenge(x402.Address{1}, auth.PurposeSignIn)
	create(t, challenges, c)
	first := noon.Add(time.Second)
	for _, now := range []time.Time{first, noon.Add(time.Minute)} {
		if err := challenges.Void(t.Context(), c.ID, now); err != nil {
			t.Fatalf("Void: %v", err)
		}
	}
	if spent, err := challenges.Consume(t.Context(), c.ID, noon.Add(time.Minute)); spent || err != nil {
		t.Errorf("Consume = %v, %v", spent, err)
	}
	c.ConsumedAt = &first
	sameChallenge(t, c, find(t, challenges, c.ID))
}

// asked stores a challenge that was asked for from a source, some time after noon.
func asked(
	t *testing.T, challenges auth.Challenges, wallet x402.Address, source string, later time.Duration,
) auth.Challenge {
	t.Helper()
	c := newChallenge(wallet, auth.PurposeSignIn)
	c.Source, c.IssuedAt, c.ExpiresAt = source, c.IssuedAt.Add(later), c.ExpiresAt.Add(later)
	create(t, challenges, c)
	return c
}

func openIDs(t *testing.T, challenges auth.Challenges, source string, now time.Time) []uuid.UUID {
	t.Helper()
	open, err := challenges.Open(t.Context(), x402.Address{1}, auth.PurposeSignIn, source, now)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	ids := make([]uuid.UUID, 0, len(open))
	for _, c := range open {
		ids = append(ids, c.ID)
	}
	return ids
}

func openOfThePurpose(t *testing.T, challenges auth.Challenges, sessions auth.Sessions) {
	mine, theirs := x402.Address{1}, x402.Address{2}
	s := storedSession(t, sessions, mine)
	newest := asked(t, challenges, mine, "home", 3*time.Second)
	older := asked(t, challenges, mine, "home", 2*time.Second)
	oldest := asked(t, challenges, mine, "home", time.Second)
	used := asked(t, challenges, mine, "home", 4*time.Second)
	asked(t, challenges, theirs, "home", 0)
	reveal := newChallenge(mine, auth.PurposeReveal)
	reveal.CardID, reveal.SessionID = uuid.New(), s.ID
	create(t, challenges, reveal)
	if spent, err := challenges.Consume(t.Context(), used.ID, noon); !spent || err != nil {
		t.Fatalf("Consume = %v, %v", spent, err)
	}
	want := []uuid.UUID{newest.ID, older.ID}
	if diff := cmp.Diff(want, openIDs(t, challenges, "home", oldest.ExpiresAt)); diff != "" {
		t.Errorf("open when the oldest has expired (-want +got):\n%s", diff)
	}
	open, err := challenges.Open(t.Context(), mine, auth.PurposeReveal, "", noon)
	if err != nil || len(open) != 1 {
		t.Fatalf("open reveals %v, %v", open, err)
	}
	sameChallenge(t, reveal, open[0])
}

// openOfEachSource has one source ask for more than all that are returned, after everybody else.
func openOfEachSource(t *testing.T, challenges auth.Challenges, _ auth.Sessions) {
	mine := x402.Address{1}
	home, office := asked(t, challenges, mine, "home", 0), asked(t, challenges, mine, "office", 0)
	earlier := asked(t, challenges, mine, "office", -time.Second)
	var flood []uuid.UUID // the newest first
	for i := range auth.OpenAtMost + 1 {
		c := asked(t, challenges, mine, "flood", time.Duration(i+1)*time.Millisecond)
		flood = append([]uuid.UUID{c.ID}, flood...)
	}
	others := append([]uuid.UUID{flood[0], office.ID, flood[1], earlier.ID}, flood[2:]...)
	want := append([]uuid.UUID{home.ID}, others...)[:auth.OpenAtMost]
	if diff := cmp.Diff(want, openIDs(t, challenges, "home", noon)); diff != "" {
		t.Errorf("open for who asked once (-want +got):\n%s", diff)
	}
	want = append(append([]uuid.UUID{}, flood[:auth.OpenOfSource]...), office.ID, home.ID, earlier.ID)
	got := openIDs(t, challenges, "flood", noon)
	// Two that were issued at the same time come in either order.
	if len(got) == len(want) && got[auth.OpenOfSource] == home.ID {
		want[auth.OpenOfSource], want[auth.OpenOfSource+1] = home.ID, office.ID
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("open for who asked without end (-want +got):\n%s", diff)
	}
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
