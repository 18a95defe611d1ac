package simulation_test

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
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

// issuedBy names all that issue cards in a world, and suppliedBy all that supply eSIMs.
func (p plan) issuedBy() string { return joined(p.issuer, p.nextIssuer) }

func (p plan) suppliedBy() string { return joined(p.supplier, p.nextSupplier) }

// booksOf are where the books of providers are; an empty name is none.
func booksOf(bank, sandbox string, names ...string) (all []string) {
	for _, name := range names {
		switch name {
		case "":
		case sandboxes:
			all = append(all, bank+sandbox)
		default:
			all = append(all, dev.Books(name, bank))
		}
	}
	return all
}

// sell makes a configuration sell what the providers of the plan make, or those that an operator has changed it to. All
// that are named are reached, also those that only serve what they have sold.
func (p plan) sell(c *app.Config, changed map[string]string) error {
	issuers, suppliers := cmp.Or(changed[issuersSold], p.issuer), cmp.Or(changed[suppliersSold], p.supplier)
	if known := joined(issuers, changed[issuersRetired]); known != sandboxes {
		if err := dev.UseIssuer(c, known, providers); err != nil {
			return err
		}
	}
	if known := joined(suppliers, changed[suppliersRetired]); known != sandboxes {
		delay := visibilityDelay
		if strings.Contains(known, sandboxes) {
			delay = 0 // the vendor's own
		}
		if err := dev.UseSupplier(c, known, providers, delay); err != nil {
			return err
		}
	}
	var errs error
	for _, key := range []string{issuersSold, issuersRetired, suppliersSold, suppliersRetired} {
		if names := changed[key]; names != "" {
			errs = errors.Join(errs, c.Set(key, names))
		}
	}
	return errs
}

// The settings that name providers.
const (
	issuersSold, issuersRetired     = "issuer.provider", "issuer.retired"
	suppliersSold, suppliersRetired = "supplier.provider", "supplier.retired"
)

// joined are the names of two lists.
func joined(one, other string) string { return strings.Trim(one+","+other, ",") }
