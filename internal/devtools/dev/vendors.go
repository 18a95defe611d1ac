package dev

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/provider/esimaccess"
	"github.com/roamcard/roamcard/internal/provider/esimaccess/esimaccessfake"
	"github.com/roamcard/roamcard/internal/provider/esimgo"
	"github.com/roamcard/roamcard/internal/provider/esimgo/esimgofake"
	"github.com/roamcard/roamcard/internal/provider/lithic"
	"github.com/roamcard/roamcard/internal/provider/lithic/lithicfake"
	"github.com/roamcard/roamcard/internal/provider/stripe"
	"github.com/roamcard/roamcard/internal/provider/stripe/stripefake"
	"github.com/roamcard/roamcard/internal/secret"
)

// sandboxName is the issuer and the supplier that a development server has by default.
const sandboxName = "sandbox"

// Role is what a provider does for the service; its settings begin with it.
type Role string

// The roles of providers.
const (
	Issuer   Role = "issuer"
	Supplier Role = "supplier"
)

// vendor is a real provider that the sandbox process plays.
type vendor struct {
	role Role
	name string
	// make makes the vendor. Its books are in memory: they are empty after each start.
	make func() http.Handler
	// path is where the vendor's API begins, below the vendor's own name.
	path string
	key  string
	// own are its settings; {url} in them is where its API is.
	own map[string]string
	// visibilityDelay is the setting of that name, for suppliers.
	visibilityDelay string
}

func vendors() []vendor {
	return []vendor{
		{
			role: Issuer, name: lithic.Name, make: func() http.Handler { return lithicfake.New(lithicfake.Config{}) },
			key: lithicfake.DevKey, own: map[string]string{
				lithic.FloatKey: lithicfake.Float, lithic.ProgramKey: lithicfake.Program,
				lithic.TransferKey: "TRANSFER/ACCOUNT_TO_ACCOUNT/load",
			},
		},
		{
			role: Issuer, name: stripe.Name, make: func() http.Handler { return stripefake.New(stripefake.Config{}) },
			key: stripefake.DevKey, own: map[string]string{
				stripe.CardholderKey: stripefake.DevCardholder, stripe.PublishableKey: stripefake.DevPublishable,
				stripe.ElementsKey: "{url}/elements.js",
			},
		},
		{
			role: Supplier, name: esimaccess.Name,
			make: func() http.Handler { return esimaccessfake.New(esimaccessfake.Config{}) },
			key:  esimaccessfake.DevAccessCode, own: map[string]string{esimaccess.SecretKey: esimaccessfake.DevSecret},
			visibilityDelay: esimaccess.VisibilityDelayKey,
		},
		{
			role: Supplier, name: esimgo.Name, make: func() http.Handler { return esimgofake.New(esimgofake.Config{}) },
			path: "/v2.4", key: esimgofake.DevKey, visibilityDelay: esimgo.VisibilityDelayKey,
		},
	}
}

// Names are the providers of a role that a development server can have.
func Names(role Role) []string {
	names := []string{sandboxName}
	for _, v := range vendors() {
		if v.role == role {
			names = append(names, v.name)
		}
	}
	return names
}

// find is the vendor of a name; nil for the sandbox, which is also the empty name.
func find(role Role, name string) (*vendor, error) {
	if cmp.Or(name, sandboxName) == sandboxName {
		return nil, nil
	}
	all := vendors()
	at := slices.IndexFunc(all, func(v vendor) bool { return v.role == role && v.name == name })
	if at < 0 {
		return nil, fmt.Errorf("there is no %s %q, only %s", role, name, strings.Join(Names(role), ", "))
	}
	return &all[at], nil
}

// WithVendors adds the fakes of the real providers to the sandbox ones, each below its name.
func WithVendors(sandbox http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", sandbox)
	for _, v := range vendors() {
		fake, root := v.make(), "/"+v.name
		mux.Handle(root+v.path+"/", http.StripPrefix(root+v.path, fake))
		mux.Handle(root+"/control/", http.StripPrefix(root, fake))
	}
	return mux
}

// Books is where the book of a fake is read that runs next to the sandbox.
func Books(name, sandboxURL string) string {
	return sandboxURL + "/" + name + "/control/books"
}

// UseIssuer makes a configuration sell the cards of an issuer that runs next to the sandbox.
func UseIssuer(c *app.Config, name, sandboxURL string) error {
	v, err := find(Issuer, name)
	switch {
	case v == nil:
		return err
	case c.IssuerLimits:
		return errors.New("spending limits are the sandbox issuer's")
	}
	return v.use(c, sandboxURL)
}

// UseSupplier makes a configuration sell the eSIMs of a supplier that runs next to the sandbox. Zero leaves the
// supplier its own visibility delay.
func UseSupplier(c *app.Config, name, sandboxURL string, visibilityDelay time.Duration) error {
	v, err := find(Supplier, name)
	switch {
	case err != nil:
		return err
	case v == nil && visibilityDelay != 0:
		return errors.New("the sandbox supplier has no visibility delay to set")
	case v == nil:
		return nil
	}
	if err := v.use(c, sandboxURL); err != nil || visibilityDelay == 0 {
		return err
	}
	return v.set(c, v.visibilityDelay, visibilityDelay.String())
}

// use makes a configuration use the vendor next to the sandbox.
func (v *vendor) use(c *app.Config, sandboxURL string) error {
	url := sandboxURL + "/" + v.name + v.path
	settings := map[string]string{string(v.role) + ".provider": v.name}
	if v.role == Issuer {
		c.IssuerURL, c.IssuerKey = url, secret.New(v.key) // the setting takes an origin only
	} else {
		settings["supplier.url"], settings["supplier.key"] = url, v.key
	}
	for key, text := range v.own {
		settings[key] = strings.ReplaceAll(text, "{url}", url)
	}
	for key, text := range settings {
		if err := v.set(c, key, text); err != nil {
			return err
		}
	}
	return nil
}

func (v *vendor) set(c *app.Config, key, text string) error {
	if err := c.Set(key, text); err != nil {
		return fmt.Errorf("use the %s %s: %w", v.role, v.name, err)
	}
	return nil
}
