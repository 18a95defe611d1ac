package stripe

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	stripego "github.com/stripe/stripe-go/v85"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	forms "github.com/roamcard/roamcard/internal/provider/wire"
)

// What a card's metadata say. Every other key that is a reference is the record of a load or, after a minus, of the
// withdrawal of what was left: its amount, a colon, and the limit that it set.
const (
	keyRef   = "roamcard_ref"
	keyLoad  = "roamcard_load"
	keyBuyer = "roamcard_buyer"
	// keyFrozen is there while the card is inactive because its owner asked for it.
	keyFrozen = "roamcard_frozen"
)

// maxKeys is how many keys a card's metadata may have after a load: one less than the vendor takes, which is that of a
// frozen card. That is 46 loads.
const maxKeys = 49

const (
	currencyUSD = "usd"
	allTime     = "all_time"
)

// The answers hold pointers where a missing member must not pass for a zero.

type cardAnswer struct {
	stripego.APIResource
	ID       string            `json:"id"`
	Object   string            `json:"object"`
	Created  forms.Int         `json:"created"`
	Currency forms.Lower       `json:"currency"`
	Last4    forms.Text        `json:"last4"`
	Status   forms.Lower       `json:"status"`
	Metadata map[string]string `json:"metadata"`
	Controls *controlsAnswer   `json:"spending_controls"`
}

type controlsAnswer struct {
	Limits   []limitAnswer `json:"spending_limits"`
	Currency *forms.Lower  `json:"spending_limits_currency"`
	// Allowed and Blocked are categories by their names.
	Allowed []string `json:"allowed_categories"`
	Blocked []string `json:"blocked_categories"`
}

type limitAnswer struct {
	Amount     *forms.Int  `json:"amount"`
	Categories []string    `json:"categories"`
	Interval   forms.Lower `json:"interval"`
}

// general reports whether it is the limit to all that is ever spent.
func (l limitAnswer) general() bool { return l.Interval == allTime && len(l.Categories) == 0 }

func (a *cardAnswer) id() string     { return a.ID }
func (a *cardAnswer) created() int64 { return int64(a.Created) }

func (a *cardAnswer) whole() error {
	if a.Object != "issuing.card" || !isID(a.ID) || a.Created <= 0 || a.Currency == "" || a.Status == "" ||
		!isDigits(string(a.Last4), 4, 4) || a.Controls == nil {
		return unclear("the card in the answer does not match the documentation")
	}
	for _, l := range a.Controls.Limits {
		if l.Amount == nil || *l.Amount < 0 || l.Interval == "" {
			return unclear("a limit in the answer does not match the documentation")
		}
	}
	return nil
}

// dollars refuses a card in another currency. Other programs of the account may have some.
func (a *cardAnswer) dollars() error {
	if a.Currency != currencyUSD || (a.Controls.Currency != nil && *a.Controls.Currency != currencyUSD) {
		return unclear("the card is not in dollars")
	}
	return nil
}

// ref is our reference of the card's opening; ok is false when the card is not ours.
func (a *cardAnswer) ref() (ref fulfilment.Ref, ok bool) {
	id, err := uuid.Parse(a.Metadata[keyRef])
	return fulfilment.Ref(id), err == nil && id.String() == a.Metadata[keyRef]
}

// limit is what may ever be spent with the card.
func (a *cardAnswer) limit() (money.Cents, error) {
	limit := money.Cents(-1)
	if err := a.dollars(); err != nil {
		return 0, err
	}
	for _, l := range a.Controls.Limits {
		if !l.general() {
			continue
		}
		if limit >= 0 {
			return 0, unclear("the card has two limits of all time")
		}
		limit = money.Cents(*l.Amount)
	}
	if limit < 0 {
		return 0, unclear("the card has no limit of all time")
	}
	if limit == leastLimit && a.emptied() {
		return 0, nil
	}
	return limit, nil
}

// emptied reports whether all of the card's limit was withdrawn.
func (a *cardAnswer) emptied() bool {
	for _, ref := range a.loads() {
		if m, err := a.moved(ref); err == nil && m.Direction == card.Withdrawal && m.Target == 0 {
			return true
		}
	}
	return false
}

// account is the card under a reference.
func (a *cardAnswer) account(ref fulfilment.Ref) (card.Account, error) {
	if got, ours := a.ref(); !ours || got != ref {
		return card.Account{}, unclear("the answer is about another reference")
	}
	if err := a.dollars(); err != nil {
		return card.Account{}, err
	}
	load, err := cents(a.Metadata[keyLoad])
	if err != nil {
		return card.Account{}, unclear("the card's metadata do not say what it was opened with")
	}
	return card.Account{
		ID: a.ID, Ref: ref, State: a.state(), Last4: string(a.Last4), Loaded: load, Buyer: a.Metadata[keyBuyer],
	}, nil
}

func (a *cardAnswer) state() card.AccountState {
	switch stripego.IssuingCardStatus(a.Status) {
	case stripego.IssuingCardStatusActive:
		return card.AccountActive
	case stripego.IssuingCardStatusInactive:
		return card.AccountFrozen
	case stripego.IssuingCardStatusCanceled:
		return card.AccountClosed
	default:
		return card.AccountPending
	}
}

// refused is the refusal of what a card's state does not allow.
func (a *cardAnswer) refused() error {
	return &fulfilment.Refusal{Code: card.RefusedState, Message: "the card is " + string(a.Status)}
}

// records is how many keys the metadata have next to that of a frozen card.
func (a *cardAnswer) records() int {
	if _, frozen := a.Metadata[keyFrozen]; frozen {
		return len(a.Metadata) - 1
	}
	return len(a.Metadata)
}

// loads are the references of the card's loads, in a fixed order.
func (a *cardAnswer) loads() (all []fulfilment.Ref) {
	for _, key := range slices.Sorted(maps.Keys(a.Metadata)) {
		if id, err := uuid.Parse(key); err == nil && id.String() == key {
			all = append(all, fulfilment.Ref(id))
		}
	}
	return all
}

// moved is the load under a reference. fulfilment.ErrNoRef when the card has none such.
func (a *cardAnswer) moved(ref fulfilment.Ref) (card.MovementRecord, error) {
	record, known := a.Metadata[ref.String()]
	if !known {
		return card.MovementRecord{}, fulfilment.ErrNoRef
	}
	record, taken := strings.CutPrefix(record, withdrawn)
	left, right, ok := strings.Cut(record, ":")
	amount, err := cents(left)
	target, err2 := cents(right)
	if !ok || err != nil || err2 != nil || amount == 0 || (!taken && target < amount) {
		return card.MovementRecord{}, unclear("the record of the load is not one of ours")
	}
	m := card.MovementRecord{
		Ref: ref, Account: a.ID, Direction: card.Load, Amount: amount, Target: target, State: card.MoveSucceeded,
	}
	if taken {
		m.Direction = card.Withdrawal
	}
	if a.state() == card.AccountPending {
		m.State = card.MovePending // nobody knows whether anything can be spent with it
	}
	return m, nil
}

// withdrawn begins the record of a withdrawal.
const withdrawn = "-"

// recordOf is what a card's metadata say of a movement.
func recordOf(m card.Movement) string {
	direction := ""
	if m.Direction == card.Withdrawal {
		direction = withdrawn
	}
	return direction + strconv.FormatInt(int64(m.Amount), 10) + ":" + strconv.FormatInt(int64(m.Target), 10)
}

// cents reads an amount as recordOf writes it.
func cents(text string) (money.Cents, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != text {
		return 0, unclear("an amount is not a number of cents")
	}
	return money.Cents(n), nil
}

type transactionAnswer struct {
	ID       string      `json:"id"`
	Object   string      `json:"object"`
	Created  forms.Int   `json:"created"`
	Currency forms.Lower `json:"currency"`
	Card     *nameOf     `json:"card"`
	// Amount is below zero for what was spent.
	Amount *forms.Int  `json:"amount"`
	Type   forms.Lower `json:"type"`
	// Authorization is what it was authorized by; nil when nobody asked before.
	Authorization *nameOf         `json:"authorization"`
	Merchant      *merchantAnswer `json:"merchant_data"`
}

func (a *transactionAnswer) id() string     { return a.ID }
func (a *transactionAnswer) created() int64 { return int64(a.Created) }

func (a *transactionAnswer) whole() error {
	if a.Object != "issuing.transaction" || !isID(a.ID) || a.Created <= 0 || a.Currency == "" ||
		a.Card == nil || !isID(string(*a.Card)) || a.Amount == nil {
		return unclear("a transaction in the answer does not match the documentation")
	}
	return nil
}

type authorizationAnswer struct {
	ID       string      `json:"id"`
	Object   string      `json:"object"`
	Created  forms.Int   `json:"created"`
	Currency forms.Lower `json:"currency"`
	Card     *shownCard  `json:"card"`
	Amount   *forms.Int  `json:"amount"`
	Approved *forms.Flag `json:"approved"`
	Status   forms.Lower `json:"status"`
	// History is what merchants asked for, and why it was approved or not; Captures what has come of it.
	History []struct {
		Amount   *forms.Int  `json:"amount"`
		Approved *forms.Flag `json:"approved"`
		Reason   forms.Lower `json:"reason"`
	} `json:"request_history"`
	Captures []struct {
		Amount   *forms.Int  `json:"amount"`
		Currency forms.Lower `json:"currency"`
		Type     forms.Lower `json:"type"`
	} `json:"transactions"`
	Merchant *merchantAnswer `json:"merchant_data"`
}

type merchantAnswer struct {
	Name string `json:"name"`
	// Category is the vendor's name of it, and Code its four digits.
	Category string      `json:"category"`
	Code     forms.Text  `json:"category_code"`
	Country  forms.Upper `json:"country"`
}

func (a *authorizationAnswer) id() string     { return a.ID }
func (a *authorizationAnswer) created() int64 { return int64(a.Created) }

func (a *authorizationAnswer) whole() error {
	if a.Object != "issuing.authorization" || !isID(a.ID) || a.Created <= 0 || a.Currency == "" ||
		a.Card == nil || !isID(string(a.Card.id)) || a.Amount == nil || a.Approved == nil || a.Status == "" {
		return unclear("an authorization in the answer does not match the documentation")
	}
	return nil
}

// held is what it keeps of the card's limit. A state that is not known here keeps it.
func (a *authorizationAnswer) held() money.Cents {
	switch stripego.IssuingAuthorizationStatus(a.Status) {
	case stripego.IssuingAuthorizationStatusClosed, stripego.IssuingAuthorizationStatusExpired,
		stripego.IssuingAuthorizationStatusReversed:
		return 0
	}
	if !bool(*a.Approved) {
		return 0
	}
	return money.Cents(max(0, *a.Amount)) // below zero, it is what a merchant is to give back
}

// nameOf is the ID of an object that is shown by its ID or whole.
type nameOf string

// UnmarshalJSON implements json.Unmarshaler.
func (n *nameOf) UnmarshalJSON(data []byte) error {
	if data[0] != '{' {
		return json.Unmarshal(data, (*string)(n))
	}
	var shown struct {
		ID string `json:"id"`
	}
	err := json.Unmarshal(data, &shown)
	*n = nameOf(shown.ID)
	return err
}

// shownCard is a card, with its spending controls where it is shown whole.
type shownCard struct {
	id       nameOf
	controls *controlsAnswer
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *shownCard) UnmarshalJSON(data []byte) error {
	var whole struct {
		Controls *controlsAnswer `json:"spending_controls"`
	}
	if len(data) > 0 && data[0] == '{' {
		if err := json.Unmarshal(data, &whole); err != nil {
			return err
		}
	}
	c.controls = whole.Controls
	return c.id.UnmarshalJSON(data)
}

// listed is an object of a list, which is in order of its creation.
type listed interface {
	id() string
	created() int64
	whole() error
}

type listAnswer[T listed] struct {
	stripego.APIResource
	Object string      `json:"object"`
	Data   *[]T        `json:"data"`
	More   *forms.Flag `json:"has_more"`
}

func (a *listAnswer[T]) whole() error {
	if a.Object != "list" || a.Data == nil || a.More == nil || (bool(*a.More) && len(*a.Data) == 0) {
		return unclear("the list in the answer does not match the documentation")
	}
	for n, one := range *a.Data {
		if err := one.whole(); err != nil {
			return err
		}
		if n > 0 && one.created() > (*a.Data)[n-1].created() {
			return unclear("the list in the answer is not in its order")
		}
	}
	return nil
}

type balanceAnswer struct {
	stripego.APIResource
	Object  string `json:"object"`
	Issuing *struct {
		Available *[]struct {
			Amount   *forms.Int  `json:"amount"`
			Currency forms.Lower `json:"currency"`
		} `json:"available"`
	} `json:"issuing"`
}

func (a *balanceAnswer) whole() error {
	if a.Object != "balance" || a.Issuing == nil || a.Issuing.Available == nil {
		return unclear("the answer has no balance for cards")
	}
	for _, one := range *a.Issuing.Available {
		if one.Amount == nil || one.Currency == "" {
			return unclear("the balance in the answer does not match the documentation")
		}
	}
	return nil
}

// dollars is what is there for cards.
func (a *balanceAnswer) dollars() (money.Cents, error) {
	found, sum := false, money.Cents(0)
	for _, one := range *a.Issuing.Available {
		if one.Currency != currencyUSD {
			continue
		}
		if found {
			return 0, unclear("the answer has two balances for cards in dollars")
		}
		found, sum = true, money.Cents(*one.Amount)
	}
	if !found {
		return 0, unclear("the answer has no balance for cards in dollars")
	}
	return sum, nil
}

type holderAnswer struct {
	stripego.APIResource
	ID      string      `json:"id"`
	Object  string      `json:"object"`
	Status  forms.Lower `json:"status"`
	Name    string      `json:"name"`
	Email   string      `json:"email"`
	Phone   string      `json:"phone_number"`
	Billing *struct {
		Address *struct {
			Line1      string      `json:"line1"`
			Line2      string      `json:"line2"`
			City       string      `json:"city"`
			State      string      `json:"state"`
			PostalCode string      `json:"postal_code"`
			Country    forms.Upper `json:"country"`
		} `json:"address"`
	} `json:"billing"`
	Requirements *struct {
		DisabledReason *string `json:"disabled_reason"`
	} `json:"requirements"`
}

func (a *holderAnswer) whole() error {
	if a.Object != "issuing.cardholder" || !isID(a.ID) || a.Status == "" {
		return unclear("the cardholder in the answer does not match the documentation")
	}
	return nil
}

// usable is nil while cards can be opened in the holder's name.
func (a *holderAnswer) usable() error {
	if string(a.Status) != string(stripego.IssuingCardholderStatusActive) {
		return unclear("the cardholder is " + quote(string(a.Status)))
	}
	if a.Requirements != nil && a.Requirements.DisabledReason != nil && *a.Requirements.DisabledReason != "" {
		return unclear("the cardholder is disabled: " + quote(*a.Requirements.DisabledReason))
	}
	return nil
}

// isID refuses an ID of the vendor's that would change a path.
func isID(s string) bool {
	return s != "" && len(s) <= 255 &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

func isDigits(s string, least, most int) bool {
	return len(s) >= least && len(s) <= most && strings.Trim(s, "0123456789") == ""
}
