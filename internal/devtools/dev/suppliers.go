package dev

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/provider/esimaccess"
	"github.com/roamcard/roamcard/internal/provider/esimaccess/esimaccessfake"
	"github.com/roamcard/roamcard/internal/provider/esimgo"
	"github.com/roamcard/roamcard/internal/provider/esimgo/esimgofake"
)

// sandboxSupplier is the supplier that a development server has by default.
const sandboxSupplier = "sandbox"

// fakeSupplier is a real supplier that the sandbox process plays.
type fakeSupplier struct {
	name string
	// make makes the vendor. Its books are in memory: they are empty after each start.
	make func() http.Handler
	// path is where the vendor's API begins, below the vendor's own name.
	path string
	key  string
	own  map[string]string
	// visibilityDelay is the setting of that name.
	visibilityDelay string
}

func fakeSuppliers() []fakeSupplier {
	return []fakeSupplier{
		{
			name: esimaccess.Name, make: func() http.Handler { return esimaccessfake.New(esimaccessfake.Config{}) },
			key: esimaccessfake.DevAccessCode, own: map[string]string{esimaccess.SecretKey: esimaccessfake.DevSecret},
			visibilityDelay: esimaccess.VisibilityDelayKey,
		},
		{
			name: esimgo.Name, make: func() http.Handler { return esimgofake.New(esimgofake.Config{}) },
			path: "/v2.4", key: esimgofake.DevKey, visibilityDelay: esimgo.VisibilityDelayKey,
		},
	}
}

// SupplierNames are the suppliers that a development server can have.
func SupplierNames() []string {
	names := []string{sandboxSupplier}
	for _, s := range fakeSuppliers() {
		names = append(names, s.name)
	}
	return names
}

// WithSuppliers adds the fakes of the real suppliers to the sandbox providers: /esim-access and /esim-go, each with its
// books at /control/books below.
func WithSuppliers(sandbox http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", sandbox)
	for _, s := range fakeSuppliers() {
		vendor, root := s.make(), "/"+s.name
		mux.Handle(root+s.path+"/", http.StripPrefix(root+s.path, vendor))
		mux.Handle(root+"/control/", http.StripPrefix(root, vendor))
	}
	return mux
}

// UseSupplier makes a configuration sell the eSIMs of a supplier that runs next to the sandbox. Zero leaves the
// supplier its own visibility delay.
func UseSupplier(c *app.Config, name, sandboxURL string, visibilityDelay time.Duration) error {
	name = cmp.Or(name, sandboxSupplier)
	if name == sandboxSupplier {
		if visibilityDelay != 0 {
			return errors.New("the sandbox supplier has no visibility delay to set")
		}
		return nil
	}
	all := fakeSuppliers()
	i := slices.IndexFunc(all, func(s fakeSupplier) bool { return s.name == name })
	if i < 0 {
		return fmt.Errorf("there is no supplier %q, only %s", name, strings.Join(SupplierNames(), ", "))
	}
	s := all[i]
	settings := map[string]string{
		"supplier.provider": s.name, "supplier.url": sandboxURL + "/" + s.name + s.path, "supplier.key": s.key,
	}
	maps.Copy(settings, s.own)
	if visibilityDelay != 0 {
		settings[s.visibilityDelay] = visibilityDelay.String()
	}
	for key, text := range settings {
		if err := c.Set(key, text); err != nil {
			return fmt.Errorf("use the supplier %s: %w", name, err)
		}
	}
	return nil
}

// SupplierBooks is where the book of a fake is read that runs next to the sandbox.
func SupplierBooks(name, sandboxURL string) string {
	return sandboxURL + "/" + name + "/control/books"
}
