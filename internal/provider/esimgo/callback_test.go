package esimgo_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/esimgo"
	"github.com/roamcard/roamcard/internal/provider/esimgo/esimgofake"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/webhook"
)

const callback = `{"iccid":"8944500000000000001","alertType":"Utilisation","bundle":{"name":"esim_1GB_7D_FR_V2"}}`

func signed(body, key string) []byte {
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = mac.Write([]byte(body))
	return mac.Sum(nil)
}

func TestCallbackIsSignedWithTheAPIKey(t *testing.T) {
	text := base64.StdEncoding.EncodeToString
	good := text(signed(callback, "key"))
	// Computed by `openssl dgst -sha256 -hmac key -binary | base64`.
	if good != "8FU0uUpOu1KO7sP4EaMXOjuPJpmdLhSD2mIku/Qf9gc=" {
		t.Errorf("the test signs %s", good)
	}
	if err := esimgo.VerifyCallback([]byte(callback), good, secret.New("key")); err != nil {
		t.Errorf("a signed callback: %v", err)
	}
	for _, keys := range [][]secret.Text{
		{secret.New("new"), secret.New("key")}, {secret.New("key"), secret.New("old")}, {{}, secret.New("key")},
	} {
		if err := esimgo.VerifyCallback([]byte(callback), good, keys...); err != nil {
			t.Errorf("while the key is replaced: %v", err)
		}
	}
	for name, c := range map[string]struct {
		body, signature string
		keys            []secret.Text
	}{
		"no signature":  {callback, "", []secret.Text{secret.New("key")}},
		"another body":  {callback + " ", good, []secret.Text{secret.New("key")}},
		"another key":   {callback, good, []secret.Text{secret.New("Key")}},
		"no key":        {callback, good, nil},
		"an empty key":  {callback, text(signed(callback, "")), []secret.Text{{}, secret.New("")}},
		"hex":           {callback, hex.EncodeToString(signed(callback, "key")), []secret.Text{secret.New("key")}},
		"unpadded":      {callback, good[:len(good)-1], []secret.Text{secret.New("key")}},
		"a line break":  {callback, good + "\n", []secret.Text{secret.New("key")}},
		"a prefix":      {callback, good[:20], []secret.Text{secret.New("key")}},
		"doubled":       {callback, good + good, []secret.Text{secret.New("key")}},
		"of no content": {callback, text(signed("", "key")), []secret.Text{secret.New("key")}},
	} {
		if err := esimgo.VerifyCallback([]byte(c.body), c.signature, c.keys...); !errors.Is(err, esimgo.ErrSignature) {
			t.Errorf("%s: %v, want ErrSignature", name, err)
		}
	}
}

// TestCallbacksNameTheEsimWithoutItsNumber: as its profile is named, and the same in each delivery.
func TestCallbacksNameTheEsimWithoutItsNumber(t *testing.T) {
	b := start(t, esimgofake.Config{})
	const iccid = "8944500000000000001"
	verify := func(body string, keys ...secret.Text) (webhook.Event, error) {
		header := http.Header{}
		header.Set(esimgo.SignatureHeader, base64.StdEncoding.EncodeToString(signed(body, "key")))
		if err := b.Signed(header, b.clock.now()); err != nil || b.Signed(http.Header{}, b.clock.now()) == nil {
			t.Errorf("before its body is read: %v", err)
		}
		return b.Verify(header, []byte(body), keys, b.clock.now())
	}
	e, err := verify(callback, secret.New("old"), secret.New("key"))
	if err != nil || e.Type != "Utilisation" || e.ID == "" || len(e.About.References) > 0 {
		t.Errorf("%+v, %v", e, err)
	}
	if want := []string{b.EventName(esim.Held{ICCID: secret.New(iccid)})}; !slices.Equal(e.About.Accounts, want) {
		t.Errorf("it is about %q, want %q", e.About.Accounts, want)
	}
	if len(e.Kept) == 0 || strings.Contains(string(e.Kept)+e.ID+e.About.Accounts[0], iccid[2:]) {
		t.Errorf("the number is stored: %s of %+v", e.Kept, e)
	}
	if again, err := verify(callback, secret.New("key")); err != nil || again.ID != e.ID {
		t.Errorf("delivered again: %+v, %v", again, err)
	}
	more := strings.Replace(callback, "Utilisation", "Expiry", 1)
	if next, err := verify(more, secret.New("key")); err != nil || next.ID == e.ID ||
		next.About.Accounts[0] != e.About.Accounts[0] {
		t.Errorf("the next one: %+v, %v", next, err)
	}
	if other := b.EventName(esim.Held{ICCID: secret.New("8944500000000000002")}); other == e.About.Accounts[0] {
		t.Error("two eSIMs have one name")
	}
	if _, err := verify(callback, secret.New("old")); !errors.Is(err, webhook.ErrForged) {
		t.Errorf("with another key: %v", err)
	}
	for _, odd := range []string{``, `[]`, `{}`, `{"iccid":"8944500000000000001"}`, `{"iccid":"../1","alertType":"x"}`} {
		if e, err := verify(odd, secret.New("key")); err == nil || errors.Is(err, webhook.ErrForged) {
			t.Errorf("%q reads as %+v, %v", odd, e, err)
		}
	}
}
