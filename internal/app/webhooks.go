package app

import (
	"context"
	"fmt"
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
				if err := checkSecrets(s); err != nil {
					return err
				}
				*at(c) = append(*at(c), secretList(s)...)
				return nil
			},
		}
	}
	return []setting{
		secrets("issuer", func(c *Config) *[]secret.Text { return &c.IssuerWebhookSecrets }),
		secrets("supplier", func(c *Config) *[]secret.Text { return &c.SupplierWebhookSecrets }),
	}
}

// webhookMistakes are secrets of a provider that sends no webhooks, or signs them in another way.
func (c Config) webhookMistakes() (wrong []error) {
	check := func(at reach, dialled any) {
		sender, sends := dialled.(webhook.Sender)
		if len(at.webhooks) > 0 && !sends {
			wrong = append(wrong, fmt.Errorf("%s: the provider's webhooks are not understood", at.webhooksSetting))
			return
		}
		for i, s := range at.webhooks {
			if err := sender.CheckSecret(s); err != nil {
				wrong = append(wrong, fmt.Errorf("%s: number %d: %w", at.webhooksSetting, i+1, err))
			}
		}
	}
	issuers, err := c.dialIssuers(discard(), nil)
	if err == nil {
		for _, of := range issuers {
			check(of.reach, of.client)
		}
	}
	suppliers, err := c.dialSuppliers(unjournaled, discard(), nil)
	if err == nil {
		for _, of := range suppliers {
			check(of.reach, of.client)
		}
	}
	return wrong
}

// inbox takes the events of the providers that are configured, also of those that are retired.
func (a *App) inbox(p *Parts) *webhook.Inbox {
	sources := map[string]webhook.Source{}
	take := func(name string, dialled any, secrets []secret.Text) {
		if sender, sends := dialled.(webhook.Sender); sends && len(secrets) > 0 {
			sources[name] = webhook.Source{Sender: sender, Secrets: append(sources[name].Secrets, secrets...)}
		}
	}
	if suppliers, err := a.dialSuppliers(); err == nil {
		for _, of := range suppliers {
			take(of.Name, of.client, of.reach.webhooks)
		}
	}
	for _, of := range a.issuers {
		take(of.Name, of.client, of.reach.webhooks)
	}
	return webhook.New(webhook.Config{
		Store: a.store.Webhooks(), Sources: sources, Log: a.log, Now: a.config.now,
		Refresh: func(ctx context.Context, provider string, about webhook.About) error {
			for _, notice := range p.noticed {
				notice(provider, about.Accounts)
			}
			refs := make([]fulfilment.Ref, len(about.References))
			for i, ref := range about.References {
				refs[i] = fulfilment.Ref(ref)
			}
			return p.cards.Refresh(ctx, provider, about.Accounts, refs)
		},
	})
}
