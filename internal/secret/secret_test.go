package secret

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestSecretNeverShowsItsText(t *testing.T) {
	const text = "rcs_topsecret"
	secret := New(text)
	outer := struct {
		Shown  Text
		hidden Text
		list   []Text
	}{secret, secret, []Text{secret}}

	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%10.3s"} {
		fmt.Fprintf(&out, verb+" ", secret)
		fmt.Fprintf(&out, verb+" ", &secret)
		fmt.Fprintf(&out, verb+" ", outer)
		fmt.Fprintf(&out, verb+" ", &outer)
		fmt.Fprintf(&out, verb+" ", []any{secret, map[string]Text{"k": secret}})
	}
	for _, v := range []any{secret, &secret, outer, map[string]Text{"k": secret}, []Text{secret}} {
		body, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(body)
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("signed in", "token", secret, "outer", outer, "err",
			fmt.Errorf("token %v: %w", secret, errors.New("bad")))
	}
	text2, err := secret.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text2)
	out.WriteString(secret.String() + secret.GoString())

	shown := out.String()
	for _, form := range []string{text, "topsecret", fmt.Sprintf("%x", text), fmt.Sprintf("%X", text)} {
		if strings.Contains(shown, form) {
			t.Errorf("the text shows as %q in %s", form, shown)
		}
	}
	if !strings.Contains(shown, Redacted) {
		t.Error("nothing says that a secret was there")
	}
}

func TestSecretRevealsOnlyWhenAsked(t *testing.T) {
	if got := New("abc").Reveal(); got != "abc" {
		t.Errorf("Reveal = %q", got)
	}
	if (Text{}).Reveal() != "" || !(Text{}).IsZero() || New("abc").IsZero() {
		t.Error("the zero secret is not the empty one")
	}
	if !New("abc").Equal(New("abc")) || New("abc").Equal(New("abd")) || New("abc").Equal(Text{}) {
		t.Error("Equal does not compare the texts")
	}
}
