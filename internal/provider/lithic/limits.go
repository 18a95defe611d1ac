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

// The durations of a card's spend limit that owners can choose. A card has one limit.
const (
	eachTransaction = "TRANSACTION"
	eachMonth       = "MONTHLY"
)

// maxLimit is what a limit may be at most, so that it is an amount of ours.
const maxLimit = 1_000_000_000

// Limits implements card.Controls.
func (i *Issuer) Limits(ctx context.Context, account string) (card.Limits, error) {
	on, err := i.limited(ctx, request{op: "limits", method: http.MethodGet}, account)
	if err != nil {
		return card.Limits{}, fmt.Errorf("read the limit of a card: %w", err)
	}
	l, err := on.limits()
	if err != nil {
		return card.Limits{}, fmt.Errorf("read the limit of a card: %w", err)
	}
	return l, nil
}

// SetLimits implements card.Controls. The card is read first: a limit per year or for ever is the operator's, and
// stays. Nothing but the limit is sent: what is on the card are book transfers, which it does not touch.
func (i *Issuer) SetLimits(ctx context.Context, account string, l card.Limits) (card.Limits, error) {
	got, err := i.setLimits(ctx, account, l)
	if err != nil {
		return card.Limits{}, fmt.Errorf("set the limit of a card: %w", err)
	}
	return got, nil
}

func (i *Issuer) setLimits(ctx context.Context, account string, l card.Limits) (card.Limits, error) {
	amount, duration := l.Transaction, eachTransaction // zero takes away the limit that there is
	if l.Month > 0 {
		amount, duration = l.Month, eachMonth
	}
	if l.Transaction > 0 && l.Month > 0 || len(l.Allowed)+len(l.Blocked) > 0 {
		return card.Limits{}, errors.New("a card has one limit, and none to merchants")
	}
	on, err := i.limited(ctx, request{op: "limits", method: http.MethodGet}, account)
	switch {
	case err != nil:
		return card.Limits{}, err
	case on.state == stateClosed:
		return card.Limits{}, on.locked()
	case *on.limit > 0 && on.duration != eachTransaction && on.duration != eachMonth:
		return card.Limits{}, &fulfilment.Refusal{Code: card.RefusedState, Message: "the card has a limit of the operator's"}
	}
	set, err := i.limited(ctx, request{
		op: "set_limits", method: http.MethodPatch,
		body: map[string]any{"spend_limit": int64(amount), "spend_limit_duration": duration},
	}, account)
	if err != nil {
		return card.Limits{}, err
	}
	return set.limits()
}

// limited reads or changes a card of ours, with its limit.
func (i *Issuer) limited(ctx context.Context, rq request, account string) (foundCard, error) {
	token, err := uuid.Parse(account)
	if err != nil {
		return foundCard{}, wire.Unclear("the card is none of the vendor's")
	}
	on, err := i.controlled(ctx, rq, token)
	if err == nil && (on.limit == nil || *on.limit < 0 || *on.limit > maxLimit) {
		err = wire.Unclear("the limit in the answer does not match the documentation")
	}
	return on, err
}

func (f foundCard) limits() (card.Limits, error) {
	switch {
	case *f.limit == 0:
		return card.Limits{}, nil
	case f.duration == eachTransaction:
		return card.Limits{Transaction: money.Cents(*f.limit)}, nil
	case f.duration == eachMonth:
		return card.Limits{Month: money.Cents(*f.limit)}, nil
	}
	return card.Limits{}, wire.Unclear("the card has a limit that no owner has set")
}
