package app_test

import (
	"errors"
	"maps"
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

func TestAnIssuerThatNeedsTheOwnersIdentityIsRefused(t *testing.T) {
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

func TestAnIssuerThatIsNotChosenNeedsNoSettings(t *testing.T) {
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
	for key, all := range map[string]string{"issuer.provider": "sandbox, lithic, stripe", "supplier.provider": "sandbox"} {
		_, err := settlementLoad(settlementSettings(map[string]string{"relayer.keys": "0x01", key: paperissuer.Name}))
		if want := key + ` (from the file): "paper" is none of ` + all; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
