package rpc

import (
	"strings"
	"testing"
	"time"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/fault"
)

func TestPolicyRefusesSessionWithoutScopeOrExpired(t *testing.T) {
	h := newHarness(t)
	ada := authtest.NewWallet(t, "ada")
	good := h.session(ada, auth.ScopeOrders, auth.ScopeCards, auth.ScopeReveal)
	list := func(token string) error {
		ctx, _ := as(t, token)
		_, err := h.client.ListCards(ctx, &roamcardv1.ListCardsRequest{})
		return err
	}
	if err := list(good); err != nil {
		t.Fatalf("a good session: %v", err)
	}
	revoked := h.session(ada, auth.ScopeCards)
	who, err := h.auth.Authenticate(t.Context(), "Bearer "+revoked)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.auth.Revoke(t.Context(), who); err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"no session":             "",
		"garbage":                "garbage",
		"unknown":                "rcs_" + strings.Repeat("A", 43),
		"revoked":                revoked,
		"without the scope":      h.session(ada, auth.ScopeOrders, auth.ScopeReveal),
		"without any":            h.session(ada),
		"an operator's token":    operatorToken,
		"two tokens in one line": good + ", Bearer " + good,
	} {
		if p := problemOf(t, list(token)); p.GetCode() != string(fault.SessionInvalid) || p.GetStatus() != 401 {
			t.Errorf("%s: %d %s", name, p.GetStatus(), p.GetCode())
		}
	}
	h.now = h.now.Add(time.Hour)
	if p := problemOf(t, list(good)); p.GetCode() != string(fault.SessionInvalid) {
		t.Errorf("an hour later: %s", p.GetCode())
	}
}

func TestPolicyRefusesRevealWithoutItsScope(t *testing.T) {
	h := newHarness(t)
	ada := authtest.NewWallet(t, "ada")
	c := h.issue(ada)
	ctx, _ := as(t, h.session(ada, auth.ScopeOrders, auth.ScopeCards))
	_, err := h.client.CreateRevealChallenge(ctx, &roamcardv1.CreateRevealChallengeRequest{Id: c.ID.String()})
	if p := problemOf(t, err); p.GetCode() != string(fault.SessionInvalid) ||
		!strings.Contains(p.GetDetail(), "reveal") {
		t.Errorf("challenge: %s %s", p.GetCode(), p.GetDetail())
	}
}
