package app

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// Modules are what a program has in addition to what is registered here. Tests add modules of their own; the program
// that is released has none.
type Modules struct {
	Products  []Registration
	Issuers   []provider.Issuer
	Suppliers []provider.Supplier
}

func (m Modules) issuers() []provider.Issuer { return append(issuers(), m.Issuers...) }

func (m Modules) suppliers() []provider.Supplier { return append(suppliers(), m.Suppliers...) }

func (m Modules) issuerNames() (all []string) {
	for _, i := range m.issuers() {
		all = append(all, i.Name)
	}
	return all
}

func (m Modules) supplierNames() (all []string) {
	for _, s := range m.suppliers() {
		all = append(all, s.Name)
	}
	return all
}

// providerSettings are the providers' own.
func (m Modules) providerSettings() (all []setting) {
	for _, i := range m.issuers() {
		all = append(all, unlessChosen(i.Settings)...)
	}
	for _, s := range m.suppliers() {
		all = append(all, unlessChosen(s.Settings)...)
	}
	return all
}

// unlessChosen are a provider's settings. None of them has to be set while another provider is chosen.
func unlessChosen(of []provider.Setting) []setting {
	optional := slices.Clone(of)
	for i := range optional {
		optional[i].Optional = true
	}
	return ownSettings(optional)
}

// ownSettings are read into Config.Own.
func ownSettings(of []provider.Setting) (all []setting) {
	for _, own := range of {
		s := setting{key: own.Key, help: own.Help, byDefault: own.Default, secret: own.Secret}
		if s.byDefault == "" && own.Optional {
			s.byDefault = none
		}
		s.set = func(c *Config, text string) error {
			if own.Check != nil {
				if err := own.Check(text); err != nil {
					return err
				}
			}
			if c.Own == nil {
				c.Own = provider.Values{}
			}
			c.Own[own.Key] = secret.New(text)
			return nil
		}
		all = append(all, s)
	}
	return all
}

// issuerAt is a configured card issuer.
type issuerAt struct {
	provider.Issuer
	reach   reach
	retired bool
	first   bool
	// client is nil until it is dialled.
	client provider.IssuerClient
}

// issuers are the card issuers that are configured: those that sell, in order of preference, then those that are
// retired.
func (c Config) issuers() (all []issuerAt, err error) {
	known := c.Added.issuers()
	for i, name := range c.issuerNames() {
		at := slices.IndexFunc(known, func(i provider.Issuer) bool { return i.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("issuer.provider: %w", among(name, c.Added.issuerNames()...))
		}
		all = append(all, issuerAt{
			Issuer: known[at], retired: i >= len(named(c.IssuerProvider)), first: i == 0,
			reach: c.reachOf("issuer", name, i == 0,
				reach{url: c.IssuerURL, key: c.IssuerKey, webhooks: c.IssuerWebhookSecrets}),
		})
	}
	if len(all) == 0 {
		return nil, errors.New("issuer.provider names no issuer")
	}
	return all, nil
}

// issuerNames are the names of all issuers that are configured.
func (c Config) issuerNames() []string {
	return append(named(c.IssuerProvider), named(c.IssuerRetired)...)
}

// providerNames are the names of all providers that are configured, each once.
func (c Config) providerNames() []string {
	all := append(c.issuerNames(), c.supplierNames()...)
	slices.Sort(all)
	return slices.Compact(all)
}

func (c Config) issuerConfig(of issuerAt, log *slog.Logger, metrics *telemetry.Metrics) provider.Config {
	return provider.Config{
		URL: of.reach.url, Key: of.reach.key, CallTimeout: c.IssuerCallTimeout, VisibilityDelay: c.IssuerVisibilityDelay,
		SpendLimits: c.IssuerLimits, Production: c.Environment == Production, Own: c.Own,
		HTTP: c.Outside.HTTP, Log: log, Metrics: metrics,
	}
}

// dialIssuers makes clients of the card issuers. Nothing is asked yet.
func (c Config) dialIssuers(log *slog.Logger, metrics *telemetry.Metrics) ([]issuerAt, error) {
	all, err := c.issuers()
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].client, err = all[i].Dial(c.issuerConfig(all[i], log, metrics)); err != nil {
			return nil, fmt.Errorf("dial %s: %w", all[i].Name, err)
		}
	}
	return all, nil
}

// issuerMistakes are those of the issuers that are configured. A name that is none was told when it was read.
func (c Config) issuerMistakes() (wrong []error) {
	all, err := c.issuers()
	if err != nil {
		return nil
	}
	for _, of := range all {
		wrong = append(wrong, c.mistakesOf(of)...)
	}
	return wrong
}

func (c Config) mistakesOf(of issuerAt) []error {
	chosenBy := "issuer.provider"
	if of.retired {
		chosenBy = "issuer.retired"
	}
	wrong := c.unreached(chosenBy, of.Name, of.first, of.reach)
	with := c.issuerConfig(of, discard(), nil)
	wrong = append(wrong, c.providerMistakes(chosenBy, "cards", of.Registration, with, of.reach)...)
	if len(wrong) > 0 {
		return wrong
	}
	// A client that cannot be made tells so when the service dials it.
	if client, err := of.Dial(with); err == nil {
		if err := client.Capabilities().Check(); err != nil {
			wrong = append(wrong, fmt.Errorf("%s names %s: %w", chosenBy, of.Name, err))
		}
	}
	return wrong
}

// providerMistakes are those of a provider that a setting has chosen, to make goods that are sold.
func (c Config) providerMistakes(
	chosenBy, goods string, r provider.Registration, with provider.Config, at reach,
) (wrong []error) {
	if c.Environment == Production && !r.Real {
		wrong = append(wrong,
			fmt.Errorf("%s: the %s sells %s that are not real; set environment to sandbox", chosenBy, r.Name, goods))
	}
	for _, s := range r.Settings {
		if s.Default == "" && !s.Optional && with.Own.Text(s.Key) == "" {
			wrong = append(wrong, fmt.Errorf("%s (%s) is not set, and %s names %s: %s",
				s.Key, setting{key: s.Key}.env(), chosenBy, r.Name, s.Help))
		}
	}
	var own []error
	if r.Validate != nil {
		own = r.Validate(with)
	}
	role, _, _ := strings.Cut(chosenBy, ".")
	url := role + ".url"
	told := slices.ContainsFunc(own, func(err error) bool { return strings.HasPrefix(err.Error(), url+": ") })
	// Outside of production an adapter may take http on loopback.
	if c.Environment == Production && r.Real && strings.HasPrefix(with.URL, "http://") && !told {
		own = append(own, fmt.Errorf("%s: must be https in production", url))
	}
	for i, err := range own {
		// An adapter names the general settings.
		renamed := strings.NewReplacer(url, at.urlSetting, role+".key", at.keySetting).Replace(err.Error())
		if renamed != err.Error() {
			own[i] = errors.New(renamed)
		}
	}
	return append(wrong, own...)
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
