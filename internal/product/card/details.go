package card

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// Details are what merchants and 3-D Secure ask for when a card is used, next to its number. They are the programme's,
// which holds the card, not its owner's.
type Details struct {
	// Billing is nil where the issuer gives none.
	Billing *Billing
	// Challenge is zero where the issuer does not say.
	Challenge Challenge
}

// Billing is whose card it is and where, as the address verification of merchants compares it.
type Billing struct {
	Name, Line1 string
	// Line2 and Region may be empty.
	Line2, City, Region, PostalCode string
	// Country has two letters (ISO 3166-1 alpha-2).
	Country string
}

// Challenge is how a 3-D Secure challenge of a card is answered.
type Challenge struct {
	Method ChallengeMethod
	// Destination is where a code is sent to, masked; empty where there is none or nobody says.
	Destination string
	// Instructions are the operator's, for owners; empty where there are none.
	Instructions string
}

// ChallengeMethod is what answers a 3-D Secure challenge.
type ChallengeMethod string

// The methods.
const (
	// ChallengeNone: nothing answers it. The card is not enrolled, or what asks for a challenge is declined.
	ChallengeNone ChallengeMethod = "none"
	// ChallengeSMS and ChallengeEmail: a code is sent to the holder's phone or address.
	ChallengeSMS   ChallengeMethod = "sms"
	ChallengeEmail ChallengeMethod = "email"
	// ChallengeOutOfBand: it is approved elsewhere, as the instructions say.
	ChallengeOutOfBand ChallengeMethod = "out_of_band"
	// ChallengeAutomatic: the issuer decides by itself, and nobody is asked.
	ChallengeAutomatic ChallengeMethod = "automatic"
)

// ChallengeMethods are all methods.
func ChallengeMethods() []ChallengeMethod {
	return []ChallengeMethod{ChallengeNone, ChallengeSMS, ChallengeEmail, ChallengeOutOfBand, ChallengeAutomatic}
}

// DetailKinds are the details that an issuer gives of cards.
type DetailKinds struct {
	Billing bool
	// Challenges are the methods of which each card has one; none where the issuer does not say.
	Challenges []ChallengeMethod
}

// Any reports whether there is any detail that an owner can read.
func (k DetailKinds) Any() bool { return k.Billing || len(k.Challenges) > 0 }

// And are the details that both give, with the methods of both.
func (k DetailKinds) And(other DetailKinds) DetailKinds {
	both := DetailKinds{Billing: k.Billing && other.Billing}
	if len(k.Challenges) > 0 && len(other.Challenges) > 0 {
		for _, m := range ChallengeMethods() {
			if slices.Contains(k.Challenges, m) || slices.Contains(other.Challenges, m) {
				both.Challenges = append(both.Challenges, m)
			}
		}
	}
	return both
}

func details(of Capabilities) bool { return of.Details.Any() }

// Details reads the details of an owner's card at its issuer, whatever the card's status is.
func (c *Cards) Details(ctx context.Context, id uuid.UUID, owner x402.Address) (Details, error) {
	at, card, err := c.controlled(ctx, id, owner, details)
	if err != nil {
		return Details{}, err
	}
	if card.Account == "" {
		return Details{}, notActive(card)
	}
	ctx, cancel := fault.Within(ctx, c.CallTimeout)
	defer cancel()
	got, err := at.Controls.Details(ctx, card.Account)
	if err != nil {
		return Details{}, fmt.Errorf("read the details: %w", errors.Join(err, issuerDown()))
	}
	return got.plain(), nil
}

// plain are details whose texts are short, printable and on one line.
func (d Details) plain() Details {
	if b := d.Billing; b != nil {
		d.Billing = &Billing{
			Name: plainText(b.Name, 100), Line1: plainText(b.Line1, 200), Line2: plainText(b.Line2, 200),
			City: plainText(b.City, 100), Region: plainText(b.Region, 100), PostalCode: plainText(b.PostalCode, 20),
			Country: plainText(b.Country, 2),
		}
	}
	d.Challenge.Destination = plainText(d.Challenge.Destination, 100)
	d.Challenge.Instructions = plainText(d.Challenge.Instructions, MaxInstructions)
	return d
}

// MaxInstructions is how long the operator's instructions may be, in characters.
const MaxInstructions = 300

// CheckInstructions takes the operator's instructions for challenges.
func CheckInstructions(text string) error {
	if text == "" || plainText(text, MaxInstructions) != text {
		return fmt.Errorf("must be one line of at most %d characters", MaxInstructions)
	}
	return nil
}

// CheckChallenge takes the name of a method.
func CheckChallenge(text string) error {
	if !slices.Contains(ChallengeMethods(), ChallengeMethod(text)) {
		return fmt.Errorf("must be one of %s", strings.Trim(fmt.Sprint(ChallengeMethods()), "[]"))
	}
	return nil
}

// ParseBilling reads a billing address from a setting: name; line 1; line 2; city; region; postal code; country. Line 2
// and the region may be empty.
func ParseBilling(text string) (Billing, error) {
	parts := strings.Split(text, ";")
	for i, part := range parts {
		parts[i] = strings.TrimSpace(part)
		if plainText(part, 200) != parts[i] {
			return Billing{}, errors.New("must have parts of printable text, each of at most 200 characters")
		}
	}
	if len(parts) != 7 {
		return Billing{}, errors.New("must be name; line 1; line 2; city; region; postal code; country, parted by semicolons")
	}
	b := Billing{
		Name: parts[0], Line1: parts[1], Line2: parts[2], City: parts[3], Region: parts[4], PostalCode: parts[5],
		Country: parts[6],
	}
	return b, b.Check()
}

// Check fails for an address that lacks what merchants compare.
func (b Billing) Check() error {
	for _, part := range []struct{ name, text string }{
		{"name", b.Name}, {"line 1", b.Line1}, {"city", b.City}, {"postal code", b.PostalCode}, {"country", b.Country},
	} {
		if part.text == "" {
			return fmt.Errorf("has no %s", part.name)
		}
	}
	if len(b.Country) != 2 || strings.Trim(b.Country, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return errors.New("the country must be two capital letters (ISO 3166-1)")
	}
	return nil
}

// MaskPhone leaves the last two digits of a number.
func MaskPhone(number string) string {
	digits := strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, number)
	if len(digits) < 6 {
		return "***"
	}
	return "***" + digits[len(digits)-2:]
}

// MaskEmail leaves the first letter of an address, and its host.
func MaskEmail(address string) string {
	name, host, ok := strings.Cut(address, "@")
	if !ok || name == "" || host == "" {
		return "***"
	}
	return string([]rune(name)[:1]) + "***@" + host
}
