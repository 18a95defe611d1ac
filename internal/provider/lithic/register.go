package lithic

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/provider"
)

// Name is how the settings choose Lithic.
const Name = "lithic"

// The issuer's own settings.
const (
	keyFloat    = Name + ".float_account"
	keyProgram  = Name + ".card_program"
	keyAccount  = Name + ".account"
	keyTransfer = Name + ".transfer"
	keyReveal   = Name + ".reveal"
)

var _ provider.IssuerClient = (*Issuer)(nil)

// AsIssuer registers Lithic as a card issuer.
func AsIssuer() provider.Issuer {
	return provider.Issuer{
		Registration: provider.Registration{
			Name: Name, Real: true,
			Settings: []provider.Setting{
				{Key: keyFloat, Help: "token of the financial account that cards are loaded from", Check: isToken},
				{Key: keyProgram, Help: "token of the card programme", Check: isToken},
				{
					Key: keyAccount, Help: "token of the operator's account, where the programme has several", Optional: true,
					Check: isToken,
				},
				{
					Key: keyTransfer, Help: "how the programme names book transfers: CATEGORY/TYPE/subtype", Check: isTransfer,
				},
				{
					Key: keyReveal, Help: "how owners see card numbers: embed, or inline in a PCI programme", Default: "embed",
					Check: isReveal,
				},
			},
			Mistakes: func(c provider.Config) (wrong []error) {
				if c.SpendLimits {
					wrong = append(wrong, errors.New("issuer.spend_limits: Lithic's cards are loaded from the float"))
				}
				if _, err := dial(c); err != nil && !missing(c) {
					wrong = append(wrong, fmt.Errorf("issuer.url: %w", err))
				}
				return wrong
			},
		},
		Dial: func(c provider.Config) (provider.IssuerClient, error) {
			i, err := dial(c)
			if err != nil {
				return nil, err
			}
			return i, nil
		},
	}
}

// missing says that a setting is not there, which is told without us.
func missing(c provider.Config) bool {
	return c.Own.Text(keyFloat) == "" || c.Own.Text(keyProgram) == "" || c.Own.Text(keyTransfer) == ""
}

func dial(c provider.Config) (*Issuer, error) {
	cfg := Config{
		URL: c.URL, Key: c.Key, Inline: c.Own.Text(keyReveal) == "inline", Timeout: c.CallTimeout,
		VisibilityDelay: c.VisibilityDelay, Metrics: c.Metrics,
	}
	for key, token := range map[string]*uuid.UUID{keyFloat: &cfg.Float, keyProgram: &cfg.Program, keyAccount: &cfg.Account} {
		// What is no token was told when it was read, and is missing here.
		*token, _ = uuid.Parse(c.Own.Text(key))
	}
	if named := strings.Split(c.Own.Text(keyTransfer), "/"); len(named) == 3 {
		cfg.Transfer = Transfer{Category: named[0], Type: named[1], Subtype: named[2]}
	}
	return Dial(cfg)
}

func isToken(text string) error {
	if token, err := uuid.Parse(text); err != nil || token == uuid.Nil {
		return errors.New("must be a token of Lithic's, a UUID")
	}
	return nil
}

var transferForm = regexp.MustCompile(`^[A-Z_]+/[A-Z_]+/[^/]+$`)

func isTransfer(text string) error {
	if !transferForm.MatchString(text) {
		return errors.New("must be CATEGORY/TYPE/subtype, such as TRANSFER/ACCOUNT_TO_ACCOUNT/load")
	}
	return nil
}

func isReveal(text string) error {
	if text != "embed" && text != "inline" {
		return errors.New("must be embed or inline")
	}
	return nil
}
