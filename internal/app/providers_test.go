package app_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/testing/paperissuer"
	"github.com/roamcard/roamcard/internal/testing/voucher"
)

// paperLoad loads a configuration in a program that has the issuer of the tests, too.
func paperLoad(more map[string]string) (app.Config, error) {
	all := settlementSettings(map[string]string{"relayer.keys": "0x01", "issuer.provider": paperissuer.Name})
	maps.Copy(all, more)
	added := app.Modules{Issuers: []provider.Issuer{paperissuer.NewOffice(0, time.Now).Register()}}
	return added.Load(all, func(string) (string, bool) { return "", false },
		func(string) ([]byte, error) { return nil, errors.New("no file") })
}

func TestSettingsOfAnAddedIssuerAreRead(t *testing.T) {
	c, err := paperLoad(map[string]string{"paper.stamp": "blue"})
	if err != nil {
		t.Fatal(err)
	}
	if bin, stamp := c.Own.Text("paper.bin"), c.Own.Text("paper.stamp"); bin != "400001" ||
		stamp != "blue" {
		t.Errorf("bin %q, stamp %q; want the default and what is set", bin, stamp)
	}
}

func TestMistakesOfAnAddedIssuerAreToldTogether(t *testing.T) {
	_, err := paperLoad(map[string]string{
		"environment": "production", "contact.email": "operator@example.com", "paper.bin": "4", "issuer.spend_limits": "true",
	})
	for _, want := range []string{
		"paper.bin (from the file): must be six digits",
		"paper.stamp (ROAMCARD_PAPER__STAMP) is not set, and issuer.provider names paper",
		"issuer.spend_limits: there are no limits on paper",
		"issuer.provider: the paper sells cards that are not real; set environment to sandbox",
		"supplier.provider: the sandbox sells eSIMs that are not real; set environment to sandbox",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
}

// registrar is a client of the paper issuer that issues cards to their owners.
type registrar struct{ provider.IssuerClient }

// Capabilities implements provider.IssuerClient.
func (r registrar) Capabilities() card.Capabilities {
	c := r.IssuerClient.Capabilities()
	c.Holder = card.HolderOwner
	return c
}

func TestIssuerThatNeedsTheOwnersIdentityIsRefused(t *testing.T) {
	registered := paperissuer.NewOffice(0, time.Now).Register()
	dial := registered.Dial
	registered.Dial = func(c provider.Config) (provider.IssuerClient, error) {
		client, err := dial(c)
		return registrar{client}, err
	}
	added := app.Modules{Issuers: []provider.Issuer{registered}}
	_, err := added.Load(settlementSettings(map[string]string{
		"relayer.keys": "0x01", "issuer.provider": paperissuer.Name, "paper.stamp": "blue",
	}), func(string) (string, bool) { return "", false },
		func(string) ([]byte, error) { return nil, errors.New("no file") })
	const want = "issuer.provider names paper: the card issuer asks for the identity of each card's owner"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v\nlacks %q", err, want)
	}
}

func TestIssuerThatIsNotChosenNeedsNoSettings(t *testing.T) {
	if _, err := paperLoad(map[string]string{"issuer.provider": "sandbox", "issuer.spend_limits": "true"}); err != nil {
		t.Error(err)
	}
}

func TestSettingsOfAnAddedProductAreRead(t *testing.T) {
	load := func(more map[string]string) (app.Config, error) {
		added := app.Modules{Products: []app.Registration{voucher.NewPress().Register()}}
		maps.Copy(more, map[string]string{"relayer.keys": "0x01"})
		return added.Load(settlementSettings(more), func(string) (string, bool) { return "", false },
			func(string) ([]byte, error) { return nil, errors.New("no file") })
	}
	for text, more := range map[string]map[string]string{"false": {}, "true": {"voucher.paused": "true"}} {
		if c, err := load(more); err != nil || c.Own.Text("voucher.paused") != text {
			t.Errorf("voucher.paused is %q, %v; want %s", c.Own.Text("voucher.paused"), err, text)
		}
	}
	if _, err := load(map[string]string{"voucher.paused": "maybe"}); err == nil {
		t.Error("a setting that its check refuses is read")
	}
}

func TestOnlyRegisteredProvidersCanBeChosen(t *testing.T) {
	for key, all := range map[string]string{
		"issuer.provider": "sandbox, lithic, stripe", "supplier.provider": "sandbox, esim-access, esim-go",
	} {
		_, err := settlementLoad(settlementSettings(map[string]string{"relayer.keys": "0x01", key: paperissuer.Name}))
		if want := key + ` (from the file): "paper" is none of ` + all; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestProductionTakesRealSuppliers: with all their settings, and with an address that is not read on the way.
func TestProductionTakesRealSuppliers(t *testing.T) {
	for name, c := range map[string]struct {
		more map[string]string
		told []string
	}{
		"esim-access": {map[string]string{"esim_access.secret": "s"}, nil},
		"esim-go":     {map[string]string{"supplier.url": "https://supplier.example/v2.4/"}, nil},
		"esim-access half": {nil, []string{
			"esim_access.secret (ROAMCARD_ESIM_ACCESS__SECRET) is not set, and supplier.provider names esim-access",
		}},
		"esim-access odd": {
			map[string]string{
				"esim_access.secret": "s", "esim_access.per_second": "9", "esim_access.visibility_delay": "soon",
				"supplier.url": "http://supplier.example",
			},
			[]string{
				"esim_access.per_second (from the file): must be 1 to 8",
				"esim_access.visibility_delay (from the file): must be a duration above zero, such as 10m",
				"supplier.url: the URL is not https",
			},
		},
		"esim-go odd": {
			map[string]string{"esim_go.order_gap": "0s", "supplier.url": "http://supplier.example/v2.4"},
			[]string{
				"esim_go.order_gap (from the file): must be a duration above zero, such as 10m",
				"supplier.url: the URL is not https, and supplier.example is not this machine",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := settlementSettings(map[string]string{
				"relayer.keys": "0x01", "environment": "production", "contact.email": "operator@example.com",
				"supplier.provider": strings.Fields(name)[0],
			})
			maps.Copy(all, c.more)
			_, err := settlementLoad(all)
			// The sandbox is the only issuer here.
			const sandbox = "issuer.provider: the sandbox sells cards that are not real; set environment to sandbox"
			if err == nil {
				t.Fatal("production sells cards that are not real")
			}
			lines := strings.Split(err.Error(), "\n")
			if i := slices.Index(lines, sandbox); i >= 0 {
				lines = slices.Delete(lines, i, i+1)
			}
			for i, want := range c.told {
				if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, want) }) {
					t.Errorf("%q lacks %q", lines, c.told[i])
				}
			}
			if len(lines) != len(c.told) {
				t.Errorf("told %q, want %d mistakes", lines, len(c.told))
			}
		})
	}
}

func TestSuppliersAddressMayHaveAPath(t *testing.T) {
	for text, want := range map[string]string{
		"https://supplier.example": "https://supplier.example", "https://supplier.example/": "https://supplier.example",
		"https://supplier.example/v2.4/": "https://supplier.example/v2.4", "https://supplier.example/?a": "",
		"https://u:hunter2@supplier.example": "", "supplier.example/v2.4": "", "ftp://supplier.example": "",
		"https://supplier.example#x": "",
	} {
		c, err := settlementLoad(settlementSettings(map[string]string{"relayer.keys": "0x01", "supplier.url": text}))
		if c.Esim.URL != want && want != "" || (err == nil) != (want != "") ||
			(err != nil && strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s is read as %q, %v; want %q", text, c.Esim.URL, err, want)
		}
	}
}
