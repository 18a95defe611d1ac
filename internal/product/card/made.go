package card

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// Accounts finds our cards by the issuer's IDs.
type Accounts interface {
	// ByAccounts finds cards; an unknown one is left out. Cards of two issuers may have the same ID.
	ByAccounts(ctx context.Context, accounts []string) ([]Card, error)
}

// IssuedRecords lists what the issuers have made for us, with our record of it. It implements reconcile.Product.
type IssuedRecords struct {
	// Book is that of all issuers: Books.
	Book  Book
	Cards Accounts
}

// Kind implements reconcile.Product.
func (m IssuedRecords) Kind() order.Kind { return Kind }

// References implements reconcile.Product.
func (m IssuedRecords) References(o order.Order) []order.Reference { return openings.References(o) }

// read reads all of the issuer's books, and those of their cards that we have.
func (m IssuedRecords) read(ctx context.Context) (s Statement, ours map[place]Card, err error) {
	if s, err = statementOf(ctx, m.Book); err != nil {
		return s, nil, fmt.Errorf("read the issuer's books: %w", err)
	}
	accounts := make([]string, len(s.Accounts))
	for i, a := range s.Accounts {
		accounts[i] = a.ID
	}
	// Our records are read after the issuer's, so that they include what is being delivered now.
	found, err := m.Cards.ByAccounts(ctx, accounts)
	if err != nil {
		return s, nil, fmt.Errorf("find our cards: %w", err)
	}
	ours = map[place]Card{}
	for _, c := range found {
		ours[place{c.Provider, c.Account}] = c
	}
	return s, ours, nil
}

// place is where a card is: its issuer, and the issuer's ID of it.
type place struct{ provider, account string }

// Made implements reconcile.Product: the cards.
func (m IssuedRecords) Made(ctx context.Context) ([]order.Goods, error) {
	s, ours, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	owns := map[x402.Address]bool{}
	for _, c := range ours {
		owns[c.Owner] = owns[c.Owner] || c.Status.Live()
	}
	var all []order.Goods
	for _, a := range s.Accounts {
		if a.State == AccountRejected {
			continue
		}
		all = append(all, order.Goods{
			Kind: Kind, Reference: uuid.UUID(a.Ref), Note: a.Buyer, Step: OpeningStep, Closed: a.State == AccountClosed,
			Description: fmt.Sprintf("the issuer has a card with %s loaded, ending in %s", a.Loaded, a.Last4),
			Costs:       costOf(a.Loaded), Item: func(money.USDC) json.RawMessage { return marshal(item{a.Provider}) },
			Single: true, Taken: func(owner x402.Address) bool { return owns[owner] },
		})
	}
	return all, nil
}

// costOf matches a payment with the amount that a card was opened with: the price or, at an issuer with spending
// limits, the price without the fee.
func costOf(loaded money.Cents) func(money.USDC) int {
	return func(v money.USDC) int {
		switch v {
		case loaded.USDC():
			return 2
		case (loaded + Fee).USDC():
			return 1
		}
		return 0
	}
}

// Loads are the loads in the issuer's books, with their cards as far as we have them. Withdrawals of fees are left out:
// a card's fee job finds its own.
func (m IssuedRecords) Loads(ctx context.Context) ([]order.Goods, error) {
	s, ours, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	notes := map[place]string{}
	for _, a := range s.Accounts {
		notes[place{a.Provider, a.ID}] = a.Buyer
	}
	var all []order.Goods
	for _, l := range s.Movements {
		if l.Direction != Load || l.State == MoveFailed {
			continue
		}
		at := place{l.Provider, l.Account}
		on, known := ours[at]
		g := order.Goods{
			Reference: uuid.UUID(l.Ref), Owner: on.Owner, Known: known, Note: notes[at], Card: on.ID,
			Amount: l.Amount, Description: fmt.Sprintf("the issuer has put %s on a card", l.Amount),
		}
		if !known {
			g.Description += " that is not in our books yet"
			g.Later = true
		}
		all = append(all, g)
	}
	return all, nil
}
