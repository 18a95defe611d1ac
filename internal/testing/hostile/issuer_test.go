package hostile_test

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// issuer is an issuer of OpenID Connect with one key, and an address of the attacker's that also has one.
type issuer struct {
	*httptest.Server
	key, theirs *rsa.PrivateKey
	// elsewhere counts who comes to the attacker's address.
	elsewhere atomic.Int64
}

// claims are what a token says, and header says how it is signed.
type claims map[string]any

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	for _, key := range []**rsa.PrivateKey{&i.key, &i.theirs} {
		made, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		*key = made
	}
	i.Server = httptest.NewServer(http.HandlerFunc(i.serve))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"}) // or it has gone
	case "/keys":
		_ = json.NewEncoder(w).Encode(keySet(i.key)) // as well
	case "/attacker":
		i.elsewhere.Add(1)
		_ = json.NewEncoder(w).Encode(keySet(i.theirs)) // as well
	default:
		http.NotFound(w, r)
	}
}

// keySet is the public key as a set of JSON Web Keys.
func keySet(of *rsa.PrivateKey) map[string]any { return map[string]any{"keys": []any{jwk(of)}} }

func jwk(of *rsa.PrivateKey) map[string]any {
	return map[string]any{
		"kty": "RSA", "kid": "k1", "use": "sig", "alg": "RS256", "n": base64URL(of.N.Bytes()),
		"e": base64URL(big.NewInt(int64(of.E)).Bytes()),
	}
}

func base64URL(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

// good is what the issuer says of an operator with the role support.
func (i *issuer) good(changes ...string) claims {
	now := time.Now()
	c := claims{
		"iss": i.URL, "aud": "roamcard", "sub": "mallory", "groups": []string{"ops"},
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	for n := 0; n+1 < len(changes); n += 2 {
		c[changes[n]] = changes[n+1]
	}
	return c
}

// token makes one; sign gets what is signed.
func token(t testing.TB, header map[string]any, c claims, sign func(signed string) []byte) string {
	t.Helper()
	var parts []string
	for _, part := range []any{header, c} {
		raw, err := json.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, base64URL(raw))
	}
	signed := strings.Join(parts, ".")
	return signed + "." + base64URL(sign(signed))
}

// by signs as RS256.
func by(t testing.TB, key *rsa.PrivateKey) func(string) []byte {
	return func(signed string) []byte {
		sum := sha256.Sum256([]byte(signed))
		signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		return signature
	}
}

// withSecret signs as HS256 with a text that everybody knows.
func withSecret(secret []byte) func(string) []byte {
	return func(signed string) []byte {
		mac := hmac.New(sha256.New, secret)
		_, _ = mac.Write([]byte(signed)) // never fails
		return mac.Sum(nil)
	}
}

func (s *staff) forgeTokens(r *trial) {
	i := s.issuer
	rs := map[string]any{"alg": "RS256", "kid": "k1", "typ": "JWT"}
	real := token(r, rs, i.good(), by(r, i.key))
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
	none := func(string) []byte { return nil }
	hs := map[string]any{"alg": "HS256", "kid": "k1"}
	theirs := by(r, i.theirs)
	written := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	own := map[string]any{"alg": "RS256", "kid": "k1", "jwk": jwk(i.theirs)}
	away := map[string]any{"alg": "RS256", "kid": "k2", "jku": i.URL + "/attacker"}
	end := time.Now().Add(time.Hour).Unix()
	parts := strings.Split(real, ".")
	raised, _ := json.Marshal(map[string]any{ // always marshals
		"iss": i.URL, "aud": "roamcard", "sub": "mallory", "groups": []string{"root"}, "exp": end,
	})
	late, early, endless := i.good(), i.good(), i.good()
	late["exp"], early["nbf"] = time.Now().Add(-time.Hour).Unix(), time.Now().Add(time.Hour).Unix()
	delete(endless, "exp")
	for name, forged := range map[string]string{
		"unsigned":                     token(r, map[string]any{"alg": "none", "kid": "k1"}, i.good(), none),
		"unsigned, in another case":    token(r, map[string]any{"alg": "nOnE"}, i.good(), none),
		"without its signature":        parts[0] + "." + parts[1] + ".",
		"with the public key as PEM":   token(r, hs, i.good(), withSecret(written)),
		"with the public key as bytes": token(r, hs, i.good(), withSecret(public)),
		"with an empty secret":         token(r, hs, i.good(), withSecret(nil)),
		"with another key":             token(r, rs, i.good(), theirs),
		"with a key of its own":        token(r, own, i.good(), theirs),
		"with keys at an address":      token(r, away, i.good(), theirs),
		"of another issuer":            token(r, rs, i.good("iss", "https://elsewhere.example"), by(r, i.key)),
		"of the issuer with a slash":   token(r, rs, i.good("iss", i.URL+"/"), by(r, i.key)),
		"for another audience":         token(r, rs, i.good("aud", "another"), by(r, i.key)),
		"that has ended":               token(r, rs, late, by(r, i.key)),
		"that has not begun":           token(r, rs, early, by(r, i.key)),
		"without an end":               token(r, rs, endless, by(r, i.key)),
		"with a raised role":           parts[0] + "." + base64URL(raised) + "." + parts[2],
	} {
		if a := s.as(r, forged, http.MethodGet, "/api/admin/whoami", nil); a.status != http.StatusUnauthorized {
			r.Errorf("a token %s: %d %.200s", name, a.status, a.body)
		}
	}
	for _, group := range []string{"Ops", "ops,root", "nobody"} {
		c := i.good()
		c["groups"] = []string{group}
		if a := s.as(r, token(r, rs, c, by(r, i.key)), http.MethodGet, "/api/admin/whoami", nil); a.status !=
			http.StatusForbidden {
			r.Errorf("of the group %s: %d %.200s", group, a.status, a.body)
		}
	}
	if n := i.elsewhere.Load(); n != 0 {
		r.Errorf("keys were read %d times from where a token said", n)
	}
}
