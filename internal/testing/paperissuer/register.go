package paperissuer

import (
	"errors"
	"strings"

	"github.com/roamcard/roamcard/internal/provider"
)

// Name is what issuer.provider calls the issuer.
const Name = "paper"

// The issuer's own settings.
const (
	keyBIN   = Name + ".bin"
	keyStamp = Name + ".stamp"
)

// Register registers the office as a card issuer. What it makes is not real.
func (o *Office) Register() provider.Issuer {
	return provider.Issuer{
		Registration: provider.Registration{
			Name: Name,
			Settings: []provider.Setting{
				{Key: keyBIN, Help: "the first six digits of all card numbers", Default: "400001", Check: sixDigits},
				{Key: keyStamp, Help: "what orders to the office are stamped with", Secret: true},
			},
			Validate: func(c provider.Config) (wrong []error) {
				if c.SpendLimits {
					wrong = append(wrong, errors.New("issuer.spend_limits: there are no limits on paper"))
				}
				return wrong
			},
		},
		Dial: func(c provider.Config) (provider.IssuerClient, error) {
			bin := c.Own.Text(keyBIN)
			if c.Own.Text(keyStamp) == "" || sixDigits(bin) != nil {
				return nil, errors.New("dial the paper issuer: it needs " + keyBIN + " and " + keyStamp)
			}
			return Client{office: o, bin: bin}, nil
		},
	}
}

func sixDigits(text string) error {
	if len(text) != 6 || strings.Trim(text, "0123456789") != "" {
		return errors.New("must be six digits")
	}
	return nil
}
