package doctor

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/approval"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/oidc"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/testing/oidctest"
)

func TestIssuerThatDoesNotAnswerByItsNameIsFound(t *testing.T) {
	answers := oidctest.New(t, time.Now)
	answers.AddKey(t, "k1")
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, answers.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(elsewhere.Close)
	for name, tt := range map[string]struct{ issuer, want string }{
		"none":              {"", statusSkip},
		"right":             {answers.URL, statusOK},
		"with another path": {answers.URL + "/realms/staff", statusFail},
		"another address":   {elsewhere.URL, statusFail},
		"nobody":            {"http://127.0.0.1:1", statusFail},
	} {
		found := examineOperators(t.Context(), app.Config{Issuer: oidc.Config{Issuer: tt.issuer}})[0]
		if found.Status != tt.want || (found.Status == statusFail) != (found.Fix != "") {
			t.Errorf("%s: %+v, want %s", name, found, tt.want)
		}
	}
}

func TestSecondApproverHasToBePossible(t *testing.T) {
	at := storetest.URL(t)
	s, err := store.Open(t.Context(), store.Config{URL: at, MaxConns: 1, Now: time.Now, Products: storetest.Products()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	mint := func(name string, role auth.Role, ends time.Duration, minters ...string) {
		t.Helper()
		now := time.Now().UTC()
		_, _, err := s.OperatorTokens().Mint(t.Context(), auth.OperatorToken{
			ID: uuid.Must(uuid.NewV7()), Name: name, Role: role, Hash: [32]byte([]byte(strings.Repeat(name[:1], 32))),
			Minters: minters, MintedAt: now, ExpiresAt: now.Add(ends),
		}, order.OperatorContext{Operator: minters[0], Key: name, Reason: "r"})
		if err != nil {
			t.Fatal(err)
		}
	}
	root := auth.Operator{Name: "root"}
	one := app.Config{
		DatabaseURL: secret.New(at), SecondOperator: approval.Rule{Above: 100}, Operators: []auth.Operator{root},
	}
	with := func(change func(*app.Config)) app.Config {
		c := one
		change(&c)
		return c
	}
	want := func(name string, c app.Config, want string) {
		t.Helper()
		found := examineSecondApprover(t.Context(), c)
		if found.Status != want || (found.Status == statusFail) != (found.Fix != "") {
			t.Errorf("%s: %+v, want %s", name, found, want)
		}
	}
	want("no amount", with(func(c *app.Config) { c.SecondOperator.Above = 0 }), statusSkip)
	want("one", one, statusFail)
	want("no database", with(func(c *app.Config) {
		c.DatabaseURL = secret.New("postgres://127.0.0.1:1/none")
	}), statusSkip)
	want("two of the configuration", with(func(c *app.Config) {
		c.Operators = []auth.Operator{root, {Name: "ben", Role: auth.RoleTreasurer}}
	}), statusOK)
	want("one and a viewer", with(func(c *app.Config) {
		c.Operators = []auth.Operator{root, {Name: "eve", Role: auth.RoleViewer}}
	}), statusFail)
	issuer := func(role auth.Role) app.Config {
		return with(func(c *app.Config) {
			c.Issuer = oidc.Config{Issuer: "https://login.example.com", Roles: map[string]auth.Role{"staff": role}}
		})
	}
	want("an issuer", issuer(auth.RoleTreasurer), statusOK)
	want("an issuer of viewers", issuer(auth.RoleViewer), statusFail)
	mint("ann", auth.RoleTreasurer, time.Hour, "root")
	mint("carol", auth.RoleAdmin, time.Hour, "root")
	mint("dave", auth.RoleTreasurer, time.Hour, "carol", "root")
	want("all of one minter", one, statusFail)
	mint("vera", auth.RoleViewer, time.Hour, "chief")
	want("and a viewer of another", one, statusFail)
	mint("erik", auth.RoleTreasurer, time.Hour, "chief")
	want("and a treasurer of another", one, statusOK)
	if n, err := s.OperatorTokens().Active(t.Context()); err != nil || len(n) != 5 {
		t.Errorf("%d active tokens, %v", len(n), err)
	}
}
