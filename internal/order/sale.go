package order

import (
	"cmp"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
)

// Sale is an order as books are compared with it.
type Sale struct {
	ID     ID
	Kind   Kind
	Status Status
	Owner  x402.Address
	Price  money.Cents
	// Delivery counts the attempts at the delivery; the provider refused the earlier ones.
	Delivery int
	// ByHand says that an operator delivered it past the provider's references.
	ByHand bool
	// Name is what its references at the provider are derived from; empty for its id.
	Name string
}

// Named is what its references at the provider are derived from.
func (s Sale) Named() string { return cmp.Or(s.Name, string(s.ID)) }

// Open says that its delivery may be under way.
func (s Sale) Open() bool { return s.Status.Open() }

// Uncertain reports that either outcome at the provider is consistent with our records.
func (s Sale) Uncertain() bool { return s.Open() || s.ByHand }

// WasClaimed reports that the order was claimed; others have no ledger entries.
func (s Sale) WasClaimed() bool { return s.Status != PaymentRequired && s.Status != Expired }

// Standing is what our records say of a call.
type Standing int

// The standings.
const (
	// NotMade: it did not happen, or that is unknown, and no job is working on it.
	NotMade Standing = iota
	// InFlight: it may happen at any moment, and be recorded afterwards.
	InFlight
	// Made: it happened.
	Made
)

// Call is one thing that a provider was, or may have been, asked for.
type Call struct {
	Order     ID
	Reference uuid.UUID
	// Description is shown to operators.
	Description string
	Standing    Standing
	Amount      money.Cents
	// Card is what it is about, and Account the provider's name for that.
	Card    uuid.UUID
	Account string
	// Provider is whom it was asked of, by the name in the settings.
	Provider string
	// Step is its marker in a delivery; empty where it is only compared.
	Step string
	// Direction is which way money moved; empty for what opened the account.
	Direction string
	// Ended says that we have ended what the provider made.
	Ended bool
}

// Goods are something that a provider made for us.
type Goods struct {
	Kind      Kind
	Reference uuid.UUID
	// Owner is whose they are, if that is Known. Note is the note that the provider stores, see BuyerOf.
	Owner x402.Address
	Known bool
	Note  string
	// Description is shown to operators.
	Description string
	// Card is what an amount was put on, for goods that are credit.
	Card   uuid.UUID
	Amount money.Cents
	// Closed says that the provider has closed them.
	Closed bool
	// Costs says how well an amount fits: 0 not at all, 2 exactly.
	Costs func(money.USDC) int
	// Item is the item of the order recreated for these goods, and Step the marker of the call that made them.
	Item func(paid money.USDC) json.RawMessage
	Step string
	// Later says that other goods must be recovered first.
	Later bool
	// Single says that an owner has one of them at most, and Taken whether a wallet has one in our books.
	Single bool
	Taken  func(owner x402.Address) bool
}
