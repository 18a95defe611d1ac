package card

import (
	"context"
	"errors"
	"fmt"
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

// Issuer opens cards and loads them or withdraws from them. Open and Move are calls as package fulfilment makes them:
// they have our reference, and a refusal is a *fulfilment.Refusal.
type Issuer interface {
	// Open asks for a card with a balance. The card becomes active later.
	Open(ctx context.Context, o Opening) (Account, error)
	// Account reads a card back by the reference of its opening. fulfilment.ErrNoRef when there is none.
	Account(ctx context.Context, ref fulfilment.Ref) (Account, error)
	// Move asks for a load or a withdrawal. It may complete later.
	Move(ctx context.Context, m Movement) (MovementRecord, error)
	// Moved reads a load or withdrawal of a card back by its reference. fulfilment.ErrNoRef when there is none.
	Moved(ctx context.Context, account string, ref fulfilment.Ref) (MovementRecord, error)
}

// CardLister lists the cards at an issuer, which shows those that it locked or terminated without a call for each.
type CardLister interface {
	// Accounts is a page of the cards after a cursor, oldest first; an empty cursor starts at the beginning. next is
	// the cursor of the next page, or empty after the last.
	Accounts(ctx context.Context, after string) (page []Account, next string, err error)
}

// Vault reads one card. Nothing of the credentials is ever stored, logged or cached.
type Vault interface {
	// Balance reads the current balance.
	Balance(ctx context.Context, account string) (Balance, error)
	// Credentials reads the number and the security code.
	Credentials(ctx context.Context, account string) (Credentials, error)
}

// Stock reads the issuer's inventory.
type Stock interface {
	Stock(ctx context.Context) (Inventory, error)
}

// Capabilities are what an issuer can do, and how. An issuer declares them; the service follows them.
type Capabilities struct {
	// Funding is how cards get what can be spent on them.
	Funding Funding
	// BINs: the stock lists the ranges of card numbers, and cards are sold while one of them is open.
	BINs bool
	// Reveal is how the number and the code reach their owner.
	Reveal Reveal
	// Holder is whose name cards are issued to.
	Holder Holder
	// Freeze: owners may freeze a card and unfreeze it. Transactions: they may read what it was used for.
	Freeze, Transactions bool
	// Limits are those that owners may set to a card.
	Limits LimitKinds
	// Details are those that owners may read of a card.
	Details DetailKinds
	// Close: operators may close a card and take what is left on it. It needs Freeze, which locks the card first.
	Close bool
}

// Funding is how an issuer funds a card.
type Funding string

// The ways to fund a card.
const (
	// Purse: a card has money of its own, which moves between it and our float. Movements are amounts.
	Purse Funding = "purse"
	// Limit: a card has a limit to all that is ever spent on it. No money moves: movements are the limit as it is to be.
	// Nothing is withdrawn but the remainder of a card that is closed. Float is what the issuer holds for us and no card
	// is allowed to spend.
	Limit Funding = "limit"
)

// Reveal is how an issuer shows the number and the code of a card.
type Reveal string

// The ways to reveal a card.
const (
	// RevealInline: Vault.Credentials returns them.
	RevealInline Reveal = "inline"
	// RevealSealed: the issuer seals them to a key of ours, and Vault.Credentials returns them opened.
	RevealSealed Reveal = "sealed"
	// RevealEmbed: the issuer shows them in frames on a page of ours, see Embed, and Vault.Credentials returns
	// ErrEmbedOnly.
	RevealEmbed Reveal = "embed"
)

// Holder is whose name an issuer issues cards to.
type Holder string

// The holders.
const (
	// HolderProgramme: all cards are the operator's, who is named in the configuration.
	HolderProgramme Holder = "programme"
	// HolderOwner: each card is issued to its owner, whose identity the issuer asks for.
	HolderOwner Holder = "owner"
)

// ErrEmbedOnly says that an issuer never tells the number and the code: it shows them on a page.
var ErrEmbedOnly = errors.New("the issuer shows card numbers on a page only")

// Check refuses what the service cannot sell cards of.
func (c Capabilities) Check() error {
	switch {
	case c.Funding != Purse && c.Funding != Limit:
		return fmt.Errorf("the card issuer declares no way to fund a card that is known here: %q", c.Funding)
	case c.Reveal != RevealInline && c.Reveal != RevealSealed && c.Reveal != RevealEmbed:
		return fmt.Errorf("the card issuer declares no way to show a card number that is known here: %q", c.Reveal)
	case c.Holder == HolderOwner:
		return errors.New(
			"the card issuer asks for the identity of each card's owner, which this service does not collect: " +
				"use a programme whose holder is the operator")
	case c.Holder != HolderProgramme:
		return fmt.Errorf("the card issuer declares no holder of cards that is known here: %q", c.Holder)
	case c.Close && !c.Freeze:
		return errors.New("the card issuer closes cards and cannot lock them: what is left on one could be spent meanwhile")
	}
	return nil
}

// Opening asks for a card.
type Opening struct {
	Ref fulfilment.Ref
	// Load is the amount that the card is loaded with from our float.
	Load money.Cents
	// Limit makes Load a spending limit; only where Capabilities.Funding is Limit.
	Limit bool
	// Buyer is a note that identifies the buyer, see order.BuyerOf. An issuer that stores no notes ignores it.
	Buyer string
}

// Account is a card as its issuer sees it.
type Account struct {
	// ID is the issuer's ID of the card; it never leaves the service.
	ID     string
	Ref    fulfilment.Ref
	State  AccountState
	Last4  string
	Loaded money.Cents
	// Buyer is the note of the opening; empty when the issuer stores none.
	Buyer string
	// Refusal is set when the state is AccountRejected.
	Refusal *fulfilment.Refusal
}

// AccountState is the state of a card at its issuer.
type AccountState string

// The account states. A state an adapter does not recognise is AccountPending: unknown, not failed.
const (
	AccountPending  AccountState = "pending"
	AccountActive   AccountState = "active"
	AccountFrozen   AccountState = "frozen"
	AccountClosed   AccountState = "closed"
	AccountRejected AccountState = "rejected"
)

// Status is the card's status in this state; ok is false while it is not known.
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

// Direction is the direction of a movement.
type Direction string

// The directions.
const (
	Load       Direction = "load"
	Withdrawal Direction = "withdrawal"
)

// Movement asks for a transfer between our float and a card.
type Movement struct {
	Ref       fulfilment.Ref
	Account   string
	Direction Direction
	Amount    money.Cents
	// Target is what all loads have put on the card by our books, this one included. An issuer with limits sets the card's
	// limit to it, whatever the limit is: what is computed from the limit at the issuer goes wrong when two movements
	// meet. It is the same however often the movement is sent. For a withdrawal it is what is left of the limit, and the
	// issuer refuses one that does not take Amount from the limit that the card has.
	Target money.Cents
}

// MovementRecord is a movement as the issuer sees it.
type MovementRecord struct {
	Ref       fulfilment.Ref
	Account   string
	Direction Direction
	Amount    money.Cents
	// Target is the limit that it set, at an issuer with limits; zero at another.
	Target money.Cents
	State  MovementState
	// Refusal is set when the state is MoveFailed.
	Refusal *fulfilment.Refusal
	// Provider is the issuer's name in a Statement. An issuer does not set it.
	Provider string
}

// MovementState is the state of a movement.
type MovementState string

// The movement states. An unrecognised one is MovePending.
const (
	MovePending   MovementState = "pending"
	MoveSucceeded MovementState = "succeeded"
	MoveFailed    MovementState = "failed"
)

// Balance is the balance of a card at a time.
type Balance struct {
	Available money.Cents
	AsOf      time.Time
}

// Credentials are the card data that a merchant asks for.
type Credentials struct {
	Number, SecurityCode    secret.Text
	ExpiryMonth, ExpiryYear int
}

// Inventory is our float and the card ranges at the issuer.
type Inventory struct {
	// Float is the money cards are loaded from: what is neither on a card nor allowed to be spent with one.
	Float money.Cents
	// BINs are the card ranges, each open or not; none at an issuer that does not list them.
	BINs []BIN
	// AsOf is when it was read. What was done after that may not show in it.
	AsOf time.Time
	// Reserved is how much of the float live orders have reserved. The issuer does not set it.
	Reserved money.Cents
	// Unpaid is how much of Reserved is for payments that are not settled, while the rest is too little for some order.
	Unpaid money.Cents
}

// BIN is a range of card numbers.
type BIN struct {
	Prefix string
	Open   bool
}
