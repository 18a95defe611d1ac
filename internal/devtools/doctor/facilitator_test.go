package doctor

import (
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/facilitator/facilitatortest"
	"github.com/roamcard/roamcard/internal/secret"
)

// TestFacilitatorThatRefusesTheCallerIsFound asks facilitators that want a key, a token or nothing.
func TestFacilitatorThatRefusesTheCallerIsFound(t *testing.T) {
	known, right := facilitatortest.NewEd25519("k1", sha256.Sum256([]byte("a throw-away key for tests")))
	_, wrong := facilitatortest.NewEd25519("k1", sha256.Sum256([]byte("another throw-away key")))
	start := func(c facilitatortest.Config) string {
		c.Now = time.Now
		server := httptest.NewServer(http.StripPrefix(facilitatortest.CDPPath, facilitatortest.New(c)))
		t.Cleanup(server.Close)
		return server.URL + facilitatortest.CDPPath
	}
	byKey := start(facilitatortest.Config{Key: known})
	byToken := start(facilitatortest.Config{Token: secret.New("a-token")})
	forbids := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(forbids.Close)
	withKey := func(s secret.Text) app.Config {
		return app.Config{FacilitatorKeyID: "k1", FacilitatorKeySecret: s}
	}
	withToken := func(s string) app.Config { return app.Config{FacilitatorToken: secret.New(s)} }
	for name, tt := range map[string]struct {
		cfg    app.Config
		url    string
		status string
		says   string
	}{
		"by its key":            {withKey(right), byKey, statusOK, "by the key k1"},
		"by another key":        {withKey(wrong), byKey, statusFail, "it refuses the key"},
		"by a forbidden key":    {withKey(right), forbids.URL, statusFail, "it refuses the key"},
		"by no key":             {app.Config{}, byKey, statusFail, "set facilitator.token, or"},
		"by a token for a key":  {withToken("a-token"), byKey, statusFail, "set facilitator.key_id and"},
		"by its token":          {withToken("a-token"), byToken, statusOK, "by facilitator.token"},
		"by another token":      {withToken("another"), byToken, statusFail, "it refuses facilitator.token"},
		"without":               {app.Config{}, start(facilitatortest.Config{}), statusOK, "without authentication"},
		"nobody":                {withKey(right), "http://127.0.0.1:1", statusFail, "check facilitator.url"},
		"by what is no secret":  {withKey(secret.New("hunter2")), byKey, statusFail, "check facilitator.url"},
		"at the wrong address":  {withKey(right), strings.TrimSuffix(byKey, "/x402"), statusFail, "check facilitator.url"},
		"by a key, for a token": {withKey(right), byToken, statusFail, "it refuses the key"},
	} {
		tt.cfg.Environment, tt.cfg.FacilitatorURL = app.Sandbox, tt.url
		found := examineFacilitator(t.Context(), tt.cfg)
		told := found.Detail + " " + found.Fix
		if found.Status != tt.status || !strings.Contains(told, tt.says) || (found.Status == statusOK) != (found.Fix == "") {
			t.Errorf("%s: %+v", name, found)
		}
		for _, s := range []secret.Text{right, wrong, secret.New("hunter2"), secret.New("a-token")} {
			if strings.Contains(told, s.Reveal()) {
				t.Errorf("%s: a secret is told: %+v", name, found)
			}
		}
	}
}
