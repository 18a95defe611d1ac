package simulation_test

import (
	"net/http"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/devtools/dev"
	"github.com/roamcard/roamcard/internal/provider/esimaccess"
	"github.com/roamcard/roamcard/internal/provider/esimaccess/esimaccessfake"
	"github.com/roamcard/roamcard/internal/provider/esimgo"
	"github.com/roamcard/roamcard/internal/provider/esimgo/esimgofake"
	"github.com/roamcard/roamcard/internal/provider/lithic"
	"github.com/roamcard/roamcard/internal/provider/lithic/lithicfake"
	"github.com/roamcard/roamcard/internal/provider/stripe"
	"github.com/roamcard/roamcard/internal/provider/stripe/stripefake"
)

const (
	// providers is where all of them are: the sandbox, and the fakes of vendors below their names.
	providers = "https://providers.sim"
	sandboxes = "sandbox"
	// visibilityDelay is how long after a call without an answer a supplier may still take it up.
	visibilityDelay = 10 * time.Second
)

// issuers and suppliers are those that a world may have. The sandbox plays the scenarios of keys, and takes a reference
// once; of the vendors, some do not.
var (
	issuers   = []string{sandboxes, sandboxes, lithic.Name, stripe.Name}
	suppliers = []string{sandboxes, sandboxes, esimaccess.Name, esimgo.Name}
)

// bankers are the sandbox and the vendors of a world, by the time of that world.
func bankers(sandbox http.Handler, now func() time.Time) http.Handler {
	all := http.NewServeMux()
	all.Handle("/", sandbox)
	for name, of := range map[string]struct {
		path string
		fake http.Handler
	}{
		lithic.Name:     {"", lithicfake.New(lithicfake.Config{Now: now})},
		stripe.Name:     {"", stripefake.New(stripefake.Config{Now: now})},
		esimaccess.Name: {"", esimaccessfake.New(esimaccessfake.Config{Now: now})},
		esimgo.Name:     {"/v2.4", esimgofake.New(esimgofake.Config{Now: now})},
	} {
		root := "/" + name
		all.Handle(root+of.path+"/", http.StripPrefix(root+of.path, of.fake))
		all.Handle(root+"/control/", http.StripPrefix(root, of.fake))
	}
	return all
}

// sell makes a configuration sell what the providers of the plan make.
func (p plan) sell(c *app.Config) error {
	if p.issuer != sandboxes {
		if err := dev.UseIssuer(c, p.issuer, providers); err != nil {
			return err
		}
	}
	if p.supplier == sandboxes {
		return nil
	}
	return dev.UseSupplier(c, p.supplier, providers, visibilityDelay)
}
