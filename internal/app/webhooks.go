package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/webhook"
)

// eventsKept is how long events of providers are kept.
const eventsKept = 30 * 24 * time.Hour

func webhookSettings() []setting {
	secrets := func(of string, at func(*Config) *[]secret.Text) setting {
		return setting{
			key: of + ".webhook_secrets", secret: true, byDefault: none,
			help: "the secrets that its webhooks are signed with, separated by commas; none are taken without",
			set: func(c *Config, s string) error {
				for one := range strings.SplitSeq(s, ",") {
					if one = strings.TrimSpace(one); one != "" {
						*at(c) = append(*at(c), secret.New(one))
					}
				}
				return nil
			},
		}
	}
	return []setting{
		secrets("issuer", func(c *Config) *[]secret.Text { return &c.IssuerWebhookSecrets }),
		secrets("supplier", func(c *Config) *[]secret.Text { return &c.SupplierWebhookSecrets }),
	}
}

// webhookMistakes are secrets of a provider that sends no webhooks.
func (c Config) webhookMistakes() (wrong []error) {
	check := func(key string, secrets []secret.Text, dialled any, err error) {
		if _, sends := dialled.(webhook.Sender); len(secrets) > 0 && err == nil && !sends {
			wrong = append(wrong, fmt.Errorf("%s: the provider's webhooks are not understood", key))
		}
	}
	issuer, err := c.dialIssuer(discard(), nil)
	check("issuer.webhook_secrets", c.IssuerWebhookSecrets, issuer, err)
	supplier, err := c.dialSupplier(noJournal{}, discard(), nil)
	check("supplier.webhook_secrets", c.SupplierWebhookSecrets, supplier, err)
	return wrong
}

// inbox takes the events of the providers that are chosen.
func (a *App) inbox(p *Parts) *webhook.Inbox {
	c := a.config
	sources := map[string]webhook.Source{}
	take := func(name string, dialled any, secrets []secret.Text) {
		if sender, sends := dialled.(webhook.Sender); sends && len(secrets) > 0 {
			sources[name] = webhook.Source{Sender: sender, Secrets: append(sources[name].Secrets, secrets...)}
		}
	}
	if supplier, err := a.dialSupplier(); err == nil {
		take(c.supplierName(), supplier, c.SupplierWebhookSecrets)
	}
	take(c.IssuerProvider, a.issuer, c.IssuerWebhookSecrets)
	return webhook.New(webhook.Config{
		Store: a.store.Webhooks(), Sources: sources, Log: a.log, Now: time.Now,
		Look: func(ctx context.Context, about webhook.About) error {
			refs := make([]fulfilment.Ref, len(about.References))
			for i, ref := range about.References {
				refs[i] = fulfilment.Ref(ref)
			}
			return p.cards.Look(ctx, about.Accounts, refs)
		},
	})
}
