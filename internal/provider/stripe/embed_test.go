package stripe_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/stripe/stripefake"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

// nonce is what Stripe.js makes in a page.
func (b *bench) nonce(account string) string {
	b.Helper()
	resp, err := b.web.Client().PostForm(b.web.URL+"/elements/nonce",
		url.Values{"key": {stripefake.DevPublishable}, "card": {account}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var got struct{ Nonce string }
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || got.Nonce == "" {
		b.Fatalf("no nonce: %d, %v", resp.StatusCode, err)
	}
	return got.Nonce
}

func TestCardIsShownByAKeyForOneNonce(t *testing.T) {
	b := start(t)
	a, other := b.opened(), b.opened()
	parts := b.PageParts()
	for _, all := range [][]string{parts.Frames, parts.Scripts, parts.Connects} {
		if len(all) != 1 || all[0] != b.web.URL {
			t.Errorf("the page may load %v", parts)
		}
	}
	shown, err := b.Show(t.Context(), a.ID, card.Look{})
	if err != nil || len(shown.Frames) > 0 || len(shown.Values) != 2 ||
		shown.Values[0].Content != stripefake.DevPublishable {
		t.Errorf("%+v, %v", shown, err)
	}
	nonce := b.nonce(a.ID)
	if _, err := b.Unlock(t.Context(), other.ID, nonce); err == nil {
		t.Error("the nonce of a page unlocks another card")
	}
	key, err := b.Unlock(t.Context(), a.ID, nonce)
	if err != nil || !strings.HasPrefix(key.Reveal(), "ek_") {
		t.Fatalf("unlock: %v", err)
	}
	if _, err := b.Unlock(t.Context(), a.ID, nonce); err == nil {
		t.Error("a nonce unlocks twice")
	}
	for _, account := range []string{"", "../balance", "ic_unknown"} {
		if _, err := b.Unlock(t.Context(), account, b.nonce(a.ID)); err == nil {
			t.Errorf("%q is unlocked", account)
		}
	}
	if _, err := b.Unlock(t.Context(), a.ID, "nonce&expand[]=x"); err == nil {
		t.Error("a nonce that is none is sent")
	}
	for _, mode := range []vendorfake.Mode{
		vendorfake.ErrorAfter, vendorfake.TimeoutAfter, vendorfake.Malformed, vendorfake.Truncated, vendorfake.RateLimited,
		vendorfake.Unauthorized, stripefake.Accepted,
	} {
		if !b.fake.Fault("embed", mode) {
			t.Fatalf("the fake has no %s", mode)
		}
		key, err := b.Unlock(t.Context(), a.ID, b.nonce(a.ID))
		if err == nil || !key.IsZero() || strings.Contains(fulfilmenttest.Shown(t, err), "ek_test") {
			t.Errorf("%s: %v", mode, err)
		}
	}
	// What it shows is shown to who has the key, once.
	frame := b.web.URL + "/elements/frame?" + url.Values{
		"kind": {"issuingCardNumberDisplay"}, "card": {a.ID}, "nonce": {nonce}, "secret": {key.Reveal()},
	}.Encode()
	for _, want := range []int{http.StatusOK, http.StatusUnauthorized} {
		resp, err := b.web.Client().Get(frame)
		if err != nil || resp.StatusCode != want {
			t.Fatalf("the frame: %v, %v, want %d", resp, err, want)
		}
		_ = resp.Body.Close()
	}
}
