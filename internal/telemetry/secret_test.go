package telemetry

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
	secret := NewSecret(text)
	outer := struct {
		Shown  Secret
		hidden Secret
		list   []Secret
	}{secret, secret, []Secret{secret}}

	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%10.3s"} {
		fmt.Fprintf(&out, verb+" ", secret)
		fmt.Fprintf(&out, verb+" ", &secret)
		fmt.Fprintf(&out, verb+" ", outer)
		fmt.Fprintf(&out, verb+" ", &outer)
		fmt.Fprintf(&out, verb+" ", []any{secret, map[string]Secret{"k": secret}})
	}
	for _, v := range []any{secret, &secret, outer, map[string]Secret{"k": secret}, []Secret{secret}} {
		body, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(body)
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("signed in", "token", secret, "outer", outer, "err", fmt.Errorf("token %v: %w", secret, errors.New("bad")))
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
	if got := NewSecret("abc").Reveal(); got != "abc" {
		t.Errorf("Reveal = %q", got)
	}
	if (Secret{}).Reveal() != "" || !(Secret{}).IsZero() || NewSecret("abc").IsZero() {
		t.Error("the zero secret is not the empty one")
	}
	if !NewSecret("abc").Equal(NewSecret("abc")) || NewSecret("abc").Equal(NewSecret("abd")) || NewSecret("abc").Equal(Secret{}) {
		t.Error("Equal does not compare the texts")
	}
}
