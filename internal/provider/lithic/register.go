package lithic

import (
	"cmp"
	"errors"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

// Name is how the settings choose Lithic.
const Name = "lithic"

// The issuer's own settings.
const (
	FloatKey    = Name + ".float_account"
	ProgramKey  = Name + ".card_program"
	AccountKey  = Name + ".account"
	TransferKey = Name + ".transfer"
	RevealKey   = Name + ".reveal"

	BillingKey      = Name + ".billing_address"
	ChallengeKey    = Name + ".three_d_secure"
	InstructionsKey = Name + ".three_d_secure_instructions"

	PerSecondKey = Name + ".per_second"
)

// defaultPerSecond is what a production account may read of one kind, https://docs.lithic.com/docs/rate-limits.
const defaultPerSecond = 30

var _ provider.IssuerClient = (*Issuer)(nil)

// AsIssuer registers Lithic as a card issuer.
func AsIssuer() provider.Issuer {
	return provider.Issuer{
		Registration: provider.Registration{
			Name: Name, Real: true,
			Settings: []provider.Setting{
				{Key: FloatKey, Help: "token of the financial account that cards are loaded from", Check: isToken},
				{Key: ProgramKey, Help: "token of the card programme", Check: isToken},
				{
					Key: AccountKey, Help: "token of the operator's account, where the programme has several", Optional: true,
					Check: isToken,
				},
				{
					Key: TransferKey, Help: "how the programme names book transfers: CATEGORY/TYPE/subtype", Check: isTransfer,
				},
				{
					Key: RevealKey, Help: "how owners see card numbers: embed, or inline in a PCI programme", Default: "embed",
					Check: isReveal,
				},
				{
					Key: BillingKey, Optional: true, Check: isBilling,
					Help: "the programme's address, which merchants verify: " +
						"name; line 1; line 2; city; region; postal code; country",
				},
				{
					Key: ChallengeKey, Optional: true, Check: card.CheckChallenge,
					Help: "how 3-D Secure challenges are answered: none, sms, email, out_of_band or automatic",
				},
				{
					Key: InstructionsKey, Optional: true, Check: card.CheckInstructions,
					Help: "a sentence that tells owners what to do about a 3-D Secure challenge",
				},
				provider.PerSecond(PerSecondKey, "Lithic", defaultPerSecond, 10_000),
			},
			Validate: func(c provider.Config) (wrong []error) {
				if c.SpendLimits {
					wrong = append(wrong, errors.New("issuer.spend_limits: Lithic's cards are loaded from the float"))
				}
				if c.Own.Text(InstructionsKey) != "" && c.Own.Text(ChallengeKey) == "" {
					wrong = append(wrong, errors.New(InstructionsKey+": has no effect without "+ChallengeKey))
				}
				return append(wrong, wire.AddressMistakes("issuer.url", c.URL)...)
			},
		},
		ProgrammeKey: ProgramKey,
		Dial: func(c provider.Config) (provider.IssuerClient, error) {
			i, err := dial(c)
			if err != nil {
				return nil, err
			}
			return i, nil
		},
	}
}

func dial(c provider.Config) (*Issuer, error) {
	cfg := Config{
		URL: c.URL, Key: c.Key, Inline: c.Own.Text(RevealKey) == "inline", Timeout: c.CallTimeout,
		VisibilityDelay: c.VisibilityDelay, PerSecond: cmp.Or(c.Own.Int(PerSecondKey), defaultPerSecond), HTTP: c.HTTP,
		Metrics: c.Metrics,
	}
	for key, token := range map[string]*uuid.UUID{FloatKey: &cfg.Float, ProgramKey: &cfg.Program,
		AccountKey: &cfg.Account} {
		// What is no token was told when it was read, and is missing here.
		if read, err := uuid.Parse(c.Own.Text(key)); err == nil {
			*token = read
		}
	}
	if named := strings.Split(c.Own.Text(TransferKey), "/"); len(named) == 3 {
		cfg.Transfer = Transfer{Category: named[0], Type: named[1], Subtype: named[2]}
	}
	if billing, err := card.ParseBilling(c.Own.Text(BillingKey)); err == nil {
		cfg.Billing = &billing
	}
	if method := c.Own.Text(ChallengeKey); method != "" {
		cfg.Challenge = card.Challenge{
			Method: card.ChallengeMethod(method), Instructions: c.Own.Text(InstructionsKey),
		}
	}
	return Dial(cfg)
}

func isBilling(text string) error {
	_, err := card.ParseBilling(text)
	return err
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
