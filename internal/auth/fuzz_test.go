package auth_test

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/handshake"
)

// FuzzAuthorization looks for a header that is accepted and is not the scheme, in any case, with spaces and the one
// valid token.
func FuzzAuthorization(f *testing.F) {
	token := "rcs_" + strings.Repeat("Az0-_", 8) + "Azc"
	sessions := new(authtest.Sessions)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	a, err := auth.New(auth.Config{
		Challenges: new(authtest.Challenges), Sessions: sessions, Domain: "cards.example", URI: "https://cards.example",
		ChainID:   8453,
		Now:       func() time.Time { return now },
		Operators: []auth.Operator{{Name: "alice", Hash: sha256.Sum256([]byte("rco_alice"))}},
	})
	if err != nil {
		f.Fatal(err)
	}
	err = sessions.Create(f.Context(), auth.Session{
		ID: uuid.New(), TokenHash: sha256.Sum256([]byte(token)), IssuedAt: now, ExpiresAt: now.Add(time.Hour),
	})
	if err != nil {
		f.Fatal(err)
	}
	if _, err := a.Authenticate(f.Context(), "Bearer "+token); err != nil {
		f.Fatalf("the right header: %v", err)
	}
	for _, seed := range []string{
		"", "Bearer ", "Bearer " + token, "bearer " + token, "Bearer  " + token, "Bearer " + token + " ",
		"Bearer " + token[:40], token, "Bearer rco_alice",
		"Bearer rco_alice, Bearer " + token, "Basic cm9vdDpyb290", "Bearer \x00", "Bearer " + strings.Repeat("x", 5000),
		"Bearer " + token[:42] + "\n",
	} {
		f.Add(seed)
	}
	brings := func(header, token string) bool {
		spaced, found := strings.CutSuffix(header, token)
		named := strings.TrimRight(spaced, " ")
		return found && len(named) < len(spaced) && strings.EqualFold(named, "Bearer")
	}
	f.Fuzz(func(t *testing.T, header string) {
		if _, err := a.Authenticate(t.Context(), header); (err == nil) != brings(header, token) {
			t.Fatalf("session by %q: %v", header, err)
		} else if err != nil && fault.Of(err) != fault.SessionInvalid {
			t.Fatalf("%q: %v", header, err)
		}
		if _, err := a.Operator(t.Context(), header); (err == nil) != brings(header, "rco_alice") {
			t.Fatalf("operator by %q: %v", header, err)
		} else if err != nil && fault.Of(err) != fault.OperatorTokenInvalid {
			t.Fatalf("%q: %v", header, err)
		}
	})
}

// FuzzRecover looks for a second spelling of a signature.
func FuzzRecover(f *testing.F) {
	digest := handshake.PersonalDigest("hello")
	signature := authtest.NewWallet(f, "ada").SignDigest(digest)
	signer, err := auth.Recover(digest, signature)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(signature)
	f.Add(highS(signature))
	f.Add(flipV(signature))
	f.Add(signature[2:])
	f.Add(signature + "00")
	f.Add("0x" + strings.Repeat("0", 130))
	f.Add("0x" + strings.Repeat("f", 130))
	f.Fuzz(func(t *testing.T, text string) {
		got, err := auth.Recover(digest, text)
		if err != nil || got != signer {
			return
		}
		// Only the case of hex digits, and v as 0 or 1, may differ.
		lower := strings.ToLower(text)
		v := map[string]string{"00": "1b", "01": "1c"}[lower[130:]]
		if lower != signature && lower[:130]+v != signature {
			t.Fatalf("%q proves what %q does", text, signature)
		}
	})
}
