package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

// SetFrozen implements card.Controls.
func (i *Issuer) SetFrozen(ctx context.Context, account string, frozen bool) (card.AccountState, error) {
	verb := "unlock"
	if frozen {
		verb = "lock"
	}
	return i.become(ctx, "lock", account, verb)
}

// become asks for a change of a card's state; verb is the end of its path.
func (i *Issuer) become(ctx context.Context, op, account, verb string) (card.AccountState, error) {
	var got cardAnswer
	err := i.call(ctx, request{
		op: op, method: http.MethodPost, path: []string{"cards", account, verb}, route: "/v1/cards/{id}/" + verb,
	}, &got)
	if no, refused := errors.AsType[*fulfilment.Refusal](err); refused && no.Code != card.RefusedState {
		err = wire.Unclear("the card is not there: " + no.Message)
	}
	if err == nil && got.ID != account {
		err = wire.Unclear("the answer is about another card")
	}
	if err != nil {
		return "", fmt.Errorf("%s a card: %w", verb, err)
	}
	return accountState(string(got.Status)), nil
}

// Remainder implements card.Closer.
func (i *Issuer) Remainder(ctx context.Context, account string) (card.Remainder, error) {
	var got remainderAnswer
	err := i.call(ctx, request{
		op: "left", method: http.MethodGet, path: []string{"cards", account, "remainder"},
		route: "/v1/cards/{id}/remainder", confidential: true,
	}, &got)
	if err == nil && (got.Card != account || got.Available == nil || *got.Available < 0 || got.Held == nil ||
		*got.Held < 0 || got.Currency != currencyUSD) {
		err = wire.Unclear("the remainder in the answer does not match the documentation")
	}
	if err != nil {
		return card.Remainder{}, fmt.Errorf("read what is left on a card: %w", err)
	}
	return card.Remainder{Available: money.Cents(*got.Available), Held: *got.Held > 0}, nil
}

type remainderAnswer struct {
	Card      string     `json:"cardId"`
	Available *wire.Int  `json:"availableCents"`
	Held      *wire.Int  `json:"heldCents"`
	Currency  wire.Upper `json:"currency"`
}

// Close implements card.Closer.
func (i *Issuer) Close(ctx context.Context, account string) (card.AccountState, error) {
	return i.become(ctx, "end", account, "terminate")
}

type purchaseAnswer struct {
	ID       string     `json:"id"`
	Card     string     `json:"cardId"`
	Kind     wire.Lower `json:"kind"`
	Status   wire.Lower `json:"status"`
	Reason   string     `json:"reason"`
	Amount   *wire.Int  `json:"amountCents"`
	Currency wire.Upper `json:"currency"`
	Merchant string     `json:"merchant"`
	Category string     `json:"category"`
	Country  wire.Upper `json:"country"`
	At       wire.Time  `json:"at"`
}

// Transactions implements card.Controls.
func (i *Issuer) Transactions(
	ctx context.Context, account, after string, most int,
) ([]card.Transaction, string, error) {
	query := url.Values{"limit": {strconv.Itoa(min(most, purchasePage))}}
	if after != "" {
		query.Set("before", after)
	}
	var got struct {
		listAnswer[purchaseAnswer]
		Next string `json:"next"`
	}
	err := i.call(ctx, request{
		op: "purchases", method: http.MethodGet, path: []string{"cards", account, "purchases"},
		route: "/v1/cards/{id}/purchases", query: query,
	}, &got)
	if err != nil {
		return nil, "", fmt.Errorf("list purchases: %w", err)
	}
	if got.Items == nil || (got.Next != "" && (got.Next == after || len(*got.Items) == 0)) {
		return nil, "", fmt.Errorf("list purchases: %w", wire.Unclear("the list does not match the documentation"))
	}
	page := make([]card.Transaction, 0, len(*got.Items))
	for _, one := range *got.Items {
		t, err := one.transaction(account)
		if err != nil {
			return nil, "", fmt.Errorf("list purchases: %w", err)
		}
		page = append(page, t)
	}
	return page, got.Next, nil
}

func (p purchaseAnswer) transaction(account string) (card.Transaction, error) {
	switch {
	case p.ID == "" || p.At.IsZero() || p.Amount == nil || *p.Amount < 0:
		return card.Transaction{}, wire.Unclear("a purchase does not match the documentation")
	case p.Card != account:
		return card.Transaction{}, wire.Unclear("a purchase is of another card")
	case p.Currency != currencyUSD:
		return card.Transaction{}, wire.Unclear("a purchase is in another currency")
	case p.Kind != kindPurchase && p.Kind != kindRefund:
		return card.Transaction{}, wire.Unclear("a purchase is of an unfamiliar kind")
	}
	t := card.Transaction{
		ID: p.ID, At: p.At.Time, Kind: card.Purchase, Status: card.TransactionPending, Amount: money.Cents(*p.Amount),
		Merchant: card.Merchant{Name: p.Merchant, Category: p.Category, Country: string(p.Country)},
	}
	if p.Kind == kindRefund {
		t.Kind = card.Refund
	}
	switch p.Status {
	case purchaseDone:
		t.Status = card.TransactionCompleted
	case purchaseDeclined:
		t.Status = card.TransactionDeclined
		switch p.Reason {
		case codeBalanceTooLow:
			t.Declined = card.DeclinedFunds
		case codeCardNotUsable:
			t.Declined = card.DeclinedFrozen
		case codeLimitExceeded:
			t.Declined = card.DeclinedLimit
		case codeMerchantNotAllowed:
			t.Declined = card.DeclinedMerchant
		default:
			t.Declined = card.DeclinedOther
		}
	}
	return t, nil
}
