package auth_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/fault"
)

func TestSessionTokenIsStoredAsAHashOnly(t *testing.T) {
	d, w := newBench(t), authtest.NewWallet(t, "ada")
	c, document, err := d.Challenge(t.Context(), w.Address(), nil)
	if err != nil {
		t.Fatal(err)
	}
	session, token, err := d.Verify(t.Context(), auth.VerifyRequest{
		Wallet: w.Address(), IntentID: c.ID, Signature: w.Sign(c, document),
	})
	if err != nil {
		t.Fatal(err)
	}
	text := token.Reveal()
	random, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(text, "rcs_"))
	if err != nil || len(random) != 32 || !strings.HasPrefix(text, "rcs_") {
		t.Errorf("token of %d bytes: %v", len(random), err)
	}
	stored, err := d.sessions.FindByHash(t.Context(), sha256.Sum256([]byte(text)))
	if err != nil || stored.ID != session.ID {
		t.Errorf("stored %+v, %v", stored, err)
	}
	body, err := json.Marshal([]any{session, stored, token})
	if err != nil {
		t.Fatal(err)
	}
	if shown := fmt.Sprintf("%+v %+v %+v %#v %s", session, stored, token, token, body); strings.Contains(shown, text[4:]) {
		t.Errorf("the token shows in %s", shown)
	}
}

func TestWrongSessionsAreIndistinguishable(t *testing.T) {
	same := &uniform{code: fault.SessionInvalid}
	for name, alter := range map[string]func(d *bench, c auth.Caller, header string) string{
		"none":         func(*bench, auth.Caller, string) string { return "" },
		"only Bearer":  func(*bench, auth.Caller, string) string { return "Bearer " },
		"tab":          func(_ *bench, _ auth.Caller, h string) string { return "Bearer\t" + h[7:] },
		"space behind": func(_ *bench, _ auth.Caller, h string) string { return h + " " },
		"basic":        func(_ *bench, _ auth.Caller, h string) string { return "Basic " + h[7:] },
		"no scheme":    func(_ *bench, _ auth.Caller, h string) string { return h[7:] },
		"no prefix": func(_ *bench, _ auth.Caller, h string) string {
			return "Bearer " + strings.TrimPrefix(h[7:], "rcs_")
		},
		"other prefix":  func(_ *bench, _ auth.Caller, h string) string { return strings.Replace(h, "rcs_", "rcd_", 1) },
		"two":           func(_ *bench, _ auth.Caller, h string) string { return h + ", " + h },
		"shorter":       func(_ *bench, _ auth.Caller, h string) string { return h[:len(h)-1] },
		"longer":        func(_ *bench, _ auth.Caller, h string) string { return h + "A" },
		"padded":        func(_ *bench, _ auth.Caller, h string) string { return h + "=" },
		"not base64url": func(_ *bench, _ auth.Caller, h string) string { return h[:len(h)-1] + "+" },
		"another token": func(_ *bench, _ auth.Caller, h string) string { return flipDigit(h, 20) },
		"its hash": func(_ *bench, _ auth.Caller, h string) string {
			hash := sha256.Sum256([]byte(h[7:]))
			return "Bearer rcs_" + base64.RawURLEncoding.EncodeToString(hash[:])
		},
		"an operator's": func(*bench, auth.Caller, string) string { return "Bearer rco_alice" },
		"expired":       func(d *bench, _ auth.Caller, h string) string { d.clock.pass(time.Hour); return h },
		"revoked": func(d *bench, c auth.Caller, h string) string {
			if err := errors.Join(d.Revoke(context.Background(), c), d.Revoke(context.Background(), c)); err != nil {
				panic(err)
			}
			return h
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newBench(t)
			caller, header := d.signIn(t, authtest.NewWallet(t, "ada"))
			got, err := d.Authenticate(t.Context(), alter(d, caller, header))
			same.check(t, err)
			if got.Kind != auth.KindAnonymous {
				t.Errorf("caller %+v came with the fault", got)
			}
		})
	}
}

func TestSessionIsNotExtendedByUse(t *testing.T) {
	d := newBench(t)
	_, header := d.signIn(t, authtest.NewWallet(t, "ada"))
	for range 4 {
		d.clock.pass(14 * time.Minute)
		if _, err := d.Authenticate(t.Context(), header); err != nil {
			t.Fatal(err)
		}
	}
	d.clock.pass(4 * time.Minute)
	if _, err := d.Authenticate(t.Context(), header); fault.Of(err) != fault.SessionInvalid {
		t.Errorf("err = %v after an hour", err)
	}
}

func TestRevokeEndsOneSession(t *testing.T) {
	d, w := newBench(t), authtest.NewWallet(t, "ada")
	one, first := d.signIn(t, w)
	d.clock.pass(time.Second)
	_, second := d.signIn(t, w)
	if err := d.Revoke(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Authenticate(t.Context(), first); fault.Of(err) != fault.SessionInvalid {
		t.Errorf("the revoked session: %v", err)
	}
	if _, err := d.Authenticate(t.Context(), second); err != nil {
		t.Errorf("the other session: %v", err)
	}
	if err := d.Revoke(t.Context(), auth.Caller{}); fault.Of(err) != fault.SessionInvalid {
		t.Errorf("revoke for nobody: %v", err)
	}
}

func TestActivityScopeIsForListedWallets(t *testing.T) {
	d := newBench(t)
	analyst, header := d.signIn(t, authtest.NewWallet(t, "analyst"))
	ada, _ := d.signIn(t, authtest.NewWallet(t, "ada"))
	if !analyst.Has(auth.ScopeActivity) || ada.Has(auth.ScopeActivity) || !ada.Has(auth.ScopeOrders) {
		t.Errorf("scopes %v and %v", analyst.Scopes, ada.Scopes)
	}
	struckOff := d.with(t, func(c *auth.Config) { c.ActivityWallets = nil })
	if again, err := struckOff.Authenticate(t.Context(), header); err != nil || again.Has(auth.ScopeActivity) ||
		!again.Has(auth.ScopeCards) {
		t.Errorf("after the wallet left the list: %v, %v", again.Scopes, err)
	}
}

func TestOperatorIsFoundByToken(t *testing.T) {
	d := newBench(t)
	for _, name := range []string{"alice", "bob"} {
		c, err := d.Operator(t.Context(), "Bearer rco_"+name)
		if err != nil || c.Kind != auth.KindOperator || c.Name != name || c.Has(auth.ScopeActivity) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

func TestWrongOperatorTokensAreIndistinguishable(t *testing.T) {
	d := newBench(t)
	none := d.with(t, func(c *auth.Config) { c.Operators = nil })
	empty := d.with(t, func(c *auth.Config) { c.Operators = []auth.Operator{{Name: "nobody", Hash: sha256.Sum256(nil)}} })
	_, session := d.signIn(t, authtest.NewWallet(t, "ada"))
	hash := sha256.Sum256([]byte("rco_alice"))
	same := &uniform{code: fault.OperatorTokenInvalid}
	for _, header := range []string{
		"", "Bearer", "Bearer ", "rco_alice", "Bearer\trco_alice", "Bearer rco_alice ", "Basic rco_alice",
		"Bearer rco_carol", "Bearer rco_alic", "Bearer alice", "Bearer " + string(hash[:]), fmt.Sprintf("Bearer %x", hash),
		session,
	} {
		for _, a := range []*auth.Auth{d.Auth, none, empty} {
			_, err := a.Operator(t.Context(), header)
			same.check(t, err)
		}
	}
}

func TestNewReportsEveryMistakeAtOnce(t *testing.T) {
	hash := sha256.Sum256([]byte("x"))
	_, err := auth.New(auth.Config{
		Domain: "https://cards.example", URI: "/relative", SessionTTL: -1,
		Operators: []auth.Operator{
			{Name: "a", Hash: hash}, {Name: "b", Hash: hash}, {Name: "c"}, {},
			{Name: "a", Hash: sha256.Sum256([]byte("y")), Role: auth.RoleViewer},
		},
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range []string{
		"store", "domain", "URI", "chain id", "lifetime", `"b" has`, `"a" has`, "no token hash",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not named in %v", part, err)
		}
	}
}
