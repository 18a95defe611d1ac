package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/routing"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/store"
)

func routingSettings() []setting {
	return []setting{{
		key: "routing.rules", byDefault: none,
		help: "which provider to prefer, one rule in a line or several separated by semicolons, such as " +
			"\"PRODUCT country=JP: NAME\"; the first that matches counts",
		set: func(c *Config, s string) (err error) { c.Routing, err = routing.Parse(s); return err },
	}}
}

// providerNames reads the names of providers, separated by commas.
func providerNames(at func(*Config) *string, known []string) func(*Config, string) error {
	return func(c *Config, s string) error {
		names, err := routing.Names(s)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := among(name, known...); err != nil {
				return err
			}
		}
		*at(c) = strings.Join(names, ",")
		return nil
	}
}

func named(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// role is who provides a product.
type role struct {
	// name begins the role's settings: provider, retired, url and key. goods are what it provides.
	name, goods string
	// sells and retired are the texts of the settings of these names.
	sells, retired string
	routed         routing.Product
	// inUse are the providers that rows of the database need.
	inUse func(context.Context, *store.Store) ([]string, error)
}

// roles are who provides the products.
func (c Config) roles() (all []role) {
	for _, r := range c.Added.registered() {
		if r.role != nil {
			all = append(all, r.role(c))
		}
	}
	return all
}

// routed are the products that rules are about.
func (c Config) routed() (all []routing.Product) {
	for _, of := range c.roles() {
		all = append(all, of.routed)
	}
	return all
}

// routingMistakes are the rules that cannot be meant, and providers that both sell and do not.
func (c Config) routingMistakes() (wrong []error) {
	if err := c.Routing.Check(c.routed()); err != nil {
		wrong = append(wrong, fmt.Errorf("routing.rules: %w", err))
	}
	for _, of := range c.roles() {
		for _, name := range named(of.retired) {
			if slices.Contains(named(of.sells), name) {
				wrong = append(wrong, fmt.Errorf("%s.retired: %s.provider names %s, too", of.name, of.name, name))
			}
		}
	}
	return wrong
}

// CheckRouting refuses rules that cannot be meant. Load does it, too.
func (c Config) CheckRouting() error { return errors.Join(c.routingMistakes()...) }

// RoutingInEffect says in a line for each rule who sells what, and who only serves what was sold.
func (c Config) RoutingInEffect() []string {
	lines := c.Routing.Describe(c.routed())
	for _, of := range c.roles() {
		if of.retired != "" {
			lines = append(lines, of.goods+" of "+strings.ReplaceAll(of.retired, ",", ", ")+": served, not sold")
		}
	}
	return lines
}

// prefixOf begins the keys of a provider's own settings.
func prefixOf(name string) string { return strings.ReplaceAll(name, "-", "_") }

// reach is how a provider is reached: by its own settings or, for the first one that a setting names, by the general
// ones.
type reach struct {
	url      string
	key      secret.Text
	webhooks []secret.Text
	// urlSetting, keySetting and webhooksSetting are where they are set.
	urlSetting, keySetting, webhooksSetting string
}

// reachOf is how a provider is reached. role is issuer or supplier, and general are the settings that begin with it.
func (c Config) reachOf(role, name string, first bool, general reach) reach {
	prefix := prefixOf(name)
	own := reach{
		urlSetting: prefix + ".url", keySetting: prefix + ".key", webhooksSetting: prefix + ".webhook_secrets",
	}
	own.url, own.key = c.Own.Text(own.urlSetting), c.Own[own.keySetting]
	own.webhooks = secretList(c.Own.Text(own.webhooksSetting))
	if !first {
		return own
	}
	if own.url == "" {
		own.url, own.urlSetting = general.url, role+".url"
	}
	if own.key.IsZero() {
		own.key, own.keySetting = general.key, role+".key"
	}
	if len(own.webhooks) == 0 {
		own.webhooks, own.webhooksSetting = general.webhooks, role+".webhook_secrets"
	}
	return own
}

// leastSecret is how many characters a webhook's secret has at least, without the prefix that says what it is.
const leastSecret = 8

// checkSecrets refuses a list of webhooks' secrets with one that cannot work. It quotes none.
func checkSecrets(text string) error {
	n := 0
	for one := range strings.SplitSeq(text, ",") {
		n++
		switch one = strings.TrimSpace(one); {
		case one == "":
			return fmt.Errorf("number %d is empty", n)
		case len(strings.TrimPrefix(one, "whsec_")) < leastSecret:
			return fmt.Errorf("number %d is too short to be a webhook's secret", n)
		}
	}
	return nil
}

func secretList(text string) (all []secret.Text) {
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, secret.New(one))
		}
	}
	return all
}

// reachSettings are the settings that reach each provider by itself.
func (m Modules) reachSettings() (all []setting) {
	var names []string
	for _, name := range append(m.issuerNames(), m.supplierNames()...) {
		if slices.Contains(names, name) {
			continue
		}
		names = append(names, name)
		prefix := prefixOf(name)
		all = append(all, ownSettings([]provider.Setting{
			{Key: prefix + ".url", Help: "where " + name + " is, if there are several providers", Optional: true,
				Check: func(text string) error { _, err := apiURL(text); return err }},
			{Key: prefix + ".key", Help: "the API key of " + name + ", if there are several providers", Optional: true,
				Secret: true},
			{Key: prefix + ".webhook_secrets", Help: "the secrets of the webhooks of " + name +
				", separated by commas, if there are several providers", Optional: true, Secret: true, Check: checkSecrets},
		})...)
	}
	return all
}

// reachedOtherwise reports whether a general setting is not needed: the first provider has its own.
func (c Config) reachedOtherwise(key string) bool {
	for _, of := range c.roles() {
		general, ok := strings.CutPrefix(key, of.name+".")
		if all := named(of.sells); ok && len(all) > 0 && c.Own.Text(prefixOf(all[0])+"."+general) != "" {
			return true
		}
	}
	return false
}

// unreached are the settings that reach a provider and are not set. Those of the first one are missed when they are
// read.
func (c Config) unreached(chosenBy, name string, first bool, at reach) (wrong []error) {
	if first {
		return nil
	}
	for key, missing := range map[string]bool{at.urlSetting: at.url == "", at.keySetting: at.key.IsZero()} {
		if missing {
			wrong = append(wrong,
				fmt.Errorf("%s (%s) is not set, and %s names %s", key, setting{key: key}.env(), chosenBy, name))
		}
	}
	slices.SortFunc(wrong, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return wrong
}

// checkInUse refuses to start without a provider that the database still needs: no other one serves what it sold.
func (a *App) checkInUse(ctx context.Context) error {
	var wrong []error
	for _, of := range a.config.roles() {
		all, err := of.inUse(ctx, a.store)
		if err != nil {
			return fmt.Errorf("list the providers of %s: %w", of.goods, err)
		}
		for _, name := range all {
			if !slices.Contains(append(named(of.sells), named(of.retired)...), name) {
				wrong = append(wrong, fmt.Errorf("the database has %s of %s: name it in %s.provider or %s.retired",
					of.goods, name, of.name, of.name))
			}
		}
	}
	return errors.Join(wrong...)
}
