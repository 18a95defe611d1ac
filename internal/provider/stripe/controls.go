package stripe

import (
	"context"
	"fmt"
	"net/http"

	stripego "github.com/stripe/stripe-go/v85"

	"github.com/roamcard/roamcard/internal/money"
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

// Remainder implements card.Closer: the limit, less what was spent or is held, and with what merchants gave back.
// Holds are read before what was spent: one that turns into the other meanwhile is waited for.
func (i *Issuer) Remainder(ctx context.Context, account string) (card.Remainder, error) {
	left, err := i.remainder(ctx, account)
	if err != nil {
		return card.Remainder{}, fmt.Errorf("read what is left on a card: %w", err)
	}
	return left, nil
}

func (i *Issuer) remainder(ctx context.Context, account string) (left card.Remainder, err error) {
	on, err := i.card(ctx, "left", account)
	if err != nil {
		return left, err
	}
	limit, err := on.limit()
	if err != nil {
		return left, err
	}
	unspent := limit
	err = lister[*authorizationAnswer](i.listAuthorizations).each(ctx, span{of: account},
		func(a *authorizationAnswer) error {
			unspent -= a.held()
			left.Held = left.Held || a.outcome() == card.TransactionPending
			return about(a.Card.id, string(a.Currency), account)
		})
	if err != nil {
		return card.Remainder{}, err
	}
	err = lister[*transactionAnswer](i.listTransactions).each(ctx, span{of: account},
		func(a *transactionAnswer) error {
			unspent += money.Cents(*a.Amount)
			return about(*a.Card, string(a.Currency), account)
		})
	if err != nil {
		return card.Remainder{}, err
	}
	left.Available = min(limit, max(0, unspent))
	return left, nil
}

// Close implements card.Closer.
func (i *Issuer) Close(ctx context.Context, account string) (card.AccountState, error) {
	state, err := i.end(ctx, account)
	if err != nil {
		return "", fmt.Errorf("cancel a card: %w", err)
	}
	return state, nil
}

func (i *Issuer) end(ctx context.Context, account string) (card.AccountState, error) {
	on, err := i.card(ctx, "end", account)
	if err != nil {
		return "", err
	}
	if _, ours := on.ref(); !ours {
		return "", unclear("the card is not ours")
	}
	if on.state() == card.AccountClosed {
		return on.state(), nil
	}
	p := &stripego.IssuingCardUpdateParams{Status: stripego.String(string(stripego.IssuingCardStatusCanceled))}
	return i.become(ctx, "end", on.ID, p)
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
		return "", on.refused()
	}
	// The library makes an idempotency key for each request: the same state may be asked for again and again.
	p := &stripego.IssuingCardUpdateParams{
		Status: stripego.String(string(status)), Metadata: map[string]string{keyFrozen: mark},
	}
	return i.become(ctx, "lock", on.ID, p)
}

// become changes a card's state.
func (i *Issuer) become(
	ctx context.Context, op, id string, p *stripego.IssuingCardUpdateParams,
) (card.AccountState, error) {
	var got cardAnswer
	err := i.send(ctx, request{
		op: op, method: http.MethodPost, path: "/v1/issuing/cards/" + id, route: "/v1/issuing/cards/{card}",
		params: p, bind: func(ctx context.Context) { p.Context = ctx },
	}, &got)
	if err == nil && got.ID != id {
		err = unclear("the answer is about another card")
	}
	if err != nil {
		return "", err
	}
	return got.state(), nil
}
