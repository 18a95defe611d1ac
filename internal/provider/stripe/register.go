package stripe

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/secret"
)

// Name is what issuer.provider calls Stripe.
const Name = "stripe"

// The issuer's own settings.
const (
	CardholderKey  = Name + ".cardholder"
	PublishableKey = Name + ".publishable_key"
	ElementsKey    = Name + ".elements_url"

	InstructionsKey = Name + ".three_d_secure_instructions"

	PerSecondKey = Name + ".per_second"
)

// AsIssuer registers Stripe Issuing as a card issuer.
func AsIssuer() provider.Issuer {
	return provider.Issuer{
		Registration: provider.Registration{
			Name: Name, Real: true,
			Settings: []provider.Setting{
				{
					Key: CardholderKey, Help: "ID of the operator's own cardholder, in whose name all cards are",
					Check: func(text string) error {
						if id, cut := strings.CutPrefix(text, "ich_"); !cut || !isID(id) {
							return errors.New("is the ID of a cardholder, such as ich_1MzFMzK8rovbJBTu")
						}
						return nil
					},
				},
				{
					Key: PublishableKey, Help: "the account's publishable key, for pages that show cards",
					Check: func(text string) error {
						if !isPublishable(text) {
							return errors.New("is a publishable key, which begins with pk_")
						}
						return nil
					},
				},
				{
					Key: ElementsKey, Help: "where pages load Stripe.js from", Default: elementsURL,
					Check: func(text string) error {
						_, err := elementsAt(text)
						return err
					},
				},
				{
					Key: InstructionsKey, Optional: true, Check: card.CheckInstructions,
					Help: "a sentence that tells owners what to do about a 3-D Secure challenge",
				},
				provider.PerSecond(PerSecondKey, "Stripe; by default what the account has, 25 in test mode and 100 in live mode", 0,
					10_000),
			},
			Validate: func(c provider.Config) (wrong []error) {
				testing, of := isTest(c.Key), c.Own.Text(PublishableKey)
				switch key := c.Key.Reveal(); {
				case strings.HasPrefix(key, "pk_"):
					wrong = append(wrong, errors.New("issuer.key: is a publishable key; the secret one begins with sk_ or rk_"))
				case c.Production && testing:
					wrong = append(wrong, errors.New("issuer.key: the key is of Stripe's test mode; nothing it makes is real"))
				case of != "" && strings.Contains(of, "_test_") != testing:
					wrong = append(wrong, fmt.Errorf("%s: it and issuer.key are of different modes of Stripe", PublishableKey))
				}
				if _, err := (outward.Rule{}).Origin(c.URL); err != nil && c.URL != "" {
					wrong = append(wrong, fmt.Errorf("issuer.url: %w", err))
				}
				if c.Production && strings.HasPrefix(c.Own.Text(ElementsKey), "http://") {
					wrong = append(wrong, fmt.Errorf("%s: must be https in production", ElementsKey))
				}
				return wrong
			},
		},
		ProgrammeKey: CardholderKey,
		Dial: func(c provider.Config) (provider.IssuerClient, error) {
			i, err := Dial(Config{
				URL: c.URL, Key: c.Key, Cardholder: c.Own.Text(CardholderKey), Timeout: c.CallTimeout,
				Publishable: c.Own.Text(PublishableKey), Elements: c.Own.Text(ElementsKey), VisibilityDelay: c.VisibilityDelay,
				Instructions: c.Own.Text(InstructionsKey), HTTP: c.HTTP, Metrics: c.Metrics,
				PerSecond: cmp.Or(c.Own.Int(PerSecondKey), perSecondOf(c.Key)),
			})
			if err != nil {
				return nil, err
			}
			return i, nil
		},
	}
}

// perSecondOf is how many calls an account may make in a second, by its key, https://docs.stripe.com/rate-limits.
func perSecondOf(key secret.Text) int {
	if isTest(key) {
		return 25
	}
	return 100
}

func isTest(key secret.Text) bool { return strings.Contains(key.Reveal(), "_test_") }
