package esimgo_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/roamcard/roamcard/internal/provider/esimgo"
	"github.com/roamcard/roamcard/internal/secret"
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
