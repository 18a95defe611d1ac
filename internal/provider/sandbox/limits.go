package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

// The reasons of purchases that a card's limits decline.
const (
	codeLimitExceeded      = "limit_exceeded"
	codeMerchantNotAllowed = "merchant_not_allowed"
)

// limitsRow is what a card may be used for; zero and empty do not limit.
type limitsRow struct {
	Transaction money.Cents `json:"perTransactionCents"`
	Month       money.Cents `json:"perMonthCents"`
	Allowed     []string    `json:"allowedCategories"`
	Blocked     []string    `json:"blockedCategories"`
}

// limitsBody is that on the wire.
type limitsBody struct {
	Card     string `json:"cardId"`
	Currency string `json:"currency"`
	limitsRow
}

func limitsBodyOf(row cardRow) limitsBody {
	body := limitsBody{Card: row.ID, Currency: currencyUSD}
	if row.Limits != nil {
		body.limitsRow = *row.Limits
	}
	body.Allowed, body.Blocked = append([]string{}, body.Allowed...), append([]string{}, body.Blocked...)
	return body
}

func (s *Server) getLimits(c call) (any, error) {
	row, err := s.books.card(c.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return limitsBodyOf(row), nil
}

// putLimits replaces the limits of a card.
func (s *Server) putLimits(c call) (any, error) {
	var asked limitsRow
	if err := read(c.Body, &asked); err != nil {
		return nil, err
	}
	if asked.Transaction < 0 || asked.Transaction > maxAmount || asked.Month < 0 || asked.Month > maxAmount {
		return nil, invalid("perTransactionCents and perMonthCents are amounts")
	}
	for _, one := range slices.Concat(asked.Allowed, asked.Blocked) {
		if !isDigits(one, 4, 4) {
			return nil, invalid("a category has four digits")
		}
	}
	var now cardRow
	err := s.books.edit(func(ch *change) error {
		row, ok := ch.card(c.PathValue("id"))
		switch {
		case !ok:
			return errNoCard
		case row.Status != cardLive && row.Status != cardLocked:
			return &problem{http.StatusConflict, codeCardNotUsable, "the card is " + string(row.Status)}
		}
		row.Limits = &asked
		ch.cards[row.ID], now = row, row
		return nil
	})
	return limitsBodyOf(now), err
}

// beyond is why a purchase is beyond the card's limits; empty when it is not. A month is that of the calendar, in UTC.
func (c *change) beyond(row cardRow, p purchaseRow) string {
	if row.Limits == nil {
		return ""
	}
	l, spent, now := *row.Limits, money.Cents(0), c.at.UTC()
	for _, one := range c.books.purchases[row.ID] {
		at := one.At.UTC()
		if one.Kind == kindPurchase && one.Status == purchaseDone && at.Year() == now.Year() && at.Month() == now.Month() {
			spent += one.Amount
		}
	}
	switch {
	case slices.Contains(l.Blocked, p.Category), len(l.Allowed) > 0 && !slices.Contains(l.Allowed, p.Category):
		return codeMerchantNotAllowed
	case l.Transaction > 0 && p.Amount > l.Transaction, l.Month > 0 && spent+p.Amount > l.Month:
		return codeLimitExceeded
	}
	return ""
}

type limitsAnswer struct {
	Card        string     `json:"cardId"`
	Currency    wire.Upper `json:"currency"`
	Transaction *wire.Int  `json:"perTransactionCents"`
	Month       *wire.Int  `json:"perMonthCents"`
	Allowed     *[]string  `json:"allowedCategories"`
	Blocked     *[]string  `json:"blockedCategories"`
}

func (a limitsAnswer) limits(account string) (card.Limits, error) {
	if a.Card != account || a.Currency != currencyUSD || a.Transaction == nil || *a.Transaction < 0 || a.Month == nil ||
		*a.Month < 0 || a.Allowed == nil || a.Blocked == nil {
		return card.Limits{}, wire.Unclear("the limits in the answer do not match the documentation")
	}
	return card.Limits{
		Transaction: money.Cents(*a.Transaction), Month: money.Cents(*a.Month), Allowed: *a.Allowed, Blocked: *a.Blocked,
	}, nil
}

// Limits implements card.Controls.
func (i *Issuer) Limits(ctx context.Context, account string) (card.Limits, error) {
	got, err := i.limitsOf(ctx, account, request{op: "limits", method: http.MethodGet})
	if err != nil {
		return card.Limits{}, fmt.Errorf("read the limits of a card: %w", err)
	}
	return got, nil
}

// SetLimits implements card.Controls.
func (i *Issuer) SetLimits(ctx context.Context, account string, l card.Limits) (card.Limits, error) {
	got, err := i.limitsOf(ctx, account, request{
		op: "set_limits", method: http.MethodPut,
		body: limitsRow{Transaction: l.Transaction, Month: l.Month, Allowed: l.Allowed, Blocked: l.Blocked},
	})
	if err != nil {
		return card.Limits{}, fmt.Errorf("set the limits of a card: %w", err)
	}
	return got, nil
}

func (i *Issuer) limitsOf(ctx context.Context, account string, rq request) (card.Limits, error) {
	rq.path, rq.route = []string{"cards", account, "limits"}, "/v1/cards/{id}/limits"
	var got limitsAnswer
	err := i.call(ctx, rq, &got)
	if no, refused := errors.AsType[*fulfilment.Refusal](err); refused && no.Code != card.RefusedState {
		err = wire.Unclear("the card is not there, or does not take the limits: " + no.Message)
	}
	if err != nil {
		return card.Limits{}, err
	}
	return got.limits(account)
}
