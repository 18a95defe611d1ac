package card

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
)

// Controls are what an owner does with a card at its issuer, as far as Capabilities say so.
type Controls interface {
	// SetFrozen stops a card from being used, or lets it be used again. Asked twice it changes nothing more. It answers
	// with the card's state then; a *fulfilment.Refusal says that the issuer does not allow it.
	SetFrozen(ctx context.Context, account string, frozen bool) (AccountState, error)
	// Transactions is a page of at most so many, newest first, after a cursor; an empty cursor starts at the newest. next
	// is the cursor of the next page, or empty after the last.
	Transactions(ctx context.Context, account, after string, most int) (page []Transaction, next string, err error)
	// Limits reads the limits of a card that its owner has set.
	Limits(ctx context.Context, account string) (Limits, error)
	// SetLimits replaces them, and nothing that funds the card or locks it. Asked twice it changes nothing more. It
	// answers with the limits that the card has then. A *fulfilment.Refusal says that the issuer does not take them, with
	// RefusedCategory for a merchant category that it does not know.
	SetLimits(ctx context.Context, account string, l Limits) (Limits, error)
	// Details reads what merchants and 3-D Secure ask for. It has what the capabilities name, or fails.
	Details(ctx context.Context, account string) (Details, error)
}

// Transaction is what a merchant charged to a card or gave back, or tried to.
type Transaction struct {
	// ID is the issuer's; Cards.Transactions shows another that is derived from it.
	ID     string
	At     time.Time
	Kind   TransactionKind
	Status TransactionStatus
	// Amount is never negative: Kind says the direction.
	Amount   money.Cents
	Merchant Merchant
	// Declined is why it was declined; empty otherwise.
	Declined DeclineReason
}

// Merchant is whom a card was used at. What it says about itself is a stranger's text.
type Merchant struct {
	Name string
	// Category is the merchant category code, four digits (ISO 18245), and Country two letters; empty when unknown.
	Category, Country string
}

// TransactionKind is the direction of a transaction.
type TransactionKind string

// The kinds.
const (
	Purchase TransactionKind = "purchase"
	Refund   TransactionKind = "refund"
)

// TransactionStatus is how far a transaction is. What an adapter does not recognise is TransactionPending.
type TransactionStatus string

// The statuses.
const (
	TransactionPending   TransactionStatus = "pending"
	TransactionCompleted TransactionStatus = "completed"
	TransactionDeclined  TransactionStatus = "declined"
	TransactionReversed  TransactionStatus = "reversed"
)

// DeclineReason is why a transaction was declined.
type DeclineReason string

// The reasons. What an adapter does not recognise is DeclinedOther.
const (
	DeclinedFunds    DeclineReason = "insufficient_funds"
	DeclinedFrozen   DeclineReason = "card_frozen"
	DeclinedClosed   DeclineReason = "card_closed"
	DeclinedLimit    DeclineReason = "limit_exceeded"
	DeclinedMerchant DeclineReason = "merchant_not_allowed"
	DeclinedCheck    DeclineReason = "verification_failed"
	DeclinedFraud    DeclineReason = "suspected_fraud"
	DeclinedOther    DeclineReason = "other"
)

// Freeze stops an owner's card at its issuer until Unfreeze. A card that is frozen stays as it is.
func (c *Cards) Freeze(ctx context.Context, id uuid.UUID, owner x402.Address) (Card, error) {
	return c.freezing(ctx, id, owner, func(at *provider, card Card) (got Card, undone bool, err error) {
		if card.Status == Frozen {
			return card, false, nil
		}
		// A frozen card may refuse the withdrawal of the fee, and would keep it.
		switch open, err := c.Store.FeeOpen(ctx, card.ID); {
		case err != nil:
			return Card{}, false, fmt.Errorf("look for the fee: %w", err)
		case open:
			return Card{}, false, fault.New(fault.CardNotActive,
				"The card is still being set up: its issue fee is being withdrawn.")
		}
		if err := c.Store.SetOwnerFrozen(ctx, card.ID, owner, true); err != nil {
			return Card{}, false, fmt.Errorf("record who freezes the card: %w", err)
		}
		got, err = c.setFrozen(ctx, at, card, true)
		if _, refused := errors.AsType[*fulfilment.Refusal](err); refused {
			// Only what the owner froze may the owner unfreeze.
			return Card{}, true, fault.New(fault.CardNotActive, "The issuer does not let the card be frozen now.")
		}
		return got, false, err
	})
}

// Unfreeze lets a card that its owner has frozen be used again. What the issuer locked stays locked.
func (c *Cards) Unfreeze(ctx context.Context, id uuid.UUID, owner x402.Address) (Card, error) {
	return c.freezing(ctx, id, owner, func(at *provider, card Card) (got Card, undone bool, err error) {
		if card.Status == Active {
			return card, false, nil
		}
		locked := fault.New(fault.CardLocked, "The issuer has locked the card; its owner did not.")
		if !card.OwnerFrozen {
			return Card{}, false, locked
		}
		got, err = c.setFrozen(ctx, at, card, false)
		if _, refused := errors.AsType[*fulfilment.Refusal](err); refused {
			return Card{}, false, locked
		}
		return got, err == nil, err
	})
}

// errOpen says that a freezing or unfreezing may still take effect.
var errOpen = errors.New("the outcome at the issuer is not known")

// freezing lets one freezing or unfreezing of a card be under way at a time, whatever process it is in: else the record
// that the owner froze the card and the issuer's state would be written in different orders. undone says that the owner
// has not frozen the card after it.
func (c *Cards) freezing(
	ctx context.Context, id uuid.UUID, owner x402.Address,
	do func(*provider, Card) (got Card, undone bool, err error),
) (Card, error) {
	at, card, err := c.controlled(ctx, id, owner, freeze)
	if err != nil {
		return Card{}, err
	}
	change, most := uuid.New(), 3*c.CallTimeout+at.Traits.VisibilityDelay
	open, err := c.beginFreezing(ctx, card.ID, change, most)
	if err != nil {
		return Card{}, err
	}
	var undone bool
	if at, card, err = c.changeable(ctx, id, owner, freeze); err == nil {
		card, undone, err = do(at, card)
	}
	// What is not given back is free after a while, and the record that the owner froze the card is kept.
	end := Freezing{Unknown: errors.Is(err, errOpen), Open: open, Undone: undone}
	if err := c.Store.EndFreezing(context.WithoutCancel(ctx), id, change, end); err != nil {
		c.Log.WarnContext(ctx, "a card is not given back", "card", id, "error", err)
	}
	if err != nil {
		return Card{}, err
	}
	return card, nil
}

// beginFreezing waits a little for another change of the card.
func (c *Cards) beginFreezing(
	ctx context.Context, id, change uuid.UUID, most time.Duration,
) (open time.Time, err error) {
	const tries, pause = 20, 100 * time.Millisecond
	for range tries {
		open, err = c.Store.BeginFreezing(ctx, id, change, most)
		if !errors.Is(err, ErrBusy) {
			break
		}
		select {
		case <-ctx.Done():
			return open, fmt.Errorf("wait for the card: %w", ctx.Err())
		case <-time.After(pause):
		}
	}
	if errors.Is(err, ErrBusy) {
		return open, fault.New(fault.DependencyDown,
			"Another change of the card is under way at its issuer. It can be frozen or unfrozen when that is done.")
	}
	if err != nil {
		return open, fmt.Errorf("take the card: %w", err)
	}
	return open, nil
}

// setFrozen asks the issuer, and stores the status that it reports then. errOpen when its outcome is not known.
func (c *Cards) setFrozen(ctx context.Context, at *provider, card Card, frozen bool) (Card, error) {
	asking, cancel := fault.Within(ctx, c.CallTimeout)
	defer cancel()
	state, err := at.Controls.SetFrozen(asking, card.Account, frozen)
	if _, refused := errors.AsType[*fulfilment.Refusal](err); refused {
		return Card{}, err
	}
	if err != nil {
		return Card{}, fmt.Errorf("freeze or unfreeze the card: %w", errors.Join(err, issuerDown(), errOpen))
	}
	status, known := state.Status()
	if !known {
		return Card{}, errors.Join(
			fault.New(fault.DependencyDown, "The card issuer has not confirmed it yet."), errOpen)
	}
	if status != card.Status {
		if err := c.observe(ctx, Seen{Ref: card.Ref, Status: status, Provider: card.Provider}); err != nil {
			return Card{}, err
		}
	}
	card.Status = status
	want := Active
	if frozen {
		want = Frozen
	}
	if status != want {
		return Card{}, notActive(Card{Status: status}) // what the issuer still has to do is not its owner's to do
	}
	return card, nil
}

// changeable finds an owner's card for a control that changes it. It is ACTIVE or FROZEN at its issuer now.
func (c *Cards) changeable(ctx context.Context, id uuid.UUID, owner x402.Address, of control) (*provider, Card, error) {
	at, card, err := c.controlled(ctx, id, owner, of)
	if err != nil {
		return nil, Card{}, err
	}
	if card, err = c.current(ctx, card, atOnce); err != nil {
		return nil, Card{}, err
	}
	if card.Status != Active && card.Status != Frozen {
		return nil, Card{}, notActive(card)
	}
	switch closing, err := c.Store.Closing(ctx, card.ID); {
	case err != nil:
		return nil, Card{}, fmt.Errorf("look for a closing of the card: %w", err)
	case closing:
		return nil, Card{},
			fault.New(fault.CardLocked, "An operator is closing the card. What is left on it will be refunded.")
	}
	return at, card, nil
}

// control is one control of owners.
type control func(Capabilities) bool

func freeze(of Capabilities) bool       { return of.Freeze }
func transactions(of Capabilities) bool { return of.Transactions }

func (p *provider) offers(of control) bool { return of(p.Capabilities) && p.Controls != nil }

// offered reports whether any issuer offers a control.
func (c *Cards) offered(of control) bool {
	return slices.ContainsFunc(c.providers, func(p *provider) bool { return p.offers(of) })
}

// controlled finds an owner's card for a control that its issuer must offer.
func (c *Cards) controlled(ctx context.Context, id uuid.UUID, owner x402.Address, of control) (*provider, Card, error) {
	if !c.offered(of) {
		return nil, Card{}, controlMissing()
	}
	card, err := c.find(ctx, id, owner)
	if err != nil {
		return nil, Card{}, err
	}
	at, err := c.at(card.Provider)
	if err != nil {
		return nil, Card{}, err
	}
	if !at.offers(of) {
		return nil, Card{}, controlMissing()
	}
	return at, card, nil
}

func controlMissing() *fault.Fault {
	return fault.New(fault.CardControlMissing, "The issuer of the service's cards does not offer this.")
}

// transactionIDs is the namespace of the ids that owners see.
var transactionIDs = uuid.MustParse("4d3f0a1e-90a5-5c19-8b35-1b6a4f0f7c52")

// Transactions is a page of what an owner's card was used for, newest first, whatever the card's status is. after is
// the next of the page before.
func (c *Cards) Transactions(
	ctx context.Context, id uuid.UUID, owner x402.Address, after string, most int,
) (page []Transaction, next string, err error) {
	if !c.offered(transactions) {
		return nil, "", controlMissing()
	}
	cursor, err := base64.RawURLEncoding.DecodeString(after)
	if err != nil {
		return nil, "", fault.New(fault.SchemaInvalid, "pageToken is not the nextPageToken of a page.")
	}
	at, card, err := c.controlled(ctx, id, owner, transactions)
	if err != nil {
		return nil, "", err
	}
	if card.Account == "" {
		return nil, "", nil // the issuer has not opened it
	}
	ctx, cancel := fault.Within(ctx, c.CallTimeout)
	defer cancel()
	page, next, err = at.Controls.Transactions(ctx, card.Account, string(cursor), most)
	if refusal, refused := errors.AsType[*fulfilment.Refusal](err); refused && after != "" &&
		refusal.Code == fulfilment.RefusedRequest {
		return nil, "", fault.New(fault.SchemaInvalid, "pageToken is not the nextPageToken of a page.")
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the transactions: %w", errors.Join(err, issuerDown()))
	}
	for i := range page {
		page[i].ID = uuid.NewSHA1(transactionIDs, []byte(card.ID.String()+"/"+page[i].ID)).String()
		page[i].Merchant = page[i].Merchant.plain()
	}
	return page, base64.RawURLEncoding.EncodeToString([]byte(next)), nil
}

// plain is a merchant whose texts are short, printable and on one line.
func (m Merchant) plain() Merchant {
	return Merchant{plainText(m.Name, 100), plainText(m.Category, 4), plainText(m.Country, 2)}
}

func plainText(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most])
	}
	return strings.TrimSpace(s)
}
