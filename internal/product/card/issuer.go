package card

import (
	"context"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/secret"
)

// The neutral codes of an issuer's refusals, next to those of every provider.
const (
	RefusedBIN    = "bin_unavailable"
	RefusedHolder = "holder_rejected"
	RefusedFunds  = "card_funds_insufficient"
	RefusedState  = "card_state"
)

// Issuer makes cards and moves money onto and off them. Opening and moving are calls as fulfilment makes them: with
// our reference, and refused with a *fulfilment.Refusal or not at all.
type Issuer interface {
	// Open asks for a card with money on it. The card becomes active later.
	Open(ctx context.Context, o Opening) (Account, error)
	// Account reads a card back by the reference of its opening. fulfilment.ErrNoRef when there is none.
	Account(ctx context.Context, ref fulfilment.Ref) (Account, error)
	// Move asks for a load or a withdrawal. It may complete later.
	Move(ctx context.Context, m Movement) (Moved, error)
	// Moved reads a load or withdrawal back by its reference. fulfilment.ErrNoRef when there is none.
	Moved(ctx context.Context, ref fulfilment.Ref) (Moved, error)
}

// Roll lists the cards at an issuer, so that what it locked or terminated is noticed without asking for each.
type Roll interface {
	// Accounts is a page of the cards, the oldest first, behind a mark; the empty mark begins. next is the mark
	// of the page after it, empty behind the last.
	Accounts(ctx context.Context, after string) (page []Account, next string, err error)
}

// Vault reads one card. Nothing it returns is ever stored, logged or cached.
type Vault interface {
	// Balance reads what is on the card now.
	Balance(ctx context.Context, account string) (Balance, error)
	// Credentials reads the number and the code.
	Credentials(ctx context.Context, account string) (Credentials, error)
}

// Stock tells what the issuer can issue from.
type Stock interface {
	Stock(ctx context.Context) (Inventory, error)
}

// Capabilities are what an issuer can do beyond what all of them can.
type Capabilities struct {
	// SpendLimit: a card can be opened with a limit to what is spent on it, instead of with money. Loads raise it.
	SpendLimit bool
}

// Opening asks for a card.
type Opening struct {
	Ref fulfilment.Ref
	// Load is what is put on the card from our float.
	Load money.Cents
	// Limit makes Load a spending limit; only for an issuer that is capable of it.
	Limit bool
	// Buyer is a note of whom the card is for, see order.BuyerOf. An issuer that keeps none leaves it out.
	Buyer string
}

// Account is a card as its issuer sees it.
type Account struct {
	// ID is the issuer's own name for the card; it never leaves the service.
	ID     string
	Ref    fulfilment.Ref
	State  AccountState
	Last4  string
	Loaded money.Cents
	// Buyer is the note of the opening; empty when the issuer keeps none.
	Buyer string
	// Refusal is set when the state is AccountRejected.
	Refusal *fulfilment.Refusal
}

// AccountState is how a card stands at its issuer.
type AccountState string

// The account states. A state an adapter does not recognise is AccountPending: unknown, not failed.
const (
	AccountPending  AccountState = "pending"
	AccountActive   AccountState = "active"
	AccountFrozen   AccountState = "frozen"
	AccountClosed   AccountState = "closed"
	AccountRejected AccountState = "rejected"
)

// Status is what a card in this state is to its owner; ok is false while that is not known.
func (s AccountState) Status() (status Status, ok bool) {
	switch s {
	case AccountActive:
		return Active, true
	case AccountFrozen:
		return Frozen, true
	case AccountClosed:
		return Closed, true
	case AccountPending, AccountRejected:
	}
	return "", false
}

// Direction is where a movement takes money.
type Direction string

// The directions.
const (
	Load       Direction = "load"
	Withdrawal Direction = "withdrawal"
)

// Movement asks to move money between our float and a card.
type Movement struct {
	Ref       fulfilment.Ref
	Account   string
	Direction Direction
	Amount    money.Cents
}

// Moved is a movement as the issuer sees it.
type Moved struct {
	Ref       fulfilment.Ref
	Account   string
	Direction Direction
	Amount    money.Cents
	State     MovedState
	// Refusal is set when the state is MoveFailed.
	Refusal *fulfilment.Refusal
}

// MovedState is how a movement stands.
type MovedState string

// The movement states. An unrecognised one is MovePending.
const (
	MovePending   MovedState = "pending"
	MoveSucceeded MovedState = "succeeded"
	MoveFailed    MovedState = "failed"
)

// Balance is what is on a card.
type Balance struct {
	Available money.Cents
	AsOf      time.Time
}

// Credentials are what a merchant asks for.
type Credentials struct {
	Number, SecurityCode    secret.Text
	ExpiryMonth, ExpiryYear int
}

// Inventory is what the issuer can issue from.
type Inventory struct {
	// Float is the money cards are loaded from.
	Float money.Cents
	// BINs are the card ranges, each open or not.
	BINs []BIN
	AsOf time.Time
	// Reserved is what of the float is promised to live orders. The issuer leaves it alone.
	Reserved money.Cents
}

// BIN is a range of card numbers.
type BIN struct {
	Prefix string
	Open   bool
}
