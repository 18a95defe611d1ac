package app

import (
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/facilitator/facilitatortest"
	"github.com/roamcard/roamcard/internal/secret"
)

// asksByKey is a configuration with a key for a facilitator of Coinbase's kind that knows it.
func asksByKey(t *testing.T, key facilitatortest.CDPKey, text string) Config {
	t.Helper()
	server := httptest.NewServer(http.StripPrefix(facilitatortest.CDPPath,
		facilitatortest.New(facilitatortest.Config{Key: key, Now: time.Now})))
	t.Cleanup(server.Close)
	return Config{
		Environment: Sandbox, FacilitatorURL: server.URL + facilitatortest.CDPPath, FacilitatorKeyID: key.ID,
		FacilitatorKeySecret: secret.New(text),
	}
}

func TestFacilitatorIsAskedByKeyWhereverItIs(t *testing.T) {
	seed := sha256.Sum256([]byte("a throw-away key for tests"))
	edwards, raw := facilitatortest.NewEd25519("k1", seed)
	ec, pkcs8, sec1 := facilitatortest.NewES256("k2", seed)
	t.Setenv("CDP_KEY", raw.Reveal()+"\n")
	t.Setenv("CDP_PEM", strings.ReplaceAll(pkcs8.Reveal(), "\n", `\n`))
	for name, tt := range map[string]struct {
		key  facilitatortest.CDPKey
		text string
	}{
		"Ed25519":               {edwards, raw.Reveal()},
		"Ed25519 in a file":     {edwards, "file:" + write(t, "cdp", raw.Reveal()+"\n", 0o600)},
		"Ed25519 in a variable": {edwards, "env:CDP_KEY"},
		"a PEM":                 {ec, pkcs8.Reveal()},
		"a PEM in a file":       {ec, "file:" + write(t, "cdp.pem", sec1.Reveal(), 0o440)},
		"a PEM in a variable":   {ec, "env:CDP_PEM"},
	} {
		c := asksByKey(t, tt.key, tt.text)
		f, err := c.NewFacilitator()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := f.Supported(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if wrong := c.facilitatorKeyMistakes(); len(wrong) > 0 {
			t.Errorf("%s: %v", name, wrong)
		}
		if got, want := c.referredVariables(), strings.HasPrefix(tt.text, "env:"); slices.Contains(got,
			strings.TrimPrefix(tt.text, "env:")) != want {
			t.Errorf("%s refers to %q", name, got)
		}
	}
}

func TestFacilitatorKeyThatIsNoneIsAMistake(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"a word":          {"hunter2", "neither base64"},
		"a file for all":  {"file:" + write(t, "cdp", "hunter2", 0o644), "chmod 600"},
		"an unset name":   {"env:CDP_KEY_OF_NOBODY", "CDP_KEY_OF_NOBODY is not set"},
		"a word, in file": {"file:" + write(t, "cdp", "hunter2", 0o600), "neither base64"},
		"a signer":        {"web3signer:https://hunter2@signer.example#1", "file:PATH or env:NAME"},
	} {
		c := asksByKey(t, facilitatortest.CDPKey{ID: "k1"}, tt.text)
		_, err := c.NewFacilitator()
		wrong := c.unusable()
		if err == nil || len(wrong) == 0 {
			t.Errorf("%s: %v, %v", name, err, wrong)
			continue
		}
		for _, told := range []string{err.Error(), wrong[0].Error()} {
			if !strings.Contains(told, "facilitator.key_secret: ") || !strings.Contains(told, tt.want) ||
				strings.Contains(told, "hunter2") {
				t.Errorf("%s: %s", name, told)
			}
		}
	}
}
