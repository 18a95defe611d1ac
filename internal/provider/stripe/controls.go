package stripe

import (
	"context"
	"fmt"
	"net/http"

	stripego "github.com/stripe/stripe-go/v85"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/card"
)

// SetFrozen implements card.Controls. A card that its owner has frozen is marked as such in its metadata: Stripe does
// not say who made a card inactive, and what others did stays. Limits are never sent, so that a load at the same time
// is not undone.
func (i *Issuer) SetFrozen(ctx context.Context, account string, frozen bool) (card.AccountState, error) {
	state, err := i.setFrozen(ctx, account, frozen)
	if err != nil {
		return "", fmt.Errorf("freeze or unfreeze a card: %w", err)
	}
	return state, nil
}

func (i *Issuer) setFrozen(ctx context.Context, account string, frozen bool) (card.AccountState, error) {
	on, err := i.card(ctx, "lock", account)
	if err != nil {
		return "", err
	}
	if _, ours := on.ref(); !ours {
		return "", unclear("the card is not ours")
	}
	_, marked := on.Metadata[keyFrozen]
	want, mark := card.AccountActive, ""
	status := stripego.IssuingCardStatusActive
	if frozen {
		want, mark, status = card.AccountFrozen, "owner", stripego.IssuingCardStatusInactive
	}
	switch state := on.state(); {
	case state == want:
		return state, nil
	case state == card.AccountPending:
		return "", unclear("the card is in a state that is not documented")
	case state == card.AccountClosed, !frozen && !marked:
		return "", &fulfilment.Refusal{Code: card.RefusedState, Message: "the card is " + on.Status}
	}
	// The library makes an idempotency key for each request: the same state may be asked for again and again.
	p := &stripego.IssuingCardUpdateParams{
		Status: stripego.String(string(status)), Metadata: map[string]string{keyFrozen: mark},
	}
	var got cardAnswer
	err = i.send(ctx, request{
		op: "lock", method: http.MethodPost, path: "/v1/issuing/cards/" + on.ID, route: "/v1/issuing/cards/{card}",
		params: p, bind: func(ctx context.Context) { p.Context = ctx },
	}, &got)
	if err == nil && got.ID != on.ID {
		err = unclear("the answer is about another card")
	}
	if err != nil {
		return "", err
	}
	return got.state(), nil
}
