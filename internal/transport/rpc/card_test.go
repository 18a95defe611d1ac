package rpc

import (
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/handshake"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
)

// reveal asks for a challenge and signs it; key is the base64 of a recipient key, or empty.
func (h *harness) reveal(w authtest.Wallet, token string, id uuid.UUID, key string) *roamcardv1.RevealCardRequest {
	h.Helper()
	ctx, _ := as(h.T, token)
	ask := &roamcardv1.CreateRevealChallengeRequest{Id: id.String()}
	if key != "" {
		ask.RecipientKey = &key
	}
	ch, err := h.client.CreateRevealChallenge(ctx, ask)
	if err != nil {
		h.Fatalf("challenge: %v", err)
	}
	return &roamcardv1.RevealCardRequest{
		Id: id.String(), IntentId: ch.GetIntentId(), Signature: w.SignText(ch.GetMessage()),
		MessageScheme: &ch.MessageScheme,
	}
}

func TestRevealShowsCardOnceToOwnersSignature(t *testing.T) {
	h := newHarness(t)
	ada := authtest.NewWallet(t, "ada")
	c := h.issue(ada)
	token := h.session(ada, auth.ScopeCards, auth.ScopeReveal)
	request := h.reveal(ada, token, c.ID, "")
	ctx, _ := as(t, token)
	res, err := h.client.RevealCard(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	shown := res.GetCredentials()
	if number := shown.GetNumber(); len(number) != 16 || !strings.HasSuffix(number, c.Last4) ||
		len(shown.GetSecurityCode()) != 3 ||
		shown.GetExpiryMonth() != 12 || shown.GetExpiryYear() == 0 || res.GetSealed() != nil {
		t.Errorf("revealed %d digits", len(number))
	}
	ctx, _ = as(t, token)
	_, err = h.client.RevealCard(ctx, request)
	if p := problemOf(t, err); p.GetCode() != string(fault.ChallengeInvalid) {
		t.Errorf("a second time: %s", p.GetCode())
	}
	for _, secret := range []string{shown.GetNumber(), token, request.GetSignature()[2:]} {
		if strings.Contains(h.log.String(), secret) {
			t.Error("a secret is in the log")
		}
	}
}

// TestRevealThatFailsAsksForAnotherSignature: the challenge is spent, so to wait and repeat the request is no use.
func TestRevealThatFailsAsksForAnotherSignature(t *testing.T) {
	h := newHarness(t)
	ada := authtest.NewWallet(t, "ada")
	c := h.issue(ada)
	token := h.session(ada, auth.ScopeCards, auth.ScopeReveal)
	request := h.reveal(ada, token, c.ID, "")
	h.issuer.Fault(cardtest.Sensitive, fulfilmenttest.ErrorBefore)
	ctx, _ := as(t, token)
	_, err := h.client.RevealCard(ctx, request)
	if p := problemOf(t, err); p.GetCode() != string(fault.DependencyDown) || p.GetRetryable() ||
		p.GetNextAction() != string(fault.SignIn) {
		t.Errorf("without the issuer: %v", p)
	}
	ctx, _ = as(t, token)
	if _, err = h.client.RevealCard(ctx, h.reveal(ada, token, c.ID, "")); err != nil {
		t.Errorf("with another challenge: %v", err)
	}
}

func TestSealedCardOpensForRecipientOnly(t *testing.T) {
	h := newHarness(t)
	ada := authtest.NewWallet(t, "ada")
	c := h.issue(ada)
	token := h.session(ada, auth.ScopeCards, auth.ScopeReveal)
	private, err := hpke.DHKEM(ecdh.X25519()).GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	key := base64.StdEncoding.EncodeToString(private.PublicKey().Bytes())
	request := h.reveal(ada, token, c.ID, key) // the request names no key: the signed one counts
	ctx, _ := as(t, token)
	res, err := h.client.RevealCard(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	if res.GetCredentials() != nil || res.GetSealed().GetSuite() != handshake.SealSuite {
		t.Fatalf("answered in the open, or by suite %q", res.GetSealed().GetSuite())
	}
	enc, err1 := base64.StdEncoding.DecodeString(res.GetSealed().GetEnc())
	sealed, err2 := base64.StdEncoding.DecodeString(res.GetSealed().GetCiphertext())
	recipient, err3 := hpke.NewRecipient(enc, private, hpke.HKDFSHA256(), hpke.AES256GCM(),
		[]byte(handshake.RevealInfo))
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	plain, err := recipient.Open([]byte(c.ID.String()), sealed)
	if err != nil {
		t.Fatal(err)
	}
	var shown struct{ Number, SecurityCode string }
	if err := json.Unmarshal(plain, &shown); err != nil || !strings.HasSuffix(shown.Number, c.Last4) ||
		len(shown.SecurityCode) != 3 {
		t.Errorf("sealed %d bytes, %v", len(plain), err)
	}
	for name, answer := range map[string]string{"the answer": res.String(), "the log": h.log.String()} {
		if strings.Contains(answer, shown.Number) {
			t.Errorf("%s shows the number", name)
		}
	}
}

func TestCardIsHiddenFromOtherWallets(t *testing.T) {
	h := newHarness(t)
	ada, eve := authtest.NewWallet(t, "ada"), authtest.NewWallet(t, "eve")
	c := h.issue(ada)
	adas, eves := h.session(ada, auth.ScopeCards, auth.ScopeReveal), h.session(eve, auth.ScopeCards, auth.ScopeReveal)
	ctx, _ := as(t, eves)
	_, challenge := h.client.CreateRevealChallenge(ctx, &roamcardv1.CreateRevealChallengeRequest{Id: c.ID.String()})
	_, balance := h.client.GetCardBalance(ctx, &roamcardv1.GetCardBalanceRequest{Id: c.ID.String()})
	_, unknown := h.client.GetCardBalance(ctx, &roamcardv1.GetCardBalanceRequest{Id: uuid.NewString()})
	for _, err := range []error{challenge, balance} {
		if got, want := problemOf(t, err), problemOf(t, unknown); got.GetCode() != want.GetCode() ||
			got.GetDetail() != want.GetDetail() {
			t.Errorf("another's card is %s %q, no card %s %q", got.GetCode(), got.GetDetail(), want.GetCode(),
				want.GetDetail())
		}
	}
	for name, change := range map[string]func(*roamcardv1.RevealCardRequest) string{
		"another's session": func(*roamcardv1.RevealCardRequest) string { return eves },
		"another session":   func(*roamcardv1.RevealCardRequest) string { return h.session(ada, auth.ScopeReveal) },
		"another's signature": func(r *roamcardv1.RevealCardRequest) string {
			r.Signature = eve.SignText("something")
			return adas
		},
		"another card": func(r *roamcardv1.RevealCardRequest) string { r.Id = uuid.NewString(); return adas },
		"another key": func(r *roamcardv1.RevealCardRequest) string {
			r.RecipientKey = proto.String(base64.StdEncoding.EncodeToString(append([]byte{9}, make([]byte, 31)...)))
			return adas
		},
	} {
		request := h.reveal(ada, adas, c.ID, "")
		ctx, _ := as(t, change(request))
		_, err := h.client.RevealCard(ctx, request)
		if p := problemOf(t, err); p.GetCode() != string(fault.ChallengeInvalid) {
			t.Errorf("%s: %s", name, p.GetCode())
		}
	}
	if n := h.issuer.Calls(cardtest.Sensitive); n != 0 {
		t.Errorf("the issuer was asked for a number %d times", n)
	}
	late := h.reveal(ada, adas, c.ID, "")
	h.now = h.now.Add(auth.DefaultRevealTTL)
	ctx, _ = as(t, adas)
	_, err := h.client.RevealCard(ctx, late)
	if p := problemOf(t, err); p.GetCode() != string(fault.ChallengeInvalid) {
		t.Errorf("five minutes later: %s", p.GetCode())
	}
}

func TestListShowsOwnersCards(t *testing.T) {
	h := newHarness(t)
	ada := authtest.NewWallet(t, "ada")
	token := h.session(ada, auth.ScopeCards)
	ctx, _ := as(t, token)
	_, err := h.client.EnsureCard(ctx, &roamcardv1.EnsureCardRequest{})
	if p := problemOf(t, err); p.GetCode() != string(fault.PaidIssueRequired) {
		t.Errorf("without a card: %s", p.GetCode())
	}
	h.store.Put(card.Card{ID: uuid.New(), Owner: ada.Address(), Status: card.Failed, CreatedAt: h.now.Add(-time.Hour)})
	c := h.issue(ada)
	h.issue(authtest.NewWallet(t, "eve"))
	list, err := h.client.ListCards(ctx, &roamcardv1.ListCardsRequest{})
	if err != nil || len(list.GetCards()) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	if got := list.GetCards()[0]; got.GetId() != c.ID.String() || got.GetStatus() != "ACTIVE" ||
		got.GetLast4() != c.Last4 {
		t.Errorf("%v", got)
	}
	if failed := list.GetCards()[1]; failed.Last4 != nil || failed.GetStatus() != "FAILED" {
		t.Errorf("%v", failed)
	}
	ensured, err := h.client.EnsureCard(ctx, &roamcardv1.EnsureCardRequest{})
	if err != nil || ensured.GetCard().GetId() != c.ID.String() {
		t.Errorf("%v, %v", ensured, err)
	}
	balance, err := h.client.GetCardBalance(ctx, &roamcardv1.GetCardBalanceRequest{Id: c.ID.String()})
	if err != nil || balance.GetAvailableUsdCents() != 2500 || balance.GetCurrency() != "USD" ||
		balance.GetCardId() != c.ID.String() {
		t.Errorf("%v, %v", balance, err)
	}
}
