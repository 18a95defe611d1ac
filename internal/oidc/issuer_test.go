package oidc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/oidc"
)

// issuer is an issuer of OpenID Connect as far as its tokens go: a description, keys, and what is wrong with it.
type issuer struct {
	*httptest.Server
	t     *testing.T
	now   atomic.Int64
	asked atomic.Int64

	mu   sync.Mutex
	down bool
	// calls is what it calls itself; its address when empty.
	calls string
	keys  []jose.JSONWebKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t}
	i.now.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano())
	i.Server = httptest.NewServer(http.HandlerFunc(i.serve))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.down {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		i.asked.Add(1)
		name := i.URL
		if i.calls != "" {
			name = i.calls
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": name, "jwks_uri": i.URL + "/keys"})
	case "/keys":
		set := jose.JSONWebKeySet{}
		for _, key := range i.keys {
			set.Keys = append(set.Keys, key.Public())
		}
		_ = json.NewEncoder(w).Encode(set)
	default:
		http.NotFound(w, r)
	}
}

func (i *issuer) breaks(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

func (i *issuer) pass(d time.Duration) { i.now.Add(int64(d)) }

func (i *issuer) clock() time.Time { return time.Unix(0, i.now.Load()) }

// key makes the issuer use another key, next to those that it has.
func (i *issuer) key(id string) jose.JSONWebKey {
	i.t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		i.t.Fatal(err)
	}
	key := jose.JSONWebKey{Key: private, KeyID: id, Algorithm: "RS256", Use: "sig"}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = append(i.keys, key)
	return key
}

func (i *issuer) verifier() *oidc.Issuer {
	return oidc.New(oidc.Config{
		Issuer: i.URL, Audience: "roamcard", Now: i.clock,
		Roles: map[string]auth.Role{"ops": auth.RoleSupport, "finance": auth.RoleTreasurer},
	})
}

// claims are those of a good token, with changes. A nil change leaves a claim out.
func (i *issuer) claims(changes map[string]any) map[string]any {
	all := map[string]any{
		"iss": i.URL, "aud": "roamcard", "sub": "ann", "exp": i.clock().Add(time.Hour).Unix(), "iat": i.clock().Unix(),
		"groups": []string{"ops", "others"},
	}
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

func sign(t *testing.T, algorithm jose.SignatureAlgorithm, key any, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTokenOfTheIssuerNamesItsOperator(t *testing.T) {
	i := newIssuer(t)
	key := i.key("1")
	v := i.verifier()
	for name, tt := range map[string]struct {
		changes map[string]any
		want    auth.Role
	}{
		"one group":           {nil, auth.RoleSupport},
		"the highest counts":  {map[string]any{"groups": []string{"finance", "ops"}}, auth.RoleTreasurer},
		"a text":              {map[string]any{"groups": "finance"}, auth.RoleTreasurer},
		"one audience of two": {map[string]any{"aud": []string{"other", "roamcard"}}, auth.RoleSupport},
	} {
		got, err := v.Identify(t.Context(), sign(t, jose.RS256, key, i.claims(tt.changes)))
		if err != nil || got.Name != "ann" || got.Role != tt.want || !got.ExpiresAt.Equal(i.clock().Add(time.Hour)) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if n := i.asked.Load(); n != 1 {
		t.Errorf("the issuer was asked %d times", n)
	}
	if _, err := v.Identify(t.Context(), sign(t, jose.RS256, key,
		i.claims(map[string]any{"groups": []string{"others"}}))); !errors.Is(err, auth.ErrNoRole) {
		t.Errorf("somebody without a role: %v", err)
	}
}

func TestClaimsAreThoseOfTheConfiguration(t *testing.T) {
	i := newIssuer(t)
	key := i.key("1")
	v := oidc.New(oidc.Config{
		Issuer: i.URL, Audience: "roamcard", Now: i.clock, NameClaim: "email", RoleClaim: "realm_access.roles",
		Roles: map[string]auth.Role{"ops": auth.RoleAdmin},
	})
	roles := map[string]any{"roles": []string{"ops"}}
	good := i.claims(map[string]any{"email": "ann@example.com", "email_verified": true, "realm_access": roles})
	if got, err := v.Identify(t.Context(), sign(t, jose.RS256, key, good)); err != nil ||
		got.Name != "ann@example.com" || got.Role != auth.RoleAdmin {
		t.Errorf("%+v, %v", got, err)
	}
	for name, changes := range map[string]map[string]any{
		"not verified":        {"email": "ann@example.com", "email_verified": false, "realm_access": roles},
		"nobody said so":      {"email": "ann@example.com", "realm_access": roles},
		"no address":          {"email_verified": true, "realm_access": roles},
		"two lines":           {"email": "ann@example.com\nbob", "email_verified": true, "realm_access": roles},
		"no text":             {"email": 7, "email_verified": true, "realm_access": roles},
		"longer than a name":  {"email": strings.Repeat("a", 101), "email_verified": true, "realm_access": roles},
		"verified as a text":  {"email": "ann@example.com", "email_verified": "true", "realm_access": roles},
		"what a console runs": {"email": "=cmd()", "email_verified": true, "realm_access": roles},
	} {
		if _, err := v.Identify(t.Context(), sign(t, jose.RS256, key, i.claims(changes))); !errors.Is(err,
			auth.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestForgedTokensAreRefused(t *testing.T) {
	i := newIssuer(t)
	key := i.key("1")
	private := key.Key.(*rsa.PrivateKey)
	der, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	good := sign(t, jose.RS256, key, i.claims(nil))
	header, _, _ := strings.Cut(good, ".")
	signature := good[strings.LastIndex(good, ".")+1:]
	v := i.verifier()
	for name, token := range map[string]string{
		"no algorithm": part(map[string]string{"alg": "none"}) + "." + part(i.claims(nil)) + ".",
		"no algorithm, a signature": part(map[string]string{"alg": "none", "kid": "1"}) + "." + part(i.claims(nil)) + "." +
			signature,
		"the public key as a secret": sign(t, jose.HS256, jose.JSONWebKey{Key: der, KeyID: "1"}, i.claims(nil)),
		"a stranger's key":           sign(t, jose.RS256, jose.JSONWebKey{Key: stranger, KeyID: "1"}, i.claims(nil)),
		"a stranger's key, no id":    sign(t, jose.RS256, stranger, i.claims(nil)),
		"another kind of key":        sign(t, jose.ES256, jose.JSONWebKey{Key: curve, KeyID: "1"}, i.claims(nil)),
		"other claims": header + "." + part(i.claims(map[string]any{"groups": []string{"finance"}})) + "." +
			signature,
		"a key of its own": part(map[string]any{"alg": "RS256", "jwk": jose.JSONWebKey{Key: &stranger.PublicKey}}) + "." +
			part(i.claims(nil)) + "." + signature,
		"expired":            sign(t, jose.RS256, key, i.claims(map[string]any{"exp": i.clock().Add(-time.Second).Unix()})),
		"without an end":     sign(t, jose.RS256, key, i.claims(map[string]any{"exp": nil})),
		"not valid yet":      sign(t, jose.RS256, key, i.claims(map[string]any{"nbf": i.clock().Add(time.Hour).Unix()})),
		"another audience":   sign(t, jose.RS256, key, i.claims(map[string]any{"aud": "other"})),
		"no audience":        sign(t, jose.RS256, key, i.claims(map[string]any{"aud": nil})),
		"another issuer":     sign(t, jose.RS256, key, i.claims(map[string]any{"iss": "https://example.com"})),
		"an issuer below":    sign(t, jose.RS256, key, i.claims(map[string]any{"iss": i.URL + "/other"})),
		"no issuer":          sign(t, jose.RS256, key, i.claims(map[string]any{"iss": nil})),
		"no token":           "a.b.c",
		"nothing at all":     "..",
		"cut":                good[:len(good)-4],
		"with another's end": good[:len(good)-8] + "AAAAAAAA",
	} {
		if got, err := v.Identify(t.Context(), token); !errors.Is(err, auth.ErrNotFound) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := v.Identify(t.Context(), good); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

// TestUnknownKeysAskTheIssuerOnce: whoever sends tokens does not decide how often the issuer is asked.
func TestUnknownKeysAskTheIssuerOnce(t *testing.T) {
	i := newIssuer(t)
	key := i.key("1")
	v := i.verifier()
	if _, err := v.Identify(t.Context(), sign(t, jose.RS256, key, i.claims(nil))); err != nil {
		t.Fatal(err)
	}
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	flood := func() {
		var all sync.WaitGroup
		for n := range 50 {
			token := sign(t, jose.RS256, jose.JSONWebKey{Key: stranger, KeyID: "unknown " + string(rune('a'+n))}, i.claims(nil))
			all.Go(func() {
				if _, err := v.Identify(t.Context(), token); !errors.Is(err, auth.ErrNotFound) {
					t.Errorf("an unknown key: %v", err)
				}
			})
		}
		all.Wait()
	}
	flood()
	if n := i.asked.Load(); n != 1 {
		t.Errorf("the issuer was asked %d times a moment after it was", n)
	}
	i.pass(time.Minute)
	flood()
	if n := i.asked.Load(); n != 2 {
		t.Errorf("the issuer was asked %d times after a minute", n)
	}
	// A new key of the issuer's own is found in the same way.
	i.pass(time.Minute)
	if _, err := v.Identify(t.Context(), sign(t, jose.RS256, i.key("2"), i.claims(nil))); err != nil {
		t.Errorf("a new key: %v", err)
	}
}

func TestIssuerThatIsDownIsNotAnInvalidToken(t *testing.T) {
	i := newIssuer(t)
	key := i.key("1")
	token := func() string { return sign(t, jose.RS256, key, i.claims(nil)) }
	i.breaks(true)
	v := i.verifier()
	if _, err := v.Identify(t.Context(), token()); err == nil || errors.Is(err, auth.ErrNotFound) {
		t.Errorf("before any key was read: %v", err)
	}
	i.breaks(false)
	i.pass(30 * time.Second)
	if _, err := v.Identify(t.Context(), token()); err != nil {
		t.Errorf("after it came back: %v", err)
	}
	i.breaks(true)
	i.pass(30 * time.Minute)
	if _, err := v.Identify(t.Context(), token()); err != nil {
		t.Errorf("with keys of half an hour ago: %v", err)
	}
	i.pass(31 * time.Minute)
	if _, err := v.Identify(t.Context(), token()); err == nil || errors.Is(err, auth.ErrNotFound) {
		t.Errorf("with keys of more than an hour ago: %v", err)
	}
}

// TestWithdrawnKeyIsNoLongerTaken: the issuer says which keys are its own, and for how long.
func TestWithdrawnKeyIsNoLongerTaken(t *testing.T) {
	i := newIssuer(t)
	old := i.key("1")
	v := i.verifier()
	if _, err := v.Identify(t.Context(), sign(t, jose.RS256, old, i.claims(nil))); err != nil {
		t.Fatal(err)
	}
	i.mu.Lock()
	i.keys = nil
	i.mu.Unlock()
	i.key("2")
	i.pass(11 * time.Minute)
	if _, err := v.Identify(t.Context(), sign(t, jose.RS256, old, i.claims(nil))); !errors.Is(err, auth.ErrNotFound) {
		t.Errorf("a withdrawn key: %v", err)
	}
}

func TestIssuerIsTheOneThatWasConfigured(t *testing.T) {
	i := newIssuer(t)
	key := i.key("1")
	i.calls = "https://example.com"
	if _, err := i.verifier().Identify(t.Context(), sign(t, jose.RS256, key, i.claims(nil))); err == nil ||
		!strings.Contains(err.Error(), "calls itself") {
		t.Errorf("%v", err)
	}
}
