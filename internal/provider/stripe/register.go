package stripe

import (
	"errors"
	"fmt"
	"strings"

	"github.com/roamcard/roamcard/internal/provider"
)

// Name is what issuer.provider calls Stripe.
const Name = "stripe"

// CardholderKey is the issuer's own setting.
const CardholderKey = Name + ".cardholder"

// AsIssuer registers Stripe Issuing as a card issuer.
func AsIssuer() provider.Issuer {
	return provider.Issuer{
		Registration: provider.Registration{
			Name: Name, Real: true,
			Settings: []provider.Setting{{
				Key: CardholderKey, Help: "ID of the operator's own cardholder, in whose name all cards are",
				Check: func(text string) error {
					if !isID(text) {
						return errors.New("is the ID of a cardholder, such as ich_1MzFMzK8rovbJBTu")
					}
					return nil
				},
			}},
			Mistakes: func(c provider.Config) (wrong []error) {
				if c.Production && strings.Contains(c.Key.Reveal(), "_test_") {
					wrong = append(wrong, errors.New("issuer.key: the key is of Stripe's test mode; nothing it makes is real"))
				}
				if _, err := parseBase(c.URL); err != nil && c.URL != "" {
					wrong = append(wrong, fmt.Errorf("issuer.url: %w", err))
				}
				return wrong
			},
		},
		Dial: func(c provider.Config) (provider.IssuerClient, error) {
			i, err := Dial(Config{
				URL: c.URL, Key: c.Key, Cardholder: c.Own.Text(CardholderKey), Timeout: c.CallTimeout,
				VisibilityDelay: c.VisibilityDelay, Metrics: c.Metrics,
			})
			if err != nil {
				return nil, err
			}
			return i, nil
		},
	}
}
