package app

import (
	"errors"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/approval"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/oidc"
)

func TestListenersHaveAddressesOfTheirOwn(t *testing.T) {
	for _, tt := range []struct {
		addr, other string
		same        bool
	}{
		{"127.0.0.1:8402", "127.0.0.1:8402", true},
		{"127.0.0.1:8402", "127.0.0.1:8403", false},
		{"127.0.0.1:8402", "10.0.0.5:8402", false},
		{"0.0.0.0:8402", "127.0.0.1:8402", true},
		{":8402", "10.0.0.5:8402", true},
		{"[::]:8402", "10.0.0.5:8402", true},
		{"0.0.0.0:8402", "[::1]:8402", false},
		{"localhost:8402", "127.0.0.1:8402", true},
		{"0.0.0.0:8402", "cards.example:8402", true},
		{"cards.example:8402", "cards.example:8402", true},
		{"cards.example:8402", "10.0.0.5:8402", false},
		{"127.0.0.1:http", "127.0.0.1:80", true},
		{"127.0.0.1:0", "127.0.0.1:0", false},
		{":0", ":0", false},
	} {
		for _, c := range []Config{{Addr: tt.addr, MetricsAddr: tt.other}, {AdminAddr: tt.other, ConsoleAddr: tt.addr}} {
			if wrong := c.addressMistakes(); (len(wrong) > 0) != tt.same {
				t.Errorf("%s and %s: %v", tt.addr, tt.other, wrong)
			}
		}
	}
	told := errors.Join(Config{
		Addr: ":1", MetricsAddr: "nowhere", AdminAddr: "10.0.0.5:1", ConsoleAddr: "127.0.0.1:1",
	}.addressMistakes()...).Error() + "\n" + errors.Join(Config{Addr: "file:/nope"}.addressMistakes()...).Error()
	for _, want := range []string{
		`addr: "/nope" is no port`,
		"metrics.addr: is not host:port", "admin.addr: 10.0.0.5:1 is", "console.addr: 127.0.0.1:1 is",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("%q is not told:\n%s", want, told)
		}
	}
}

func TestHalfAnIssuerIsAMistake(t *testing.T) {
	roles := map[string]auth.Role{"finance": auth.RoleTreasurer}
	for name, tt := range map[string]struct {
		issuer oidc.Config
		want   []string
	}{
		"none":                 {oidc.Config{}, nil},
		"none, as the default": {oidc.Config{NameClaim: oidc.DefaultNameClaim, RoleClaim: oidc.DefaultRoleClaim}, nil},
		"only an audience":     {oidc.Config{Audience: "roamcard"}, []string{"oidc.issuer"}},
		"only roles":           {oidc.Config{Roles: roles}, []string{"oidc.issuer"}},
		"only a claim":         {oidc.Config{NameClaim: "email"}, []string{"oidc.issuer"}},
		"only an issuer":       {oidc.Config{Issuer: "https://login.example.com"}, []string{"oidc.audience", "oidc.roles"}},
		"all":                  {oidc.Config{Issuer: "https://login.example.com", Audience: "roamcard", Roles: roles}, nil},
	} {
		wrong := Config{Issuer: tt.issuer}.operatorMistakes()
		if len(wrong) != len(tt.want) {
			t.Errorf("%s: %v", name, wrong)
			continue
		}
		for i, key := range tt.want {
			if !strings.HasPrefix(wrong[i].Error(), key+": must be set") {
				t.Errorf("%s: %v", name, wrong[i])
			}
		}
	}
}

// TestConfiguredOperatorIsNobodyOfTheIssuers: a name with a mark is made by signing in alone.
func TestConfiguredOperatorIsNobodyOfTheIssuers(t *testing.T) {
	hash := strings.Repeat("0a", 32)
	if _, err := operators("ann:" + hash + ",ann@example.com:" + hash); err != nil {
		t.Errorf("without a mark: %v", err)
	}
	if _, err := operators("ann~vtrhwoucqfog2m2i:" + hash); err == nil {
		t.Error("a name has a mark")
	}
}

// TestOperatorMayHaveTwoTokens of one role; a token is one operator's, and what starts is what is checked.
func TestOperatorMayHaveTwoTokens(t *testing.T) {
	one, two := ":"+strings.Repeat("0a", 32), ":"+strings.Repeat("0b", 32)
	for given, want := range map[string]string{
		"ann" + one + ",ann" + two:                          "",
		"ann" + one + ",ann" + two + ":admin":               "",
		"ann" + one + ",bob" + two:                          "",
		"ann" + one + ",bob" + one:                          "operators: operator \"bob\" has a token that was named",
		"ann" + one + ",ann" + one:                          "operators: operator \"ann\" has a token that was named",
		"ann" + one + ",ann" + two + ":viewer":              "operators: operator \"ann\" has two roles, admin and viewer",
		"ann" + one + ":treasurer,ann" + two + ":treasurer": "",
	} {
		all, err := operators(given)
		if err != nil {
			t.Fatal(err)
		}
		wrong := errors.Join(Config{Operators: all}.operatorMistakes()...)
		if want == "" && wrong != nil || want != "" && (wrong == nil || wrong.Error() != want) {
			t.Errorf("%s: %v", given, wrong)
		}
	}
}

// TestTwoTokensOfOneNameAreOnePerson: nobody approves what they have asked for by their other token.
func TestTwoTokensOfOneNameAreOnePerson(t *testing.T) {
	c := Config{Operators: []auth.Operator{{Name: "ann", Hash: [32]byte{1}}, {Name: "ann", Hash: [32]byte{2}}}}
	if all, _ := c.Treasurers(); len(all) != 2 || approval.Possible(all) {
		t.Errorf("second operators among %v", all)
	}
	c.Operators = append(c.Operators, auth.Operator{Name: "bob", Hash: [32]byte{3}})
	if all, _ := c.Treasurers(); !approval.Possible(all) {
		t.Errorf("no second operator among %v", all)
	}
}
