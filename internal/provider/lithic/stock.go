package lithic

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/wire"
	"github.com/roamcard/roamcard/internal/secret"
)

// Balance implements card.Vault.
func (i *Issuer) Balance(ctx context.Context, account string) (card.Balance, error) {
	asOf := i.wire.Now().UTC()
	token, err := uuid.Parse(account)
	if err != nil {
		return card.Balance{}, fmt.Errorf("read a balance: %w", wire.Unclear("the card is none of the vendor's"))
	}
	available, err := i.balance(ctx, request{
		op: "balance", method: http.MethodGet, path: []string{"cards", token.String(), "balances"},
		route: "cards/{token}/balances", card: true,
	})
	if err != nil {
		return card.Balance{}, fmt.Errorf("read a balance: %w", err)
	}
	return card.Balance{Available: available, AsOf: asOf}, nil
}

type balanceAnswer struct {
	Available *wire.Int `json:"available_amount"`
	// Pending is what is held of the total.
	Pending  *wire.Int  `json:"pending_amount"`
	Total    *wire.Int  `json:"total_amount"`
	Currency wire.Upper `json:"currency"`
}

// balance is the one balance that a card or an account has. Of a card it may be negative: merchants settle more than
// they were allowed, or without asking.
func (i *Issuer) balance(ctx context.Context, rq request) (money.Cents, error) {
	one, err := i.oneBalance(ctx, rq)
	if err != nil {
		return 0, err
	}
	return money.Cents(*one.Available), nil
}

func (i *Issuer) oneBalance(ctx context.Context, rq request) (balanceAnswer, error) {
	var got list[balanceAnswer]
	if err := i.send(ctx, rq, &got); err != nil {
		return balanceAnswer{}, err
	}
	if !got.complete() || bool(*got.HasMore) || len(*got.Data) != 1 {
		return balanceAnswer{}, wire.Unclear("there is not one balance in the answer")
	}
	one := (*got.Data)[0]
	if one.Available == nil || one.Currency != currencyUSD {
		return balanceAnswer{}, wire.Unclear("the balance in the answer does not match the documentation")
	}
	return one, nil
}

// Stock implements card.Stock: the balance of the float, and the range of the card programme.
func (i *Issuer) Stock(ctx context.Context) (card.Inventory, error) {
	asOf := i.wire.Now().UTC()
	float, err := i.balance(ctx, request{
		op: "stock", method: http.MethodGet, path: []string{"financial_accounts", i.float.String(), "balances"},
		route: "financial_accounts/{token}/balances",
	})
	if err != nil {
		return card.Inventory{}, fmt.Errorf("read the float: %w", err)
	}
	var got struct {
		Token    uuid.UUID  `json:"token"`
		Start    wire.Text  `json:"pan_range_start"`
		Currency wire.Upper `json:"cardholder_currency"`
	}
	err = i.send(ctx, request{
		op: "stock", method: http.MethodGet, path: []string{"card_programs", i.program.String()},
		route: "card_programs/{token}",
	}, &got)
	if err == nil && (got.Token != i.program || !isDigits(string(got.Start), 4, 19)) {
		err = wire.Unclear("the card programme in the answer does not match the documentation")
	}
	if err != nil {
		return card.Inventory{}, fmt.Errorf("read the card programme: %w", err)
	}
	return card.Inventory{
		Float: float, AsOf: asOf,
		BINs: []card.BIN{{Prefix: string(got.Start[:min(len(got.Start), 8)]), Open: got.Currency == "" ||
			got.Currency == currencyUSD}},
	}, nil
}

// Credentials implements card.Vault. Without the right to read numbers it returns card.ErrEmbedOnly.
func (i *Issuer) Credentials(ctx context.Context, account string) (card.Credentials, error) {
	if !i.inline {
		return card.Credentials{}, fmt.Errorf("read card credentials: %w", card.ErrEmbedOnly)
	}
	token, err := uuid.Parse(account)
	if err != nil {
		return card.Credentials{}, fmt.Errorf("read card credentials: %w", wire.Unclear("the card is none of the vendor's"))
	}
	var got sensitiveAnswer
	err = i.send(ctx, request{
		op: "sensitive", method: http.MethodGet, path: []string{"cards", token.String()}, route: "cards/{token}", card: true,
	}, &got)
	if err != nil {
		return card.Credentials{}, fmt.Errorf("read card credentials: %w", err)
	}
	credentials, err := got.read(token)
	if err != nil {
		return card.Credentials{}, fmt.Errorf("read card credentials: %w", err)
	}
	return credentials, nil
}

// sensitiveAnswer is a card with its number.
type sensitiveAnswer struct {
	Token       uuid.UUID `json:"token"`
	LastFour    wire.Text `json:"last_four"`
	Number      wire.Text `json:"pan"`
	Code        wire.Text `json:"cvv"`
	ExpiryMonth wire.Text `json:"exp_month"`
	ExpiryYear  wire.Text `json:"exp_year"`
}

func (a sensitiveAnswer) read(token uuid.UUID) (card.Credentials, error) {
	month, dated := a.ExpiryMonth.Units(12)
	year, counted := a.ExpiryYear.Units(9999)
	number, code := string(a.Number), string(a.Code)
	if a.Token != token || !isNumber(number) || number[len(number)-4:] != string(a.LastFour) || !isDigits(code, 3, 4) ||
		!dated || !counted || month < 1 || year < 2000 {
		return card.Credentials{}, wire.Unclear("the credentials in the answer do not match the documentation")
	}
	return card.Credentials{
		Number: secret.New(number), SecurityCode: secret.New(code), ExpiryMonth: int(month), ExpiryYear: int(year),
	}, nil
}

// isNumber takes a card number with its check digit.
func isNumber(s string) bool {
	if !isDigits(s, 12, 19) {
		return false
	}
	sum := 0
	for n := range len(s) {
		digit := int(s[len(s)-1-n] - '0')
		if n%2 == 1 {
			digit = digit*2/10 + digit*2%10
		}
		sum += digit
	}
	return sum%10 == 0
}
