package dev

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/secret"
)

// sandboxName is the issuer and the supplier that a development server has by default.
const (
	sandboxName = "sandbox"
	sandboxKey  = sandbox.DevKey
)

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
	// make makes the vendor, with empty books.
	make func() fake
	// path is where the vendor's API begins, below the vendor's own name.
	path string
	key  string
	// calls says that it sends webhooks, which its key signs.
	calls bool
	// own are its settings; {url} in them is where its API is.
	own map[string]string
	// visibilityDelay is the setting of that name, for suppliers.
	visibilityDelay string
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

// WithVendors adds the fakes of the real providers to the sandbox ones, each below its name. They keep their books in a
// folder; without one they forget them.
func WithVendors(alone http.Handler, dir string, log *slog.Logger) (http.Handler, error) {
	mux := http.NewServeMux()
	mux.Handle("/", alone)
	for _, v := range vendors() {
		fake, err := keepBooks(v.make(), dir, v.name, log)
		if err != nil {
			return nil, err
		}
		root := "/" + v.name
		mux.Handle(root+v.path+"/", http.StripPrefix(root+v.path, fake))
		mux.Handle(root+"/control/", http.StripPrefix(root, fake))
	}
	return mux, nil
}

// Books is where the book of a fake is read that runs next to the sandbox.
func Books(name, sandboxURL string) string {
	return sandboxURL + "/" + name + "/control/books"
}

// UseIssuer makes a configuration sell the cards of issuers that run next to the sandbox: one name, or several
// separated by commas.
func UseIssuer(c *app.Config, names, sandboxURL string) error {
	return each(c, Issuer, names, sandboxURL, func(v *vendor, first bool) error {
		if c.IssuerLimits {
			return errors.New("spending limits are the sandbox issuer's")
		}
		return v.use(c, sandboxURL, first)
	})
}

// UseSupplier makes a configuration sell the eSIMs of suppliers that run next to the sandbox: one name, or several
// separated by commas. Zero leaves a supplier its own visibility delay.
func UseSupplier(c *app.Config, names, sandboxURL string, visibilityDelay time.Duration) error {
	if visibilityDelay != 0 && slices.Contains(named(names), sandboxName) {
		return errors.New("the sandbox supplier has no visibility delay to set")
	}
	return each(c, Supplier, names, sandboxURL, func(v *vendor, first bool) error {
		if err := v.use(c, sandboxURL, first); err != nil || visibilityDelay == 0 {
			return err
		}
		return v.set(c, v.visibilityDelay, visibilityDelay.String())
	})
}

func named(names string) []string {
	all := strings.Split(cmp.Or(names, sandboxName), ",")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// each uses all vendors that are named. The sandbox is reached by the general settings where it is the first.
func each(c *app.Config, role Role, names, sandboxURL string, use func(v *vendor, first bool) error) error {
	for i, name := range named(names) {
		v, err := find(role, name)
		switch {
		case err == nil && v != nil:
			err = use(v, i == 0)
		case err == nil && i > 0:
			own := &vendor{role: role, name: name}
			err = errors.Join(own.set(c, name+".url", sandboxURL), own.set(c, name+".key", sandboxKey))
		}
		if err != nil {
			return err
		}
	}
	if err := c.Set(string(role)+".provider", strings.Join(named(names), ",")); err != nil {
		return fmt.Errorf("use %s: %w", names, err)
	}
	return nil
}

// use makes a configuration use the vendor next to the sandbox. The first one has the general settings.
func (v *vendor) use(c *app.Config, sandboxURL string, first bool) error {
	url, prefix := sandboxURL+"/"+v.name+v.path, string(v.role)
	if !first {
		prefix = strings.ReplaceAll(v.name, "-", "_")
	}
	settings := map[string]string{}
	if v.role == Issuer && first {
		c.IssuerURL, c.IssuerKey = url, secret.New(v.key) // the setting takes an origin only
	} else {
		settings[prefix+".url"], settings[prefix+".key"] = url, v.key
	}
	if v.calls {
		settings[prefix+".webhook_secrets"] = v.key
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
