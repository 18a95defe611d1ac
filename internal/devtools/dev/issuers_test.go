package dev

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/provider/stripe"
)

// TestFakeIssuersAnswerBelowTheSandbox: the real adapter finds what the sandbox process plays.
func TestFakeIssuersAnswerBelowTheSandbox(t *testing.T) {
	web := httptest.NewServer(WithIssuers(http.NotFoundHandler()))
	t.Cleanup(web.Close)
	var c app.Config
	if err := UseIssuer(&c, stripe.Name, web.URL); err != nil {
		t.Fatal(err)
	}
	client, err := stripe.AsIssuer().Dial(provider.Config{
		URL: c.IssuerURL, Key: c.IssuerKey, Own: c.Own, CallTimeout: 10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.IssuerProvider != stripe.Name {
		t.Errorf("the issuer is %s", c.IssuerProvider)
	}
	if saw, err := client.(provider.Prober).Probe(t.Context()); err != nil || !strings.Contains(saw, "100000.00 USD") {
		t.Errorf("saw %q, %v", saw, err)
	}
	resp, err := http.Get(web.URL + "/" + stripe.Name + "/control/books")
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusOK {
		t.Errorf("the books: %s", resp.Status)
	}
}

func TestOnlyKnownIssuersAreUsed(t *testing.T) {
	for name, c := range map[string]app.Config{"acme": {}, stripe.Name: {IssuerLimits: true}} {
		if err := UseIssuer(&c, name, "http://127.0.0.1:1"); err == nil {
			t.Errorf("%s is used with %+v", name, c.IssuerLimits)
		}
	}
	var c app.Config
	if err := UseIssuer(&c, "", "http://127.0.0.1:1"); err != nil || c.IssuerURL != "" {
		t.Errorf("the sandbox: %q, %v", c.IssuerURL, err)
	}
}
