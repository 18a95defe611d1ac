package stripe

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	stripego "github.com/stripe/stripe-go/v85"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
)

// The intervals of limits that owners set.
const (
	perAuthorization = "per_authorization"
	monthly          = "monthly"
)

// Limits implements card.Controls.
func (i *Issuer) Limits(ctx context.Context, account string) (card.Limits, error) {
	on, err := i.card(ctx, "limits", account)
	if err != nil {
		return card.Limits{}, fmt.Errorf("read the limits of a card: %w", err)
	}
	l, err := on.ownersLimits()
	if err != nil {
		return card.Limits{}, fmt.Errorf("read the limits of a card: %w", err)
	}
	return l, nil
}

// SetLimits implements card.Controls. An update replaces all limits, so that of all time, which funds the card, is sent
// with the owner's as it is: nothing else may change it meanwhile.
func (i *Issuer) SetLimits(ctx context.Context, account string, l card.Limits) (card.Limits, error) {
	got, err := i.setLimits(ctx, account, l)
	if err != nil {
		return card.Limits{}, fmt.Errorf("set the limits of a card: %w", err)
	}
	return got, nil
}

func (i *Issuer) setLimits(ctx context.Context, account string, l card.Limits) (card.Limits, error) {
	allowed, err := categoriesOf(l.Allowed)
	if err != nil {
		return card.Limits{}, err
	}
	blocked, err := categoriesOf(l.Blocked)
	if err != nil {
		return card.Limits{}, err
	}
	on, err := i.card(ctx, "set_limits", account)
	if err != nil {
		return card.Limits{}, err
	}
	if _, ours := on.ref(); !ours {
		return card.Limits{}, unclear("the card is not ours")
	}
	funding, err := on.limit()
	if err != nil {
		return card.Limits{}, err
	}
	switch now, err := on.ownersLimits(); {
	case on.state() == card.AccountClosed:
		return card.Limits{}, on.refused()
	case err != nil:
		return card.Limits{}, err
	case now.Equal(l):
		return now, nil
	}
	p := &stripego.IssuingCardUpdateParams{
		SpendingControls: &stripego.IssuingCardUpdateSpendingControlsParams{
			SpendingLimits: on.limitsOfOwner(l), AllowedCategories: allowed, BlockedCategories: blocked,
		},
	}
	var got cardAnswer
	err = i.send(ctx, request{
		op: "set_limits", method: http.MethodPost, path: "/v1/issuing/cards/" + on.ID, route: "/v1/issuing/cards/{card}",
		params: p, bind: func(ctx context.Context) { p.Context = ctx },
	}, &got)
	if err == nil && got.ID != on.ID {
		err = unclear("the answer is about another card")
	}
	if err != nil {
		return card.Limits{}, err
	}
	if kept, err := got.limit(); err != nil || kept != funding {
		return card.Limits{}, unclear("the answer has another limit of all time")
	}
	return got.ownersLimits()
}

// categoriesOf are Stripe's names of merchant categories, nil for none: its documentation has no empty list. The answer
// to an update says whether those are gone that it does not name.
func categoriesOf(codes []string) (names []*string, err error) {
	for _, code := range codes {
		name, known := categoryNames[code]
		if !known {
			return nil, &fulfilment.Refusal{Code: card.RefusedCategory, Message: "Stripe has no category " + code}
		}
		names = append(names, stripego.String(name))
	}
	return names, nil
}

// owners reports whether it is a limit that an owner sets.
func (l limitAnswer) owners() bool {
	return (l.Interval == perAuthorization || l.Interval == monthly) && len(l.Categories) == 0
}

// ownersLimits are the card's limits apart from that which funds it, and from those that no owner can set.
func (a *cardAnswer) ownersLimits() (l card.Limits, err error) {
	if err := a.dollars(); err != nil {
		return card.Limits{}, err
	}
	for _, one := range a.Controls.Limits {
		amount := &l.Transaction
		if one.Interval == monthly {
			amount = &l.Month
		}
		switch {
		case !one.owners():
			continue
		case *amount != 0 || *one.Amount == 0 || *one.Amount > maxCents:
			return card.Limits{}, unclear("the card has limits that no owner has set")
		}
		*amount = money.Cents(*one.Amount)
	}
	for _, list := range []struct {
		names []string
		codes *[]string
	}{{a.Controls.Allowed, &l.Allowed}, {a.Controls.Blocked, &l.Blocked}} {
		for _, name := range list.names {
			code, known := categoryCodes[name]
			if !known {
				return card.Limits{}, unclear("the card has a category that is not documented")
			}
			*list.codes = append(*list.codes, code)
		}
	}
	return l, nil
}

// limitsOfOwner are the card's limits with those of its owner replaced: an update replaces them all.
func (a *cardAnswer) limitsOfOwner(
	l card.Limits,
) (all []*stripego.IssuingCardUpdateSpendingControlsSpendingLimitParams) {
	for _, one := range a.Controls.Limits {
		if !one.owners() {
			all = append(all, one.kept())
		}
	}
	for _, set := range []struct {
		interval string
		amount   money.Cents
	}{{perAuthorization, l.Transaction}, {monthly, l.Month}} {
		if set.amount > 0 {
			all = append(all, &stripego.IssuingCardUpdateSpendingControlsSpendingLimitParams{
				Amount: stripego.Int64(int64(set.amount)), Interval: stripego.String(set.interval),
			})
		}
	}
	return all
}

// kept is the limit as it is sent to stay.
func (l limitAnswer) kept() *stripego.IssuingCardUpdateSpendingControlsSpendingLimitParams {
	kept := &stripego.IssuingCardUpdateSpendingControlsSpendingLimitParams{
		Amount: (*int64)(l.Amount), Interval: stripego.String(string(l.Interval)),
	}
	if len(l.Categories) > 0 { // none is not the same as an empty list
		kept.Categories = stripego.StringSlice(l.Categories)
	}
	return kept
}

// controlDeclined is why a card's spending controls declined a purchase, as they are now: Stripe does not say which. A
// limit per month is not told from that of all time.
func (a *authorizationAnswer) controlDeclined(asked int64) card.DeclineReason {
	on := a.Card.controls
	if on == nil || a.Merchant == nil {
		return card.DeclinedFunds
	}
	of := a.Merchant.Category
	if slices.Contains(on.Blocked, of) || len(on.Allowed) > 0 && !slices.Contains(on.Allowed, of) {
		return card.DeclinedMerchant
	}
	for _, l := range on.Limits {
		if l.owners() && l.Amount != nil && (l.Interval == monthly || asked > int64(*l.Amount)) {
			return card.DeclinedLimit
		}
	}
	return card.DeclinedFunds
}
