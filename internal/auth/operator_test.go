package auth_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/fault"
)

// minted is one token that was minted, or a store that fails.
type minted struct {
	token auth.OperatorToken
	err   error
	asked int
}

func (m *minted) UseToken(_ context.Context, hash [32]byte, _ time.Time) (auth.OperatorToken, error) {
	m.asked++
	if m.err == nil && hash != m.token.Hash {
		return auth.OperatorToken{}, auth.ErrNotFound
	}
	return m.token, m.err
}

// issuers knows one token, or fails.
type issuers struct{ err error }

func (i issuers) Identify(context.Context, string) (auth.Identity, error) {
	return auth.Identity{
		Issuer: "https://login.example", Subject: "7", Name: "eve", Role: auth.RoleSupport, ExpiresAt: time.Unix(1, 0),
	}, i.err
}

func TestMintedTokenWorksUntilItsEnd(t *testing.T) {
	d := newBench(t)
	text := auth.MintedPrefix + strings.Repeat("a", 43)
	store := &minted{token: auth.OperatorToken{
		Name: "carol", Role: auth.RoleTreasurer, Hash: sha256.Sum256([]byte(text)), Minters: []string{"alice"},
		ExpiresAt: d.clock.Now().Add(time.Hour),
	}}
	a := d.with(t, func(c *auth.Config) { c.Minted = store })
	who, err := a.Operator(t.Context(), "Bearer "+text)
	if err != nil || who.Kind != auth.KindOperator || who.Name != "carol" || who.Role != auth.RoleTreasurer ||
		who.Source != auth.SourceToken || len(who.Minters) != 1 || !who.ExpiresAt.Equal(store.token.ExpiresAt) {
		t.Fatalf("%+v, %v", who, err)
	}
	refused := uniform{code: fault.OperatorTokenInvalid}
	try := func(header string) {
		t.Helper()
		_, err := a.Operator(t.Context(), header)
		refused.check(t, err)
	}
	try("Bearer " + auth.MintedPrefix + strings.Repeat("b", 43))
	asked := store.asked
	for _, header := range []string{
		"", "Bearer ", text, "Bearer " + text + "a", "Bearer rcs_" + strings.Repeat("a", 43),
	} {
		try(header)
	}
	if store.asked != asked {
		t.Error("what is no such token was looked up")
	}
	revoked := d.clock.Now()
	store.token.RevokedAt = &revoked
	try("Bearer " + text)
	store.token.RevokedAt = nil
	d.clock.pass(time.Hour)
	try("Bearer " + text)
	store.err = errors.New("down")
	if _, err := a.Operator(t.Context(), "Bearer "+text); !errors.Is(err, store.err) ||
		fault.Of(err) == fault.OperatorTokenInvalid {
		t.Errorf("while the store is down: %v", err)
	}
}

func TestOperatorOfTheConfigurationIsAdminUnlessItSays(t *testing.T) {
	d := newBench(t)
	a := d.with(t, func(c *auth.Config) {
		c.Operators = []auth.Operator{
			{Name: "alice", Hash: sha256.Sum256([]byte("one"))},
			{Name: "bob", Hash: sha256.Sum256([]byte("two")), Role: auth.RoleViewer},
		}
	})
	for token, want := range map[string]auth.Role{"one": auth.RoleAdmin, "two": auth.RoleViewer} {
		who, err := a.Operator(t.Context(), "Bearer "+token)
		if err != nil || who.Role != want || who.Source != auth.SourceConfiguration || !who.ExpiresAt.IsZero() {
			t.Errorf("%s: %+v, %v", token, who, err)
		}
	}
	cfg := d.config
	cfg.Operators = []auth.Operator{{Name: "alice", Hash: sha256.Sum256([]byte("one")), Role: "root"}}
	if _, err := auth.New(cfg); err == nil {
		t.Error("an unknown role is taken")
	}
}

func TestIssuerThatIsDownFailsItsOperatorsOnly(t *testing.T) {
	d := newBench(t)
	down := errors.New("connection refused")
	for name, tt := range map[string]struct {
		err  error
		want fault.Code
	}{
		"known": {nil, ""}, "not valid": {auth.ErrNotFound, fault.OperatorTokenInvalid},
		"no role": {auth.ErrNoRole, fault.OperatorRoleMissing}, "down": {down, fault.DependencyDown},
	} {
		a := d.with(t, func(c *auth.Config) { c.Issuer = issuers{tt.err} })
		who, err := a.Operator(t.Context(), "Bearer a.b.c")
		named := who.Name == "eve~vtrhwoucqfog2m2i" && who.Source == auth.SourceIssuer
		if fault.Of(err) != tt.want || err == nil && !named {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
		if _, err := a.Operator(t.Context(), "Bearer rco_alice"); err != nil {
			t.Errorf("%s: an operator of the configuration: %v", name, err)
		}
	}
}

// TestPersonHasAMarkWhateverTheirName: two of one name have two marks, and one of two names has one.
func TestPersonHasAMarkWhateverTheirName(t *testing.T) {
	mark := func(issuer, subject, name string) string {
		t.Helper()
		called := auth.Identity{Issuer: issuer, Subject: subject, Name: name}.Operator()
		before, mark, marked := strings.Cut(called, auth.NameMark)
		if before != name || !marked || len(mark) != 16 {
			t.Errorf("%s is called %s", name, called)
		}
		return mark
	}
	ann := mark("https://a.example", "1", "ann")
	if mark("https://a.example", "1", "anna") != ann {
		t.Error("another name makes another person")
	}
	for _, other := range [][2]string{
		{"https://b.example", "1"}, {"https://a.example", "2"}, {"https://a.example\n1", ""},
	} {
		if mark(other[0], other[1], "ann") == ann {
			t.Errorf("%q is the same person", other)
		}
	}
	cfg := newBench(t).config
	cfg.Operators = []auth.Operator{{Name: "ann~" + ann, Hash: sha256.Sum256([]byte("one"))}}
	if _, err := auth.New(cfg); err == nil {
		t.Error("the configuration names somebody whom the issuer knows")
	}
}

func TestRolesCoverThoseBeforeThem(t *testing.T) {
	for i, r := range auth.Roles() {
		for j, needed := range auth.Roles() {
			if r.Covers(needed) != (i >= j) {
				t.Errorf("%s covers %s: %t", r, needed, r.Covers(needed))
			}
		}
		if r.Covers("") || r.Covers("root") || auth.Role("").Covers(r) || auth.Role("root").Covers(r) {
			t.Errorf("%s and an unknown role", r)
		}
	}
}

// TestBothTokensOfAnOperatorWork, so that one can be replaced without a gap.
func TestBothTokensOfAnOperatorWork(t *testing.T) {
	d := newBench(t)
	a := d.with(t, func(c *auth.Config) {
		c.Operators = []auth.Operator{
			{Name: "alice", Hash: sha256.Sum256([]byte("old")), Role: auth.RoleTreasurer},
			{Name: "alice", Hash: sha256.Sum256([]byte("new")), Role: auth.RoleTreasurer},
		}
	})
	for _, token := range []string{"old", "new"} {
		who, err := a.Operator(t.Context(), "Bearer "+token)
		if err != nil || who.Name != "alice" || who.Role != auth.RoleTreasurer {
			t.Errorf("%s: %+v, %v", token, who, err)
		}
	}
}
