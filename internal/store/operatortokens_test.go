package store_test

import (
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

func mintedToken(name string, text string) auth.OperatorToken {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return auth.OperatorToken{
		ID: uuid.Must(uuid.NewV7()), Name: name, Role: auth.RoleSupport, Hash: sha256.Sum256([]byte(text)),
		Minters: []string{"root"}, MintedAt: now, ExpiresAt: now.Add(time.Hour),
	}
}

func TestTokenIsMintedOncePerKeyAndKeptAsHash(t *testing.T) {
	s := storetest.New(t)
	tokens, act := s.OperatorTokens(), order.OperatorContext{Operator: "root", Key: "1", Reason: "night shift"}
	first := mintedToken("ann", "one")
	made, fresh, err := tokens.Mint(t.Context(), first, act)
	if err != nil || !fresh || made.ID != first.ID {
		t.Fatalf("%+v, %t, %v", made, fresh, err)
	}
	made, fresh, err = tokens.Mint(t.Context(), mintedToken("ann", "two"), act)
	if err != nil || fresh || made.ID != first.ID || made.Hash != first.Hash {
		t.Errorf("the key again: %+v, %t, %v", made, fresh, err)
	}
	other := mintedToken("ann", "three")
	other.Role = auth.RoleAdmin
	if _, _, err := tokens.Mint(t.Context(), other, act); !errors.Is(err, order.KeyReused()) {
		t.Errorf("the key for another role: %v", err)
	}
	if n := rows(t, s, "SELECT count(*) FROM operator_tokens"); n != 1 {
		t.Errorf("%d tokens", n)
	}
	if n := rows(t, s, "SELECT count(*) FROM audit WHERE action = 'token.mint' AND reason = 'night shift' AND "+
		"after::text LIKE '%support%'"); n != 1 {
		t.Errorf("%d audit records", n)
	}
	if _, err := tokens.UseToken(t.Context(), sha256.Sum256([]byte("two")), time.Now()); !errors.Is(err,
		auth.ErrNotFound) {
		t.Errorf("a token that was never stored: %v", err)
	}
}

func TestUseOfATokenIsRecordedToTheMinute(t *testing.T) {
	s := storetest.New(t)
	tokens, minted := s.OperatorTokens(), mintedToken("ann", "one")
	if _, _, err := tokens.Mint(t.Context(), minted,
		order.OperatorContext{Operator: "root", Key: "1", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	last := func(at time.Time) *time.Time {
		t.Helper()
		if _, err := tokens.UseToken(t.Context(), minted.Hash, at); err != nil {
			t.Fatal(err)
		}
		page, err := tokens.Tokens(t.Context(), admin.TokenQuery{Limit: 1}, order.OperatorContext{Operator: "root"})
		if err != nil || len(page) != 1 {
			t.Fatalf("%+v, %v", page, err)
		}
		return page[0].LastUsedAt
	}
	at := minted.MintedAt
	for _, tc := range []struct{ used, want time.Time }{
		{at, at}, {at.Add(59 * time.Second), at}, {at.Add(time.Minute), at.Add(time.Minute)},
		{at.Add(2 * time.Hour), at.Add(time.Minute)}, // expired
	} {
		if got := last(tc.used); got == nil || !got.Equal(tc.want) {
			t.Errorf("used at %s: %v, want %s", tc.used.Sub(at), got, tc.want.Sub(at))
		}
	}
}

func TestRevokedTokenStaysRevoked(t *testing.T) {
	s := storetest.New(t)
	tokens, minted := s.OperatorTokens(), mintedToken("ann", "one")
	if _, _, err := tokens.Mint(t.Context(), minted,
		order.OperatorContext{Operator: "root", Key: "1", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"1", "1", "2"} {
		got, err := tokens.Revoke(t.Context(), minted.ID, order.OperatorContext{Operator: "root", Key: key, Reason: "lost"})
		if err != nil || got.RevokedAt == nil || got.RevokedBy != "root" {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if _, err := tokens.Revoke(t.Context(), uuid.New(), order.OperatorContext{Operator: "root", Key: "3"}); !errors.Is(err,
		admin.ErrTokenNotFound) {
		t.Errorf("a token that is none: %v", err)
	}
	if got, err := tokens.UseToken(t.Context(), minted.Hash, time.Now()); err != nil || got.RevokedAt == nil ||
		got.LastUsedAt != nil {
		t.Errorf("used: %+v, %v", got, err)
	}
	for status, want := range map[admin.TokenStatus]int{
		admin.TokenActive: 0, admin.TokenExpired: 0, admin.TokenRevoked: 1, "": 1,
	} {
		page, err := tokens.Tokens(t.Context(), admin.TokenQuery{Status: status, Limit: 9},
			order.OperatorContext{Operator: "root"})
		if err != nil || len(page) != want {
			t.Errorf("%q: %+v, %v", status, page, err)
		}
	}
	if _, err := s.Pool().Exec(t.Context(), "DELETE FROM operator_tokens"); err == nil {
		t.Error("a token was deleted")
	}
}

func TestRefusalByRoleIsKept(t *testing.T) {
	s := storetest.New(t)
	who := auth.Caller{Kind: auth.KindOperator, Name: "ann", Role: auth.RoleViewer}
	if err := s.OperatorTokens().Refused(t.Context(), who, "DecideOrder", auth.RoleTreasurer); err != nil {
		t.Fatal(err)
	}
	if n := rows(t, s, "SELECT count(*) FROM audit WHERE actor = 'ann' AND action = 'operator.refused' AND "+
		"subject = 'DecideOrder' AND after = '{\"role\": \"viewer\", \"needed\": \"treasurer\"}'"); n != 1 {
		t.Errorf("%d records", n)
	}
}
