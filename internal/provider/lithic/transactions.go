package lithic

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/uuid"
	"golang.org/x/text/language"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

// maxPage is the most that the vendor lists at once.
const maxPage = 100

// Transactions implements card.Controls. A cursor is the token of the last transaction before a page.
func (i *Issuer) Transactions(
	ctx context.Context, account, after string, most int,
) ([]card.Transaction, string, error) {
	page, next, err := i.transactions(ctx, account, after, most)
	if err != nil {
		return nil, "", fmt.Errorf("list transactions: %w", err)
	}
	return page, next, nil
}

func (i *Issuer) transactions(
	ctx context.Context, account, after string, most int,
) (page []card.Transaction, next string, err error) {
	on, err := uuid.Parse(account)
	if err != nil {
		return nil, "", wire.Unclear("the card is none of the vendor's")
	}
	most = min(most, maxPage)
	query := url.Values{"card_token": {on.String()}, "page_size": {strconv.Itoa(most)}}
	if after != "" {
		if _, err := uuid.Parse(after); err != nil {
			return nil, "", noCursor()
		}
		query.Set("starting_after", after)
	}
	var got list[transactionAnswer]
	err = i.send(ctx, request{
		op: "purchases", method: http.MethodGet, path: []string{"transactions"}, route: "transactions", query: query,
		card: true,
	}, &got)
	if _, not := errors.AsType[*rejected](err); not && after != "" {
		return nil, "", noCursor()
	}
	switch {
	case err != nil:
		return nil, "", err
	case !got.complete() || len(*got.Data) > most:
		return nil, "", wire.Unclear("the list in the answer does not match the documentation")
	}
	listed := map[uuid.UUID]bool{}
	for n, one := range *got.Data {
		t, err := one.read(on)
		switch {
		case err != nil:
			return nil, "", err
		case n > 0 && t.At.After((*got.Data)[n-1].Created.Time):
			return nil, "", wire.Unclear("the list in the answer is not in its order")
		case t.ID == after:
			return nil, "", wire.Unclear("the list in the answer is another one")
		case listed[one.Token]:
			continue
		}
		listed[one.Token] = true
		page = append(page, t)
		next = t.ID
	}
	if !*got.HasMore {
		next = ""
	}
	return page, next, nil
}

func noCursor() error {
	return &fulfilment.Refusal{Code: fulfilment.RefusedRequest, Message: "there is no such cursor"}
}

// transactionAnswer is what a card was used for, with all that became of it.
type transactionAnswer struct {
	Token   uuid.UUID  `json:"token"`
	Card    uuid.UUID  `json:"card_token"`
	Status  wire.Upper `json:"status"`
	Result  wire.Upper `json:"result"`
	Created wire.Time  `json:"created"`
	Amounts struct {
		Cardholder amountAnswer `json:"cardholder"`
		Hold       amountAnswer `json:"hold"`
		Settlement amountAnswer `json:"settlement"`
	} `json:"amounts"`
	Merchant struct {
		Descriptor string     `json:"descriptor"`
		MCC        wire.Text  `json:"mcc"`
		Country    wire.Upper `json:"country"`
	} `json:"merchant"`
	Events []struct {
		Polarity wire.Upper   `json:"effective_polarity"`
		Result   wire.Upper   `json:"result"`
		Why      []wire.Upper `json:"detailed_results"`
		Amounts  struct {
			Cardholder amountAnswer `json:"cardholder"`
		} `json:"amounts"`
	} `json:"events"`
}

type amountAnswer struct {
	Amount   *wire.Int  `json:"amount"`
	Currency wire.Upper `json:"currency"`
}

// cents is the amount without its sign, which the vendor does not document.
func (a amountAnswer) cents() (money.Cents, bool) {
	if a.Amount == nil || *a.Amount > maxAmount || *a.Amount < -maxAmount || a.Currency != currencyUSD {
		return 0, false
	}
	return money.Cents(max(*a.Amount, -*a.Amount)), true
}

// read is the transaction, if it is of a card. Its direction is that of its first event.
func (a transactionAnswer) read(on uuid.UUID) (card.Transaction, error) {
	switch {
	case a.Token == uuid.Nil || a.Created.IsZero() || a.Status == "" || len(a.Events) == 0:
		return card.Transaction{}, wire.Unclear("a transaction does not match the documentation")
	case a.Card != on:
		return card.Transaction{}, wire.Unclear("a transaction is of another card")
	}
	amount, ok := a.amount()
	if !ok {
		return card.Transaction{}, wire.Unclear("a transaction has no exact amount of US dollars")
	}
	t := card.Transaction{
		ID: a.Token.String(), At: a.Created.Time, Status: a.status(), Amount: amount,
		Merchant: card.Merchant{
			Name: a.Merchant.Descriptor, Category: string(a.Merchant.MCC), Country: countryOf(string(a.Merchant.Country)),
		},
	}
	switch a.Events[0].Polarity {
	case "DEBIT":
		t.Kind = card.Purchase
	case "CREDIT":
		t.Kind = card.Refund
	default:
		return card.Transaction{}, wire.Unclear("a transaction has a direction that is not documented")
	}
	if t.Status == card.TransactionDeclined {
		t.Declined = a.declined()
	}
	return t, nil
}

// amount is what has settled, or else what is held, or else what was asked for: nothing is held or settled of what was
// declined or given up.
func (a transactionAnswer) amount() (money.Cents, bool) {
	settled, ok := a.Amounts.Settlement.cents()
	held, holds := a.Amounts.Hold.cents()
	asked, states := a.Events[0].Amounts.Cardholder.cents()
	switch {
	case !ok || !holds || !states:
		return 0, false
	case a.Status == "SETTLED" || settled != 0:
		return settled, true
	case held != 0:
		return held, true
	}
	return asked, true
}

func (a transactionAnswer) status() card.TransactionStatus {
	switch a.Status {
	case "SETTLED":
		return card.TransactionCompleted
	case "DECLINED":
		return card.TransactionDeclined
	case "VOIDED", "EXPIRED":
		return card.TransactionReversed
	}
	return card.TransactionPending
}

// declined is the first reason that is known here, the more exact ones first.
func (a transactionAnswer) declined() card.DeclineReason {
	var said []wire.Upper
	for _, e := range a.Events {
		said = append(append(said, e.Why...), e.Result)
	}
	for _, why := range append(said, a.Result) {
		if reason, known := declines[why]; known {
			return reason
		}
	}
	return card.DeclinedOther
}

// declines are the vendor's reasons that an owner understands. What stops the whole account or programme is not theirs.
var declines = map[wire.Upper]card.DeclineReason{
	"INSUFFICIENT_FUNDS":         card.DeclinedFunds,
	"INSUFFICIENT_FUNDS_PRELOAD": card.DeclinedFunds,

	"CARD_PAUSED": card.DeclinedFrozen,
	"CARD_CLOSED": card.DeclinedClosed,

	"CARD_SPEND_LIMIT_EXCEEDED":         card.DeclinedLimit,
	"PROGRAM_CARD_SPEND_LIMIT_EXCEEDED": card.DeclinedLimit,
	"USER_TRANSACTION_LIMIT":            card.DeclinedLimit,

	"AUTH_RULE_ALLOWED_COUNTRY": card.DeclinedMerchant,
	"AUTH_RULE_ALLOWED_MCC":     card.DeclinedMerchant,
	"AUTH_RULE_BLOCKED_COUNTRY": card.DeclinedMerchant,
	"AUTH_RULE_BLOCKED_MCC":     card.DeclinedMerchant,
	"MERCHANT_BLACKLIST":        card.DeclinedMerchant,
	"MERCHANT_NOT_PERMITTED":    card.DeclinedMerchant,
	"UNAUTHORIZED_MERCHANT":     card.DeclinedMerchant,

	"ADDRESS_INCORRECT":                  card.DeclinedCheck,
	"CARDHOLDER_CHALLENGE_FAILED":        card.DeclinedCheck,
	"CARD_CRYPTOGRAM_VALIDATION_FAILURE": card.DeclinedCheck,
	"CARD_EXPIRY_DATE_INCORRECT":         card.DeclinedCheck,
	"CARD_PIN_INCORRECT":                 card.DeclinedCheck,
	"CARD_SECURITY_CODE_INCORRECT":       card.DeclinedCheck,
	"INCORRECT_PIN":                      card.DeclinedCheck,
	"INVALID_CARD_DETAILS":               card.DeclinedCheck,
	"PIN_BLOCKED":                        card.DeclinedCheck,

	"FRAUD_ADVICE":    card.DeclinedFraud,
	"SUSPECTED_FRAUD": card.DeclinedFraud,
}

// countryOf is the code of two letters for one of three, or of two. Empty for what has none.
func countryOf(code string) string {
	region, err := language.ParseRegion(code)
	if err != nil || len(code) < 2 || len(code) > 3 || !region.IsCountry() {
		return ""
	}
	return region.String()
}
