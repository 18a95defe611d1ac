package lithic

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

// The states of cards, as the vendor names them.
const (
	stateOpen   = "OPEN"
	statePaused = "PAUSED"
	stateClosed = "CLOSED"
)

// ownersReason is the one reason of a state that is the owner's. The adapter states none.
const ownersReason = "END_USER_REQUEST"

// SetFrozen implements card.Controls. The card is read first: what the vendor or the operator's staff paused for a
// reason stays paused. Only the state is sent, so that nothing else of the card changes.
func (i *Issuer) SetFrozen(ctx context.Context, account string, frozen bool) (card.AccountState, error) {
	state, err := i.setFrozen(ctx, account, frozen)
	if err != nil {
		return "", fmt.Errorf("pause or resume a card: %w", err)
	}
	return state, nil
}

func (i *Issuer) setFrozen(ctx context.Context, account string, frozen bool) (card.AccountState, error) {
	token, err := uuid.Parse(account)
	if err != nil {
		return "", wire.Unclear("the card is none of the vendor's")
	}
	now, err := i.controlled(ctx, request{op: "lock", method: http.MethodGet}, token)
	if err != nil {
		return "", err
	}
	want := stateOpen
	if frozen {
		want = statePaused
	}
	switch {
	case now.state == want:
		return now.unloaded().State, nil
	case now.state != stateOpen && now.state != statePaused:
		return "", now.locked()
	case !frozen && now.reason != "" && now.reason != ownersReason:
		return "", now.locked()
	}
	set, err := i.controlled(ctx, request{
		op: "lock", method: http.MethodPatch, body: map[string]string{"state": want},
	}, token)
	if _, not := errors.AsType[*rejected](err); not {
		// The vendor does not say why. A card that was closed meanwhile is the reason that can be read back.
		if now, err := i.controlled(ctx, request{op: "lock", method: http.MethodGet}, token); err == nil &&
			now.state == stateClosed {
			return "", now.locked()
		}
	}
	if err != nil {
		return "", err
	}
	return set.unloaded().State, nil
}

// Remainder implements card.Closer. What is pending of the balance is held by merchants. A balance below zero leaves
// nothing.
func (i *Issuer) Remainder(ctx context.Context, account string) (card.Remainder, error) {
	left, err := i.remainder(ctx, account)
	if err != nil {
		return card.Remainder{}, fmt.Errorf("read what is left on a card: %w", err)
	}
	return left, nil
}

func (i *Issuer) remainder(ctx context.Context, account string) (card.Remainder, error) {
	token, err := uuid.Parse(account)
	if err != nil {
		return card.Remainder{}, wire.Unclear("the card is none of the vendor's")
	}
	one, err := i.oneBalance(ctx, request{
		op: "left", method: http.MethodGet, path: []string{"cards", token.String(), "balances"},
		route: "cards/{token}/balances", card: true,
	})
	switch {
	case err != nil:
		return card.Remainder{}, err
	case one.Pending == nil || one.Total == nil:
		return card.Remainder{}, wire.Unclear("the balance in the answer does not match the documentation")
	}
	return card.Remainder{
		Available: money.Cents(max(0, *one.Available)), Held: *one.Pending != 0 || *one.Total != *one.Available,
	}, nil
}

// Close implements card.Closer.
func (i *Issuer) Close(ctx context.Context, account string) (card.AccountState, error) {
	state, err := i.end(ctx, account)
	if err != nil {
		return "", fmt.Errorf("close a card: %w", err)
	}
	return state, nil
}

func (i *Issuer) end(ctx context.Context, account string) (card.AccountState, error) {
	token, err := uuid.Parse(account)
	if err != nil {
		return "", wire.Unclear("the card is none of the vendor's")
	}
	now, err := i.controlled(ctx, request{op: "end", method: http.MethodGet}, token)
	switch {
	case err != nil:
		return "", err
	case now.state == stateClosed:
		return now.unloaded().State, nil
	}
	now, err = i.controlled(ctx, request{
		op: "end", method: http.MethodPatch, body: map[string]string{"state": stateClosed},
	}, token)
	if err != nil {
		return "", err
	}
	return now.unloaded().State, nil
}

// controlled reads or changes a card of ours.
func (i *Issuer) controlled(ctx context.Context, rq request, token uuid.UUID) (foundCard, error) {
	rq.path, rq.route, rq.card = []string{"cards", token.String()}, "cards/{token}", true
	var got cardAnswer
	if err := i.send(ctx, rq, &got); err != nil {
		return foundCard{}, err
	}
	found, err := got.read()
	if err == nil && found.token != token {
		err = wire.Unclear("the answer is about another card")
	}
	return found, err
}

// locked is the refusal to change a card's state; of a state that is not documented, it is not known what it allows.
func (f foundCard) locked() error {
	switch f.state {
	case statePaused, stateClosed, "PENDING_ACTIVATION", "PENDING_FULFILLMENT":
		return &fulfilment.Refusal{Code: card.RefusedState, Message: "the card is " + f.state}
	}
	return wire.Unclear("the card is in a state that is not documented")
}
