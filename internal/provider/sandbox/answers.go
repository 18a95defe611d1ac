package sandbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/wire"
	"github.com/roamcard/roamcard/internal/secret"
)

// refusals are the vendor's codes of a definite refusal, with our names for them. A code that is
// not here leaves the outcome unknown, above all reference_conflict: something did happen under that
// reference.
func refusals(code string) (neutral string, definite bool) {
	switch code {
	case codeMasterBalanceLow:
		return fulfilment.RefusedFloat, true
	case codeBINOffline:
		return card.RefusedBIN, true
	case codeHolderDeclined:
		return card.RefusedHolder, true
	case codeBalanceTooLow, codeRetentionQuota:
		return card.RefusedFunds, true
	case codeCardNotUsable:
		return card.RefusedState, true
	case codeInvalidRequest, codeNotFound, codeNothingToTake:
		return fulfilment.RefusedRequest, true
	case codeDeclined:
		return fulfilment.RefusedUnstated, true
	default:
		return "", false
	}
}

// declinedFor is the refusal of a row that the vendor itself calls declined or reversed: definite
// whatever the reason is.
func declinedFor(reason string) *fulfilment.Refusal {
	code, known := refusals(reason)
	if !known {
		code = fulfilment.RefusedUnstated
	}
	return &fulfilment.Refusal{Code: code, Message: quote(reason)}
}

// codes are a vendor's refusals: our name for its code, and whether that settles the outcome.
type codes func(code string) (neutral string, definite bool)

// understand sorts an answer into accepted, refused and unknown.
func understand(status int, answer []byte, confidential bool, known codes, into any) error {
	var e struct {
		OK    *bool           `json:"ok"`
		Data  json.RawMessage `json:"data"`
		Error *struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	readable := wire.Decode(answer, &e) == nil && e.OK != nil
	switch {
	case status == http.StatusOK && readable && *e.OK && e.Error == nil:
		if wire.Decode(e.Data, into) != nil {
			return wire.Undocumented
		}
		return nil
	case !readable || *e.OK || e.Error == nil:
		return wire.Unclear(fmt.Sprintf("status %d with an answer that does not match the documentation", status))
	}
	neutral, definite := known(e.Error.Code)
	switch {
	case definite && slices.Contains([]int{400, 404, 409, 422}, status) && confidential:
		return &fulfilment.Refusal{Code: neutral}
	case definite && slices.Contains([]int{400, 404, 409, 422}, status):
		return &fulfilment.Refusal{Code: neutral, Message: quote(e.Error.Message)}
	case confidential:
		return wire.Unclear(fmt.Sprintf("status %d", status))
	default:
		return wire.Unclear(fmt.Sprintf("status %d: %s: %s", status, quote(e.Error.Code), quote(e.Error.Message)))
	}
}

// quote makes a vendor's text fit for an error and a log, without card numbers.
func quote(s string) string { return wire.Quote(s, wire.HideCards) }

// The answers hold pointers where a missing member must not pass for a zero.

type cardAnswer struct {
	ID        string     `json:"id"`
	Reference string     `json:"reference"`
	Status    wire.Lower `json:"status"`
	Reason    string     `json:"reason"`
	Last4     wire.Text  `json:"last4"`
	Load      *wire.Int  `json:"loadCents"`
	Currency  wire.Upper `json:"currency"`
	Note      string     `json:"note"`
}

func (a cardAnswer) account(ref fulfilment.Ref) (card.Account, error) {
	if !isID(a.ID) || a.Status == "" || a.Load == nil || *a.Load < 0 || a.Currency != currencyUSD ||
		!isLast4(string(a.Last4)) {
		return card.Account{}, wire.Unclear("the card in the answer does not match the documentation")
	}
	if a.Reference != ref.String() {
		return card.Account{}, wire.Unclear("the answer is about another reference")
	}
	account := card.Account{
		ID: a.ID, Ref: ref, State: accountState(string(a.Status)), Last4: string(a.Last4),
		Loaded: money.Cents(*a.Load), Buyer: a.Note,
	}
	if account.State == card.AccountRejected {
		account.Refusal = declinedFor(a.Reason)
	}
	return account, nil
}

// accountState is a card's state by the vendor's status.
func accountState(status string) card.AccountState {
	switch cardStatus(status) {
	case cardLive:
		return card.AccountActive
	case cardLocked:
		return card.AccountFrozen
	case cardTerminated:
		return card.AccountClosed
	case cardDeclined:
		return card.AccountRejected
	default:
		return card.AccountPending
	}
}

type movementAnswer struct {
	ID        string     `json:"id"`
	Reference string     `json:"reference"`
	Card      string     `json:"cardId"`
	Direction wire.Lower `json:"direction"`
	Amount    *wire.Int  `json:"amountCents"`
	Limit     wire.Int   `json:"limitCents"`
	Currency  wire.Upper `json:"currency"`
	Status    wire.Lower `json:"status"`
	Reason    string     `json:"reason"`
}

func (a movementAnswer) moved(ref fulfilment.Ref) (card.MovementRecord, error) {
	if !isID(a.Card) || a.Status == "" || a.Amount == nil || *a.Amount <= 0 || a.Limit < 0 || a.Currency != currencyUSD ||
		(a.Direction != intoCard && a.Direction != outOfCard) {
		return card.MovementRecord{}, wire.Unclear("the movement in the answer does not match the documentation")
	}
	if a.Reference != ref.String() {
		return card.MovementRecord{}, wire.Unclear("the answer is about another reference")
	}
	moved := card.MovementRecord{
		Ref: ref, Account: a.Card, Direction: card.Load, Amount: money.Cents(*a.Amount), Target: money.Cents(a.Limit),
	}
	if a.Direction == outOfCard {
		moved.Direction = card.Withdrawal
	}
	switch moveStatus(a.Status) {
	case moveDone:
		moved.State = card.MoveSucceeded
	case moveDeclined, moveReversed:
		moved.State, moved.Refusal = card.MoveFailed, declinedFor(a.Reason)
	default:
		moved.State = card.MovePending
	}
	return moved, nil
}

type listAnswer[T any] struct {
	Items *[]T `json:"items"`
}

// only is the one thing a look-up found, or fulfilment.ErrNoRef. The same report twice is one; two different ones
// settle nothing.
func only[A, T any](list listAnswer[A], read func(A) (T, error), same func(a, b T) bool) (T, error) {
	var found, none T
	if list.Items == nil {
		return none, wire.Unclear("the list in the answer does not match the documentation")
	}
	if len(*list.Items) == 0 {
		return none, fulfilment.ErrNoRef
	}
	for n, item := range *list.Items {
		one, err := read(item)
		if err != nil {
			return none, err
		}
		if n > 0 && !same(found, one) {
			return none, wire.Unclear("the answer holds two different reports")
		}
		found = one
	}
	return found, nil
}

func sameAccount(a, b card.Account) bool {
	return a.ID == b.ID && a.State == b.State && a.Loaded == b.Loaded
}

func sameMoved(a, b card.MovementRecord) bool {
	return a.Account == b.Account && a.State == b.State && a.Amount == b.Amount && a.Direction == b.Direction &&
		a.Target == b.Target
}

type balanceAnswer struct {
	Card      string     `json:"cardId"`
	Available *wire.Int  `json:"availableCents"`
	Currency  wire.Upper `json:"currency"`
	AsOf      wire.Time  `json:"asOf"`
}

func (a balanceAnswer) balance(account string) (card.Balance, error) {
	if a.Card != account || a.Available == nil || *a.Available < 0 || a.Currency != currencyUSD || a.AsOf.IsZero() {
		return card.Balance{}, wire.Unclear("the balance in the answer does not match the documentation")
	}
	return card.Balance{Available: money.Cents(*a.Available), AsOf: a.AsOf.Time}, nil
}

type sensitiveAnswer struct {
	Card         string    `json:"cardId"`
	Number       wire.Text `json:"number"`
	SecurityCode wire.Text `json:"cvv"`
	ExpiryMonth  wire.Int  `json:"expiryMonth"`
	ExpiryYear   wire.Int  `json:"expiryYear"`
}

func (a sensitiveAnswer) credentials(account string) (card.Credentials, error) {
	number, code := string(a.Number), string(a.SecurityCode)
	if a.Card != account || !isDigits(number, 12, 19) || luhnSum(number)%10 != 0 || !isDigits(code, 3, 4) ||
		a.ExpiryMonth < 1 || a.ExpiryMonth > 12 || a.ExpiryYear < 2000 || a.ExpiryYear > 9999 {
		return card.Credentials{}, wire.Unclear("the credentials in the answer do not match the documentation")
	}
	return card.Credentials{
		Number: secret.New(number), SecurityCode: secret.New(code),
		ExpiryMonth: int(a.ExpiryMonth), ExpiryYear: int(a.ExpiryYear),
	}, nil
}

type accountAnswer struct {
	Available *wire.Int  `json:"availableCents"`
	Currency  wire.Upper `json:"currency"`
}

type binAnswer struct {
	Prefix string     `json:"prefix"`
	Status wire.Lower `json:"status"`
}

func inventoryOf(float accountAnswer, bins listAnswer[binAnswer]) (card.Inventory, error) {
	if float.Available == nil || float.Currency != currencyUSD || bins.Items == nil {
		return card.Inventory{}, wire.Undocumented
	}
	inventory := card.Inventory{Float: money.Cents(*float.Available)}
	for _, bin := range *bins.Items {
		if !isPrefix(bin.Prefix) {
			return card.Inventory{}, wire.Unclear("a card range in the answer does not match the documentation")
		}
		// Any other word is a range that is not available.
		inventory.BINs = append(inventory.BINs, card.BIN{Prefix: bin.Prefix, Open: bin.Status == "online"})
	}
	return inventory, nil
}

// isID refuses an id of the vendor's that would change a path.
func isID(s string) bool {
	return s != "" && len(s) <= 64 &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

func isLast4(s string) bool { return s == "" || isDigits(s, 4, 4) }

func isDigits(s string, least, most int) bool {
	return len(s) >= least && len(s) <= most && strings.Trim(s, "0123456789") == ""
}
