package app

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/provider/esimaccess"
	"github.com/roamcard/roamcard/internal/provider/esimgo"
	"github.com/roamcard/roamcard/internal/provider/lithic"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/provider/stripe"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// issuers are the card issuers that issuer.provider chooses from: a line for each.
func issuers() []provider.Issuer {
	return []provider.Issuer{
		sandbox.AsIssuer(),
		lithic.AsIssuer(),
		stripe.AsIssuer(),
	}
}

// suppliers are the suppliers that supplier.provider chooses from: a line for each.
func suppliers() []provider.Supplier {
	return []provider.Supplier{
		sandbox.AsSupplier(),
		esimaccess.AsSupplier(),
		esimgo.AsSupplier(),
	}
}

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

// issuer is the card issuer that is chosen.
func (c Config) issuer() (provider.Issuer, error) {
	all := c.Added.issuers()
	i := slices.IndexFunc(all, func(i provider.Issuer) bool { return i.Name == c.IssuerProvider })
	if i < 0 {
		return provider.Issuer{}, fmt.Errorf("issuer.provider: %w", among(c.IssuerProvider, c.Added.issuerNames()...))
	}
	return all[i], nil
}

func (c Config) issuerConfig(log *slog.Logger, metrics *telemetry.Metrics) provider.Config {
	return provider.Config{
		URL: c.IssuerURL, Key: c.IssuerKey, CallTimeout: c.IssuerCallTimeout, VisibilityDelay: c.IssuerVisibilityDelay,
		SpendLimits: c.IssuerLimits, Production: c.Environment == Production, Own: c.Own,
		Log: log, Metrics: metrics,
	}
}

// dialIssuer makes a client of the card issuer. Nothing is asked yet.
func (c Config) dialIssuer(log *slog.Logger, metrics *telemetry.Metrics) (provider.IssuerClient, error) {
	chosen, err := c.issuer()
	if err != nil {
		return nil, err
	}
	return chosen.Dial(c.issuerConfig(log, metrics))
}

// issuerMistakes are those of the issuer that is chosen. A name that is none was told when it was read.
func (c Config) issuerMistakes() []error {
	chosen, err := c.issuer()
	if err != nil {
		return nil
	}
	wrong := c.providerMistakes("issuer.provider", "cards", chosen.Registration, c.issuerConfig(discard(), nil))
	if len(wrong) > 0 {
		return wrong
	}
	// A client that cannot be made tells so when the service dials it.
	if client, err := chosen.Dial(c.issuerConfig(discard(), nil)); err == nil {
		if err := client.Capabilities().Check(); err != nil {
			wrong = append(wrong, fmt.Errorf("issuer.provider names %s: %w", chosen.Name, err))
		}
	}
	return wrong
}

// providerMistakes are those of a provider that a setting has chosen, to make goods that are sold.
func (c Config) providerMistakes(
	chosenBy, goods string, r provider.Registration, with provider.Config,
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
	if r.Mistakes != nil {
		own = r.Mistakes(with)
	}
	url := strings.TrimSuffix(chosenBy, "provider") + "url"
	told := slices.ContainsFunc(own, func(err error) bool { return strings.HasPrefix(err.Error(), url+": ") })
	// Outside of production an adapter may take http on loopback.
	if c.Environment == Production && r.Real && strings.HasPrefix(with.URL, "http://") && !told {
		own = append(own, fmt.Errorf("%s: must be https in production", url))
	}
	return append(wrong, own...)
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
