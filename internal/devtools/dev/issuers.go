package dev

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/provider/lithic"
	"github.com/roamcard/roamcard/internal/provider/lithic/lithicfake"
	"github.com/roamcard/roamcard/internal/provider/stripe"
	"github.com/roamcard/roamcard/internal/provider/stripe/stripefake"
	"github.com/roamcard/roamcard/internal/secret"
)

// sandboxIssuer is the issuer that a development server has by default.
const sandboxIssuer = "sandbox"

// fakeIssuer is a real issuer that the sandbox process plays.
type fakeIssuer struct {
	name string
	// make makes the vendor. Its books are in memory: they are empty after each start.
	make func() http.Handler
	key  string
	// own are its settings; {url} in them is where it is.
	own map[string]string
}

func fakeIssuers() []fakeIssuer {
	return []fakeIssuer{
		{
			name: lithic.Name, make: func() http.Handler { return lithicfake.New(lithicfake.Config{}) },
			key: lithicfake.DevKey, own: map[string]string{
				lithic.FloatKey: lithicfake.Float, lithic.ProgramKey: lithicfake.Program,
				lithic.TransferKey: "TRANSFER/ACCOUNT_TO_ACCOUNT/load",
			},
		},
		{
			name: stripe.Name, make: func() http.Handler { return stripefake.New(stripefake.Config{}) },
			key: stripefake.DevKey, own: map[string]string{
				stripe.CardholderKey: stripefake.DevCardholder, stripe.PublishableKey: stripefake.DevPublishable,
				stripe.ElementsKey: "{url}/elements.js",
			},
		},
	}
}

// IssuerNames are the issuers that a development server can have.
func IssuerNames() []string {
	names := []string{sandboxIssuer}
	for _, i := range fakeIssuers() {
		names = append(names, i.name)
	}
	return names
}

// WithIssuers adds the fakes of the real issuers to the sandbox providers: /lithic and /stripe, each with its books at
// /control/books below.
func WithIssuers(sandbox http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", sandbox)
	for _, i := range fakeIssuers() {
		mux.Handle("/"+i.name+"/", http.StripPrefix("/"+i.name, i.make()))
	}
	return mux
}

// IssuerBooks is where the book of a fake is read that runs next to the sandbox.
func IssuerBooks(name, sandboxURL string) string {
	return sandboxURL + "/" + name + "/control/books"
}

// UseIssuer makes a configuration sell the cards of an issuer that runs next to the sandbox.
func UseIssuer(c *app.Config, name, sandboxURL string) error {
	name = cmp.Or(name, sandboxIssuer)
	if name == sandboxIssuer {
		return nil
	}
	all := fakeIssuers()
	at := slices.IndexFunc(all, func(i fakeIssuer) bool { return i.name == name })
	switch {
	case at < 0:
		return fmt.Errorf("there is no issuer %q, only %s", name, strings.Join(IssuerNames(), ", "))
	case c.IssuerLimits:
		return errors.New("spending limits are the sandbox issuer's")
	}
	c.IssuerURL, c.IssuerKey = sandboxURL+"/"+name, secret.New(all[at].key)
	if err := c.Set("issuer.provider", name); err != nil {
		return fmt.Errorf("use the issuer %s: %w", name, err)
	}
	for key, text := range all[at].own {
		if err := c.Set(key, strings.ReplaceAll(text, "{url}", c.IssuerURL)); err != nil {
			return fmt.Errorf("use the issuer %s: %w", name, err)
		}
	}
	return nil
}
