package stripe

import (
	"context"
	"fmt"

	"github.com/roamcard/roamcard/internal/product/card"
)

// The operator's words where there are none in the settings: the holder of all cards is the operator.
const (
	askOperator = "Stripe sends a code to the operator of this service, who holds the card: ask there for it."
	noChallenge = "The card is not enrolled in 3-D Secure: merchants that insist on it decline."
)

// Details implements card.Controls: what the cardholder has, which is the same for all cards. Stripe sends codes to its
// phone, or to its email address where it has no phone. Without both, its cards are not enrolled.
func (i *Issuer) Details(ctx context.Context, _ string) (card.Details, error) {
	holder, err := i.readHolder(ctx, "details")
	if err != nil {
		return card.Details{}, fmt.Errorf("read the details of a card: %w", err)
	}
	billing, err := holder.billing()
	if err != nil {
		return card.Details{}, fmt.Errorf("read the details of a card: %w", err)
	}
	d := card.Details{Billing: &billing, Challenge: card.Challenge{Method: card.ChallengeNone, Instructions: noChallenge}}
	switch {
	case holder.Phone != "":
		d.Challenge = card.Challenge{
			Method: card.ChallengeSMS, Destination: card.MaskPhone(holder.Phone), Instructions: askOperator,
		}
	case holder.Email != "":
		d.Challenge = card.Challenge{
			Method: card.ChallengeEmail, Destination: card.MaskEmail(holder.Email), Instructions: askOperator,
		}
	}
	if i.instructions != "" {
		d.Challenge.Instructions = i.instructions
	}
	return d, nil
}

// billing is the holder's address, as merchants verify it.
func (a *holderAnswer) billing() (card.Billing, error) {
	if a.Billing == nil || a.Billing.Address == nil {
		return card.Billing{}, unclear("the cardholder in the answer has no address")
	}
	at := a.Billing.Address
	b := card.Billing{
		Name: a.Name, Line1: at.Line1, Line2: at.Line2, City: at.City, Region: at.State, PostalCode: at.PostalCode,
		Country: string(at.Country),
	}
	if err := b.Check(); err != nil {
		return card.Billing{}, unclear("the cardholder's address " + err.Error())
	}
	return b, nil
}
