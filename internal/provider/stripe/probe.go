package stripe

import (
	"context"
	"errors"
	"fmt"

	stripego "github.com/stripe/stripe-go/v85"
)

// Probe makes every call that costs nothing and checks that its filters filter, and says in a few words what it saw.
func (i *Issuer) Probe(ctx context.Context) (string, error) {
	saw, err := i.probe(ctx)
	if err != nil {
		return "", fmt.Errorf("probe Stripe: %w", err)
	}
	return saw, nil
}

func (i *Issuer) probe(ctx context.Context) (string, error) {
	if err := i.holder(ctx); err != nil {
		return "", err
	}
	there, err := i.issuingBalance(ctx)
	if err != nil {
		return "", err
	}
	if err := i.references.follow(ctx); err != nil {
		return "", err
	}
	ours, newest := len(i.references.ids), i.references.newest
	i.references.leave()
	// What is listed from then on was created from then on: page refuses anything else.
	if _, err := i.listCards(ctx, span{since: newest + 1}); err != nil {
		return "", err
	}
	pending := span{status: string(stripego.IssuingAuthorizationStatusPending)}
	held, err := i.listAuthorizations(ctx, pending)
	if err != nil {
		return "", err
	}
	for _, one := range held.items {
		if string(one.Status) != pending.status {
			return "", errors.New("authorizations are listed that are not pending")
		}
	}
	if _, err := i.listTransactions(ctx, span{since: newest + 1}); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d cards of ours, an issuing balance of %s USD", ours, there), nil
}
