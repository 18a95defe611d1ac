// Package topup sells top-ups of cards: the payment, less the load fee, is loaded onto the payer's card.
package topup

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// Kind names orders for top-ups.
const Kind order.Kind = "card_topup"

// The economics of a top-up (spec section 2.3).
const (
	MinOrder     money.Cents = 2500
	DefaultOrder money.Cents = 2500
	MaxOrder     money.Cents = 25_000
	// LoadFeeBPS is the fee in hundredths of a percent.
	LoadFeeBPS = 200
)

// Request asks for a top-up. Its JSON is part of the order's fingerprint.
type Request struct {
	Gross money.Cents `json:"amountUsdCents"`
}

// Split is the item of a top-up order: the payment, the fee, and the card's credit. The card is chosen when the payer
// is known, and does not change.
type Split struct {
	Gross  money.Cents `json:"grossUsdCents"`
	Fee    money.Cents `json:"loadFeeUsdCents"`
	Credit money.Cents `json:"cardCreditUsdCents"`
	Card   uuid.UUID   `json:"card"`
}

// SplitOf splits a gross payment.
func SplitOf(gross money.Cents) Split {
	fee := gross.BasisPoints(LoadFeeBPS)
	return Split{Gross: gross, Fee: fee, Credit: gross - fee}
}

// ItemOf decodes the item of a top-up order.
func ItemOf(o order.Order) (Split, error) {
	var t Split
	if err := json.Unmarshal(o.Item, &t); err != nil {
		return Split{}, fmt.Errorf("read the top-up: %w", err)
	}
	return t, nil
}

// Postings are the ledger postings of a delivered top-up: the load, and the fee if there was one.
func (t Split) Postings(id order.ID) []ledger.Posting {
	loaded := ledger.Loaded(string(id), t.Card.String(), t.Credit)
	if t.Fee == 0 {
		return []ledger.Posting{loaded}
	}
	return []ledger.Posting{loaded, ledger.LoadFee(string(id), t.Fee)}
}

// Cards are the cards to top up.
type Cards interface {
	// Fundable is an owner's card that can be topped up, and its issuer's name: ACTIVE by a report of the issuer at most
	// within ago, of an owner without an outstanding fee. A fault says why there is none.
	Fundable(ctx context.Context, owner x402.Address, within time.Duration) (card uuid.UUID, provider string, err error)
	// Load loads an amount onto an owner's card under a reference, idempotently, and returns its progress.
	Load(ctx context.Context, l *job.Lease, o order.Order, load order.Call) (order.Progress, error)
	// Loaded reports whether the issuer has a load of an owner's card under a reference.
	Loaded(ctx context.Context, owner x402.Address, card uuid.UUID, ref fulfilment.Ref) (bool, error)
	Float
}

// Float is the money that cards are loaded from.
type Float interface {
	// Covers fails while no issuer has an unreserved float of an amount.
	Covers(ctx context.Context, amount money.Cents) error
	// CoversAt fails while the unreserved float of one issuer is smaller than an amount.
	CoversAt(ctx context.Context, provider string, amount money.Cents) error
	// Float is the reservation of an amount of an issuer's float.
	Float(ctx context.Context, provider string, amount money.Cents) (order.Reservation, error)
	// Issuers are the names of all issuers.
	Issuers() []string
	// Needs are the checks on which a load depends, and Shown those that the readiness route shows.
	Needs() []availability.Check
	Shown() []availability.Check
}

// Topups sells top-ups. It is the second product over the card issuer.
type Topups struct {
	Cards Cards
	// Paused closes the sale. Switches are the operators', and Payments are what every payment depends on; see
	// availability.Product.
	Paused   bool
	Switches *availability.Switches
	Payments *availability.Payments
	// Books closes sales while the books differ. Nil is always open.
	Books *availability.Books
}

// How old the issuer's last report of a card may be. Before a payment it has to be current.
const (
	atOnce = 0
	// beforeTerms bounds the calls that others can cause who know an order's address.
	beforeTerms = 2 * time.Second
)

// Kind implements checkout.Product.
func (t Topups) Kind() order.Kind { return Kind }

// Path implements checkout.Product.
func (t Topups) Path() string { return "/api/card/topup" }

// Jobs are none: the delivery makes the load.
func (t Topups) Jobs() []job.Work { return nil }

// Availability implements checkout.Product: what cards need, and books that agree.
func (t Topups) Availability() availability.Product {
	return availability.Product{
		Kind: Kind, Title: "Card top-ups", Refusal: fault.TopupPaused, Detail: "No top-ups are sold at the moment.",
		Closed: t.Paused, Switches: t.Switches, Payments: t.Payments, Providers: t.Cards.Issuers(),
		Needs: append([]availability.Check{{Name: "books", Run: t.Books.Open}}, t.Cards.Needs()...),
		Shown: t.Cards.Shown(),
		Least: []availability.Check{{Name: "float", Run: func(ctx context.Context) error {
			return t.Cards.Covers(ctx, SplitOf(MinOrder).Credit)
		}}},
	}
}

// Offer implements checkout.Product: the requested amount, while the float covers it. A quoted top-up keeps its split.
func (t Topups) Offer(ctx context.Context, r order.OfferRequest) (order.Offer, error) {
	split, err := agreed(r.Body, r.Quoted)
	if err != nil {
		return order.Offer{}, err
	}
	if err := t.Cards.Covers(ctx, split.Credit); err != nil {
		return order.Offer{}, err
	}
	return order.Offer{
		Price: split.Gross, Item: marshal(split), Description: split.describe(),
	}, nil
}

// Describe implements checkout.Describer.
func (t Topups) Describe(_ context.Context, o order.Order) (string, error) {
	split, err := ItemOf(o)
	return split.describe(), err
}

func (s Split) describe() string {
	return fmt.Sprintf("Card top-up: %s USD credit after the load fee of %s", s.Credit, s.Fee)
}

// agreed is the quoted split, else that of the requested amount.
func agreed(request json.RawMessage, quoted *order.Offer) (Split, error) {
	if quoted != nil {
		var promised Split
		if err := json.Unmarshal(quoted.Item, &promised); err != nil {
			return Split{}, fmt.Errorf("read the offer: %w", err)
		}
		return promised, nil
	}
	var r Request
	if len(request) > 0 {
		if err := json.Unmarshal(request, &r); err != nil {
			return Split{}, fmt.Errorf("read the request: %w", err)
		}
	}
	if r.Gross == 0 {
		r.Gross = DefaultOrder
	}
	return SplitOf(r.Gross), nil
}

// Reserve implements checkout.Product: the payer's active card, books that agree about the payer, and the credit from
// the float of the card's issuer.
func (t Topups) Reserve(ctx context.Context, owner x402.Address, o order.Offer) (order.Claim, error) {
	on, provider, err := t.Cards.Fundable(ctx, owner, atOnce)
	if err != nil {
		return order.Claim{}, err
	}
	if err := t.openTo(ctx, owner, provider); err != nil {
		return order.Claim{}, err
	}
	var split Split
	if err := json.Unmarshal(o.Item, &split); err != nil {
		return order.Claim{}, fmt.Errorf("read the offer: %w", err)
	}
	if split.Card != uuid.Nil && split.Card != on {
		return order.Claim{}, fault.New(fault.TermsChanged,
			"The card that this order is for is not the wallet's card any more.")
	}
	split.Card = on
	float, err := t.Cards.Float(ctx, provider, split.Credit)
	if err != nil {
		return order.Claim{}, err
	}
	return order.Claim{Item: marshal(split), Reservations: []order.Reservation{float}, Provider: provider}, nil
}

// Invite implements checkout.Inviter: no terms are sent for a top-up that would be refused, by the card's own issuer or
// because of the books.
func (t Topups) Invite(ctx context.Context, o order.Order) error {
	split, err := ItemOf(o)
	if err != nil {
		return err
	}
	_, provider, err := t.Cards.Fundable(ctx, o.Owner, beforeTerms)
	if err != nil {
		return err
	}
	if err := t.openTo(ctx, o.Owner, provider); err != nil {
		return err
	}
	return t.Cards.CoversAt(ctx, provider, split.Credit)
}

// openTo fails with a fault while the books of a wallet, or of the issuer of its card, close the sale.
func (t Topups) openTo(ctx context.Context, owner x402.Address, provider string) error {
	if err := t.Books.OpenTo(ctx, owner); err != nil {
		return err
	}
	return t.Books.OpenFor(ctx, provider)
}

// Deliver implements settlement.Product: it loads the credit once.
func (t Topups) Deliver(ctx context.Context, l *job.Lease, o order.Order) (order.Progress, error) {
	split, err := ItemOf(o)
	if err != nil {
		return order.Progress{}, err
	}
	return t.Cards.Load(ctx, l, o, order.Call{
		Order: o.ID, Reference: uuid.UUID(LoadRef(o.Name(), o.Delivery)), Description: "load",
		Step: loads.Marker(o.Delivery), Amount: split.Credit, Card: split.Card,
	})
}

// Postings implements settlement.Product.
func (t Topups) Postings(o order.Order) ([]ledger.Posting, error) {
	split, err := ItemOf(o)
	if err != nil {
		return nil, err
	}
	return split.Postings(o.ID), nil
}

// Found implements checkout.Finder: the issuer has a load under the order's reference.
func (t Topups) Found(ctx context.Context, o order.Order) (bool, error) {
	split, err := ItemOf(o)
	if err != nil {
		return false, err
	}
	return t.Cards.Loaded(ctx, o.Owner, split.Card, LoadRef(o.Name(), o.Delivery))
}

// References are the issuer's references of an order's load, one for each attempt at its delivery.
func (t Topups) References(o order.Order) []order.Reference { return loads.References(o) }

func marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("topup: marshal %T: %v", v, err))
	}
	return b
}
