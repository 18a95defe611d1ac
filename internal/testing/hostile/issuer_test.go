package hostile_test

import (
	"crypto/x509"
	"encoding/pem"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/testing/oidctest"
)

// issuer is an issuer of OpenID Connect with one key, and an address of the attacker's that also has one.
type issuer struct {
	*oidctest.Issuer
	key, theirs oidctest.Key
	// elsewhere is the attacker's address.
	elsewhere string
}

const attackersKeys = "/attacker"

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{Issuer: oidctest.New(t, time.Now), theirs: oidctest.NewKey(t, "k1")}
	i.key, i.elsewhere = i.AddKey(t, "k1"), i.Publish(attackersKeys, i.theirs)
	return i
}

// good is what the issuer says of an operator with the role support, with changes.
func (i *issuer) good(changes map[string]any) map[string]any {
	all := map[string]any{"sub": "mallory"}
	maps.Copy(all, changes)
	return i.Claims(all)
}

func (s *staff) forgeTokens(r *trial) {
	i := s.issuer
	real := i.key.Sign(r, i.good(nil))
	r.keep("an issuer's token", real)
	var me struct{ Operator, Role string }
	s.as(r, real, http.MethodGet, "/api/admin/whoami", nil).into(r, &me)
	if me.Role != "support" {
		r.Fatalf("the right token is of %+v", me)
	}
	public, err := x509.MarshalPKIXPublicKey(&i.key.PublicKey)
	if err != nil {
		r.Fatal(err)
	}
	with := func(header map[string]any, sign oidctest.Signature) string {
		return oidctest.Token(r, header, i.good(nil), sign)
	}
	signed := func(name string, value any) string { return i.key.Sign(r, i.good(map[string]any{name: value})) }
	hs := map[string]any{"alg": "HS256", "kid": "k1"}
	theirs := oidctest.RS256(r, i.theirs)
	written := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	own := map[string]any{"alg": "RS256", "kid": "k1", "jwk": i.theirs.Public()}
	away := map[string]any{"alg": "RS256", "kid": "k2", "jku": i.elsewhere}
	parts := strings.Split(real, ".")
	raised := oidctest.Part(r, i.good(map[string]any{"groups": []string{"root"}}))
	for name, forged := range map[string]string{
		"unsigned":                     with(map[string]any{"alg": "none", "kid": "k1"}, oidctest.Unsigned),
		"unsigned, in another case":    with(map[string]any{"alg": "nOnE"}, oidctest.Unsigned),
		"without its signature":        parts[0] + "." + parts[1] + ".",
		"with the public key as PEM":   with(hs, oidctest.HS256(written)),
		"with the public key as bytes": with(hs, oidctest.HS256(public)),
		"with an empty secret":         with(hs, oidctest.HS256(nil)),
		"with another key":             with(map[string]any{"alg": "RS256", "kid": "k1", "typ": "JWT"}, theirs),
		"with a key of its own":        with(own, theirs),
		"with keys at an address":      with(away, theirs),
		"of another issuer":            signed("iss", "https://elsewhere.example"),
		"of the issuer with a slash":   signed("iss", i.URL+"/"),
		"for another audience":         signed("aud", "another"),
		"that has ended":               signed("exp", time.Now().Add(-time.Hour).Unix()),
		"that has not begun":           signed("nbf", time.Now().Add(time.Hour).Unix()),
		"without an end":               signed("exp", nil),
		"with a raised role":           parts[0] + "." + raised + "." + parts[2],
	} {
		if a := s.as(r, forged, http.MethodGet, "/api/admin/whoami", nil); a.status != http.StatusUnauthorized {
			r.Errorf("a token %s: %d %.200s", name, a.status, a.body)
		}
	}
	for _, group := range []string{"Ops", "ops,root", "nobody"} {
		if a := s.as(r, signed("groups", []string{group}), http.MethodGet, "/api/admin/whoami", nil); a.status !=
			http.StatusForbidden {
			r.Errorf("of the group %s: %d %.200s", group, a.status, a.body)
		}
	}
	if n := i.Visits(attackersKeys); n != 0 {
		r.Errorf("keys were read %d times from where a token said", n)
	}
}
