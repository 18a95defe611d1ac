package card

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/roamcard/roamcard/internal/testing/faultpoint"
	"github.com/roamcard/roamcard/internal/x402"
)

// TopupRequest asks for a top-up. Its JSON is part of the order's fingerprint.
type TopupRequest struct {
	Gross money.Cents `json:"amountUsdCents"`
}

// Topup is what a top-up order remembers: what is paid, what is kept of it, what the card gets. The
// card is picked when the payer is known, and stays.
type Topup struct {
	Gross  money.Cents `json:"grossUsdCents"`
	Fee    money.Cents `json:"loadFeeUsdCents"`
	Credit money.Cents `json:"cardCreditUsdCents"`
	Card   uuid.UUID   `json:"card"`
}

// TopupOf splits a gross payment.
func TopupOf(gross money.Cents) Topup {
	fee := gross.BasisPoints(LoadFeeBPS)
	return Topup{Gross: gross, Fee: fee, Credit: gross - fee}
}

// TopupItem reads what a top-up order remembers.
func TopupItem(o order.Order) (Topup, error) {
	var t Topup
	if err := json.Unmarshal(o.Item, &t); err != nil {
		return Topup{}, fmt.Errorf("read the top-up: %w", err)
	}
	return t, nil
}

// Postings are what the ledger gets when the top-up is on its card: the load, and the fee unless there was none.
func (t Topup) Postings(id order.ID) []ledger.Posting {
	loaded := ledger.Loaded(string(id), t.Card.String(), t.Credit)
	if t.Fee == 0 {
		return []ledger.Posting{loaded}
	}
	return []ledger.Posting{loaded, ledger.LoadFee(string(id), t.Fee)}
}

// Topups sells credit for cards that were sold before. It is the second product over the same issuer.
type Topups struct {
	*Cards
	// TopupPaused closes the sale.
	TopupPaused bool
	// Books is the gate of the treasury's books. Nil is always open.
	Books *availability.Books
}

// Kind implements checkout.Product.
func (t Topups) Kind() order.Kind { return order.CardTopup }

// Availability implements checkout.Product: what cards need, and books that agree.
func (t Topups) Availability() availability.Product {
	return availability.Product{
		Kind: order.CardTopup, Closed: t.TopupPaused, Switches: t.Switches, Payments: t.Payments,
		Needs: append([]availability.Check{{Name: "books", Run: t.Books.Open}}, t.needs()...), Shown: t.shown(),
	}
}

// Offer implements checkout.Product: the amount asked for, while the float covers it. A promised top-up is
// honoured as it was split.
func (t Topups) Offer(ctx context.Context, r order.OfferRequest) (order.Offer, error) {
	split, err := splitOf(r.Body, r.Quoted)
	if err != nil {
		return order.Offer{}, err
	}
	if err := t.covers(ctx, split.Credit); err != nil {
		return order.Offer{}, err
	}
	return order.Offer{
		Price: split.Gross, Item: marshal(split),
		Description: fmt.Sprintf("Card top-up: %s USD credit after the load fee of %s", split.Credit, split.Fee),
	}, nil
}

// splitOf is the split that was promised, else that of the amount asked for.
func splitOf(request json.RawMessage, quoted *order.Offer) (Topup, error) {
	if quoted != nil {
		var promised Topup
		if err := json.Unmarshal(quoted.Item, &promised); err != nil {
			return Topup{}, fmt.Errorf("read the offer: %w", err)
		}
		return promised, nil
	}
	var r TopupRequest
	if len(request) > 0 {
		if err := json.Unmarshal(request, &r); err != nil {
			return Topup{}, fmt.Errorf("read the request: %w", err)
		}
	}
	if r.Gross == 0 {
		r.Gross = DefaultOrder
	}
	return TopupOf(r.Gross), nil
}

// Reserve implements checkout.Product: the payer's active card, books that agree about the payer, and the credit from the issuer's float.
func (t Topups) Reserve(ctx context.Context, owner x402.Address, o order.Offer) (order.Claim, error) {
	c, err := t.fundable(ctx, owner, atOnce)
	if err != nil {
		return order.Claim{}, err
	}
	if err := t.Books.OpenTo(ctx, owner); err != nil {
		return order.Claim{}, err
	}
	var split Topup
	if err := json.Unmarshal(o.Item, &split); err != nil {
		return order.Claim{}, fmt.Errorf("read the offer: %w", err)
	}
	if split.Card != uuid.Nil && split.Card != c.ID {
		return order.Claim{}, fault.New(fault.TermsChanged, "The card that this order is for is not the wallet's card any more.")
	}
	split.Card = c.ID
	hold, err := t.floatReservation(ctx, split.Credit)
	if err != nil {
		return order.Claim{}, err
	}
	return order.Claim{Item: marshal(split), Reservations: []order.Reservation{hold}}, nil
}

// Invite implements checkout.Inviter: nobody is asked to pay for a top-up that would not be taken.
func (t Topups) Invite(ctx context.Context, owner x402.Address) error {
	_, err := t.fundable(ctx, owner, beforeTerms)
	return err
}

// fundable is an owner's card that can be topped up: ACTIVE by its issuer's word, of an owner who owes nothing.
func (t Topups) fundable(ctx context.Context, owner x402.Address, within time.Duration) (Card, error) {
	c, err := t.live(ctx, owner, within)
	if errors.Is(err, ErrNotFound) || (err == nil && c.Status != Active) {
		return Card{}, fault.New(fault.ActiveCardMissing,
			"Only a wallet with an ACTIVE card can top it up. Buy a card first, or wait until it is ACTIVE.")
	}
	if err != nil {
		return Card{}, err
	}
	owed, err := t.Store.Owes(ctx, owner)
	if err != nil {
		return Card{}, fmt.Errorf("look for fees that are owed: %w", err)
	}
	if owed > 0 {
		return Card{}, fault.Newf(fault.FeeOutstanding, "The platform fee of %s USD could not be withdrawn from the wallet's "+
			"card. Top-ups are closed until an operator has decided about it.", owed)
	}
	return c, nil
}

// Deliver implements settlement.Product: one load of the credit, confirmed by the issuer's record of it and
// then by the balance.
func (t Topups) Deliver(ctx context.Context, l *job.Lease, o order.Order) (order.Progress, error) {
	split, err := TopupItem(o)
	if err != nil {
		return order.Progress{}, err
	}
	c, err := t.Store.Card(ctx, split.Card, o.Owner)
	if err != nil {
		return order.Progress{}, fmt.Errorf("find the card: %w", err)
	}
	ref := LoadRef(o.Name(), o.Delivery)
	loaded, err := fulfilment.Make(ctx, l, t.provider(), fulfilment.Call[Moved]{
		Step: loads.Marker(o.Delivery),
		Send: func(ctx context.Context) (Moved, error) {
			if err := faultpoint.Fail("load.before_send"); err != nil {
				return Moved{}, err
			}
			m, err := t.Issuer.Move(ctx, Movement{Ref: ref, Account: c.Account, Direction: Load, Amount: split.Credit})
			return m, errors.Join(err, faultpoint.Fail("load.after_send"))
		},
		Read: func(ctx context.Context) (Moved, error) { return t.Issuer.Moved(ctx, ref) },
	})
	if err != nil {
		return order.Progress{}, fmt.Errorf("load the card: %w", err)
	}
	attempt := fulfilment.Attempt{
		Provider: t.provider(), Since: o.UpdatedAt,
		Evidence: map[string]string{"card": c.ID.String(), "reference": ref.String()},
		NoTrace:  "the issuer shows no trace of the load",
		TooLong:  "the issuer left the load undecided for too long",
	}
	switch loaded.Kind {
	case fulfilment.Refused:
		return attempt.Refused(loaded.Refusal), nil
	case fulfilment.Untraceable:
		return attempt.Untraceable(), nil
	case fulfilment.Known:
		switch m := loaded.Record; m.State {
		case MoveSucceeded:
			return t.confirm(ctx, attempt, c), nil
		case MoveFailed:
			return attempt.Refused(m.Refusal), nil
		case MovePending:
		}
	case fulfilment.Unknown:
	}
	return attempt.Pending(), nil
}

// Postings implements settlement.Product.
func (t Topups) Postings(o order.Order) ([]ledger.Posting, error) {
	split, err := TopupItem(o)
	if err != nil {
		return nil, err
	}
	return split.Postings(o.ID), nil
}

// confirm reads the balance: a load that the issuer reports is a credit once the card shows money.
func (t Topups) confirm(ctx context.Context, attempt fulfilment.Attempt, c Card) order.Progress {
	ctx, cancel := context.WithTimeout(ctx, t.CallTimeout)
	defer cancel()
	b, err := t.Vault.Balance(ctx, c.Account)
	if err != nil {
		// The credit stands; only its confirmation waits.
		return attempt.Pending()
	}
	attempt.Evidence["balance_usd_cents"] = fmt.Sprint(int64(b.Available))
	return attempt.Delivered("credit confirmed")
}

// LoadStep is the load of a card in a delivery.
const LoadStep = "load"

var loads = fulfilment.Series{Namespace: references, Name: LoadStep, Step: LoadStep}

// LoadRef is the reference of an attempt at a top-up's load at the issuer, by the order's name.
func LoadRef(name string, attempt int) fulfilment.Ref { return loads.Ref(name, attempt) }

// References are what the issuer knows an order's load by.
func (t Topups) References(o order.Order) []order.Reference { return loads.References(o) }
