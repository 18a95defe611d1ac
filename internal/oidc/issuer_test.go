package oidc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/oidc"
	"github.com/roamcard/roamcard/internal/testing/oidctest"
)

// issuer is an issuer whose clock the test moves.
type issuer struct {
	*oidctest.Issuer
	at *atomic.Int64
}

func newIssuer(t *testing.T) issuer {
	t.Helper()
	at := &atomic.Int64{}
	at.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano())
	i := issuer{at: at}
	i.Issuer = oidctest.New(t, i.clock)
	return i
}

func (i issuer) pass(d time.Duration) { i.at.Add(int64(d)) }

func (i issuer) clock() time.Time { return time.Unix(0, i.at.Load()) }

func (i issuer) verifier() *oidc.Issuer {
	return oidc.New(oidc.Config{
		Issuer: i.URL, Audience: "roamcard", Now: i.clock,
		Roles: map[string]auth.Role{"ops": auth.RoleSupport, "finance": auth.RoleTreasurer},
	})
}

// claims are those of a good token, with changes, of somebody who is in a group that means nothing, too.
func (i issuer) claims(changes map[string]any) map[string]any {
	all := map[string]any{"groups": []string{"ops", "others"}}
	maps.Copy(all, changes)
	return i.Claims(all)
}

func TestTokenOfTheIssuerNamesItsOperator(t *testing.T) {
	i := newIssuer(t)
	key := i.AddKey(t, "1")
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
		got, err := v.Identify(t.Context(), key.Sign(t, i.claims(tt.changes)))
		want := auth.Identity{
			Issuer: i.URL, Subject: "ann", Name: "ann", Role: tt.want, ExpiresAt: i.clock().Add(time.Hour).UTC(),
		}
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if n := i.Described(); n != 1 {
		t.Errorf("the issuer was asked %d times", n)
	}
	if _, err := v.Identify(t.Context(), key.Sign(t,
		i.claims(map[string]any{"groups": []string{"others"}}))); !errors.Is(err, auth.ErrNoRole) {
		t.Errorf("somebody without a role: %v", err)
	}
}

// The caller learns nothing of it, whoever runs the service has to.
func TestLogSaysWhyATokenIsRefused(t *testing.T) {
	i := newIssuer(t)
	key := i.AddKey(t, "1")
	var log strings.Builder
	v := oidc.New(oidc.Config{
		Issuer: i.URL, Audience: "roamcard", Now: i.clock, Roles: map[string]auth.Role{"ops": auth.RoleSupport},
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	for _, tt := range []struct {
		changes map[string]any
		want    string
	}{
		{map[string]any{"aud": "other"}, "audience"},
		{map[string]any{"exp": i.clock().Add(-time.Hour).Unix()}, "expired"},
		{map[string]any{"groups": []string{"others"}}, "the claim groups of ann"},
		{map[string]any{"aud": strings.Repeat("x", 2000)}, "audience"},
	} {
		log.Reset()
		if _, err := v.Identify(t.Context(), key.Sign(t, i.claims(tt.changes))); err == nil {
			t.Errorf("%v is taken", tt.changes)
		}
		if said := log.String(); !strings.Contains(said, tt.want) || len(said) > 500 {
			t.Errorf("%v: the log says %q", tt.changes, said)
		}
	}
}

func TestClaimsAreThoseOfTheConfiguration(t *testing.T) {
	i := newIssuer(t)
	key := i.AddKey(t, "1")
	v := oidc.New(oidc.Config{
		Issuer: i.URL, Audience: "roamcard", Now: i.clock, NameClaim: "email", RoleClaim: "realm_access.roles",
		Roles: map[string]auth.Role{"ops": auth.RoleAdmin},
	})
	roles := map[string]any{"roles": []string{"ops"}}
	good := i.claims(map[string]any{"email": "ann@example.com", "email_verified": true, "realm_access": roles})
	if got, err := v.Identify(t.Context(), key.Sign(t, good)); err != nil ||
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
		if _, err := v.Identify(t.Context(), key.Sign(t, i.claims(changes))); !errors.Is(err,
			auth.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestForgedTokensAreRefused(t *testing.T) {
	i := newIssuer(t)
	key := i.AddKey(t, "1")
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	stranger := oidctest.NewKey(t, "1")
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	part := func(v any) string { return oidctest.Part(t, v) }
	with := func(header map[string]any, sign oidctest.Signature) string {
		return oidctest.Token(t, header, i.claims(nil), sign)
	}
	good := key.Sign(t, i.claims(nil))
	header, _, _ := strings.Cut(good, ".")
	signature := good[strings.LastIndex(good, ".")+1:]
	v := i.verifier()
	for name, token := range map[string]string{
		"no algorithm": part(map[string]string{"alg": "none"}) + "." + part(i.claims(nil)) + ".",
		"no algorithm, a signature": part(map[string]string{"alg": "none", "kid": "1"}) + "." + part(i.claims(nil)) + "." +
			signature,
		"the public key as a secret": with(map[string]any{"alg": "HS256", "kid": "1"}, oidctest.HS256(der)),
		"a stranger's key":           stranger.Sign(t, i.claims(nil)),
		"a stranger's key, no id":    with(map[string]any{"alg": "RS256"}, oidctest.RS256(t, stranger)),
		"another kind of key":        with(map[string]any{"alg": "ES256", "kid": "1"}, oidctest.ES256(t, curve)),
		"other claims": header + "." + part(i.claims(map[string]any{"groups": []string{"finance"}})) + "." +
			signature,
		"a key of its own": with(map[string]any{"alg": "RS256", "jwk": stranger.Public()}, oidctest.RS256(t, stranger)),
		"expired":          key.Sign(t, i.claims(map[string]any{"exp": i.clock().Add(-time.Second).Unix()})),
		"without an end":   key.Sign(t, i.claims(map[string]any{"exp": nil})),
		"not valid yet":    key.Sign(t, i.claims(map[string]any{"nbf": i.clock().Add(time.Hour).Unix()})),
		"another audience": key.Sign(t, i.claims(map[string]any{"aud": "other"})),
		"no audience":      key.Sign(t, i.claims(map[string]any{"aud": nil})),
		"another issuer":   key.Sign(t, i.claims(map[string]any{"iss": "https://example.com"})),
		"an issuer below":  key.Sign(t, i.claims(map[string]any{"iss": i.URL + "/other"})),
		"no issuer":        key.Sign(t, i.claims(map[string]any{"iss": nil})),
		"no token":         "a.b.c",
		"nothing at all":   "..",
		"no subject":       key.Sign(t, i.claims(map[string]any{"sub": nil})),
		"of a sign-out": key.Sign(t, i.claims(map[string]any{"events": map[string]any{
			"http://schemas.openid.net/event/backchannel-logout": map[string]any{},
		}})),
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

// TestOnlyIDAndAccessTokensProveAnOperator: an issuer signs other things with the same keys.
func TestOnlyIDAndAccessTokensProveAnOperator(t *testing.T) {
	i := newIssuer(t)
	key := i.AddKey(t, "1")
	v := i.verifier()
	for _, tt := range []struct {
		typ   any
		taken bool
	}{
		{nil, true}, {"JWT", true}, {"jwt", true}, {"at+jwt", true}, {"AT+JWT", true}, {"application/at+jwt", true},
		{"logout+jwt", false}, {"application/logout+jwt", false}, {"secevent+jwt", false}, {"dpop+jwt", false},
		{"oauth-authz-req+jwt", false}, {"token-introspection+jwt", false}, {"refresh+jwt", false}, {"", false}, {7, false},
		{[]string{"JWT"}, false}, {"JWT ", false}, {"application/application/jwt", false},
	} {
		header := map[string]any{"alg": "RS256", "kid": "1", "typ": tt.typ}
		if tt.typ == nil {
			delete(header, "typ")
		}
		_, err := v.Identify(t.Context(), oidctest.Token(t, header, i.claims(nil), oidctest.RS256(t, key)))
		if (err == nil) != tt.taken || err != nil && !errors.Is(err, auth.ErrNotFound) {
			t.Errorf("%v: %v", tt.typ, err)
		}
	}
}

// TestUnknownKeysAskTheIssuerOnce: whoever sends tokens does not decide how often the issuer is asked.
func TestUnknownKeysAskTheIssuerOnce(t *testing.T) {
	i := newIssuer(t)
	key := i.AddKey(t, "1")
	v := i.verifier()
	if _, err := v.Identify(t.Context(), key.Sign(t, i.claims(nil))); err != nil {
		t.Fatal(err)
	}
	stranger := oidctest.NewKey(t, "unknown")
	flood := func() {
		var all sync.WaitGroup
		for n := range 50 {
			stranger.ID = "unknown " + string(rune('a'+n))
			token := stranger.Sign(t, i.claims(nil))
			all.Go(func() {
				if _, err := v.Identify(t.Context(), token); !errors.Is(err, auth.ErrNotFound) {
					t.Errorf("an unknown key: %v", err)
				}
			})
		}
		all.Wait()
	}
	flood()
	if n := i.Described(); n != 1 {
		t.Errorf("the issuer was asked %d times a moment after it was", n)
	}
	i.pass(time.Minute)
	flood()
	if n := i.Described(); n != 2 {
		t.Errorf("the issuer was asked %d times after a minute", n)
	}
	// A new key of the issuer's own is found in the same way.
	i.pass(time.Minute)
	if _, err := v.Identify(t.Context(), i.AddKey(t, "2").Sign(t, i.claims(nil))); err != nil {
		t.Errorf("a new key: %v", err)
	}
}

// TestUnknownKeysKeepNoOperatorWaiting: while the issuer is asked for a stranger's key, and does not answer, who has a
// key that is known comes in, and no second stranger makes a second request.
func TestUnknownKeysKeepNoOperatorWaiting(t *testing.T) {
	i := newIssuer(t)
	key := i.AddKey(t, "1")
	v := i.verifier()
	if _, err := v.Identify(t.Context(), key.Sign(t, i.claims(nil))); err != nil {
		t.Fatal(err)
	}
	i.pass(time.Minute)
	asked, release := i.Hold()
	defer release()
	stranger := oidctest.NewKey(t, "unknown").Sign(t, i.claims(nil))
	var strangers sync.WaitGroup
	answered := make(chan struct{}, 8)
	for range 8 {
		strangers.Go(func() {
			if _, err := v.Identify(t.Context(), stranger); err == nil {
				t.Error("a stranger comes in")
			}
			answered <- struct{}{}
		})
	}
	<-asked
	for range 8 {
		if _, err := v.Identify(t.Context(), key.Sign(t, i.claims(nil))); err != nil {
			t.Errorf("an operator: %v", err)
		}
	}
	select {
	case <-answered:
		t.Error("the operator has waited for the issuer")
	case <-asked:
		t.Error("the issuer is asked twice at once")
	default:
	}
	release()
	strangers.Wait()
	if n := i.Described(); n != 2 {
		t.Errorf("the issuer was asked %d times", n)
	}
}

// TestOldKeysWaitAMomentForNewOnes: an operator who is the first for long gets what the issuer has now, if it says so
// soon; while it is known not to answer, nobody waits for it.
func TestOldKeysWaitAMomentForNewOnes(t *testing.T) {
	i := newIssuer(t)
	key := i.AddKey(t, "1")
	synctest.Test(t, func(t *testing.T) {
		hangs := false
		v := oidc.New(oidc.Config{
			Issuer: i.URL, Audience: "roamcard", Now: i.clock, Roles: map[string]auth.Role{"ops": auth.RoleSupport},
			HTTP: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
				if hangs {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				w := httptest.NewRecorder()
				i.Config.Handler.ServeHTTP(w, r)
				return w.Result(), nil
			})},
		})
		waits := func(what string, want time.Duration) {
			t.Helper()
			began := time.Now()
			if _, err := v.Identify(t.Context(), key.Sign(t, i.claims(nil))); err != nil || time.Since(began) != want {
				t.Errorf("%s: after %s, %v", what, time.Since(began), err)
			}
		}
		waits("the first", 0)
		i.pass(11 * time.Minute)
		waits("old keys", 0)
		hangs = true
		i.pass(6 * time.Minute)
		waits("keys that age", 0)
		synctest.Wait()
		i.pass(5 * time.Minute)
		waits("old keys, the issuer hangs", time.Second)
		time.Sleep(time.Minute) // until the issuer is given up
		i.pass(time.Minute)
		waits("the issuer is down", 0)
		i.pass(time.Hour)
		if _, err := v.Identify(t.Context(), key.Sign(t, i.claims(nil))); err == nil || errors.Is(err, auth.ErrNotFound) {
			t.Errorf("with keys of more than an hour ago: %v", err)
		}
	})
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestIssuerThatIsDownIsNotAnInvalidToken(t *testing.T) {
	i := newIssuer(t)
	key := i.AddKey(t, "1")
	token := func() string { return key.Sign(t, i.claims(nil)) }
	i.Break(true)
	v := i.verifier()
	if _, err := v.Identify(t.Context(), token()); err == nil || errors.Is(err, auth.ErrNotFound) {
		t.Errorf("before any key was read: %v", err)
	}
	i.Break(false)
	i.pass(30 * time.Second)
	if _, err := v.Identify(t.Context(), token()); err != nil {
		t.Errorf("after it came back: %v", err)
	}
	i.Break(true)
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
	old := i.AddKey(t, "1")
	v := i.verifier()
	if _, err := v.Identify(t.Context(), old.Sign(t, i.claims(nil))); err != nil {
		t.Fatal(err)
	}
	i.WithdrawKeys()
	i.AddKey(t, "2")
	i.pass(11 * time.Minute)
	if _, err := v.Identify(t.Context(), old.Sign(t, i.claims(nil))); !errors.Is(err, auth.ErrNotFound) {
		t.Errorf("a withdrawn key: %v", err)
	}
}

func TestIssuerIsTheOneThatWasConfigured(t *testing.T) {
	i := newIssuer(t)
	key := i.AddKey(t, "1")
	i.Call("https://example.com")
	if _, err := i.verifier().Identify(t.Context(), key.Sign(t, i.claims(nil))); err == nil ||
		!strings.Contains(err.Error(), "calls itself") {
		t.Errorf("%v", err)
	}
}
