package lithic

import (
	"context"

	"github.com/roamcard/roamcard/internal/product/card"
)

// Details implements card.Controls, by the settings. The vendor's document has an address of the account that address
// verification used to compare, and says that it does not any more; it has nothing that tells how challenges are
// answered. Both are the same for all cards of the programme.
func (i *Issuer) Details(context.Context, string) (card.Details, error) {
	d := card.Details{Challenge: i.challenge}
	if i.billing != nil {
		billing := *i.billing
		d.Billing = &billing
	}
	return d, nil
}

// detailKinds are the details that the settings give.
func (i *Issuer) detailKinds() (k card.DetailKinds) {
	k.Billing = i.billing != nil
	if i.challenge.Method != "" {
		k.Challenges = []card.ChallengeMethod{i.challenge.Method}
	}
	return k
}
