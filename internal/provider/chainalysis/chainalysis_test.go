package chainalysis_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/provider/chainalysis"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/x402"
)

const key = "the-key-of-the-test"

var payer = x402.Address{19: 1}

// answering is a client of a service that answers one thing.
func answering(t *testing.T, status int, body string) (*chainalysis.Client, *http.Request) {
	t.Helper()
	var asked http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = *r.Clone(r.Context())
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	c, err := chainalysis.New(chainalysis.Config{URL: server.URL, Key: secret.New(key)})
	if err != nil {
		t.Fatal(err)
	}
	return c, &asked
}

func TestIdentifiedAddressIsSanctioned(t *testing.T) {
	const sdn = `{"identifications":[{"category":"sanctions","name":"SANCTIONS: OFAC SDN","description":"…","url":"…"}]}`
	for body, want := range map[string]bool{sdn: true, `{"identifications":[]}`: false} {
		c, asked := answering(t, http.StatusOK, body)
		if got, err := c.Sanctioned(t.Context(), payer); err != nil || got != want {
			t.Errorf("%s: %t, %v", body, got, err)
		}
		if asked.URL.Path != "/api/v1/address/"+payer.String() || asked.Header.Get("X-Api-Key") != key {
			t.Errorf("asked %s with %v", asked.URL, asked.Header)
		}
	}
}

func TestUnclearAnswerIsAnErrorWithoutTheKey(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
	}{
		"forbidden": {http.StatusForbidden, `{"identifications":[]}`},
		"too many":  {http.StatusTooManyRequests, ""},
		"down":      {http.StatusBadGateway, "<html>"},
		"redirect":  {http.StatusFound, `{"identifications":[]}`},
		"not JSON":  {http.StatusOK, "<html>"},
		"empty":     {http.StatusOK, ""},
		"another":   {http.StatusOK, `{"message":"no"}`},
		"null":      {http.StatusOK, `{"identifications":null}`},
		"too long":  {http.StatusOK, `{"identifications":[]}` + strings.Repeat(" ", 2<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := answering(t, c.status, c.body)
			if _, err := client.Sanctioned(t.Context(), payer); err == nil || strings.Contains(err.Error(), key) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestHalfConfiguredServiceIsRefused(t *testing.T) {
	for _, c := range []chainalysis.Config{{}, {URL: "ftp://x", Key: secret.New(key)}, {URL: ":", Key: secret.New(key)}} {
		if _, err := chainalysis.New(c); err == nil {
			t.Errorf("%v: no error", c.URL)
		}
	}
}
