package card

import (
	"context"
	"errors"
	"fmt"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
)

// Book is the issuer's record of our cards and movements.
type Book interface {
	// Changes is a page of the cards and movements that were made or changed after a cursor, earliest change first. An
	// empty cursor starts at the beginning. A line that changes during the read is listed again, with a later cursor.
	Changes(ctx context.Context, after string) (Page, error)
}

// Page is a part of the issuer's books.
type Page struct {
	Lines []Line
	// Next is the cursor after these lines; More says that there are more lines now.
	Next string
	More bool
}

// Line is a card or a movement, with the issuer's ID. One of the two is set.
type Line struct {
	// ID is the issuer's ID or, in Books, the provider, a slash and the issuer's ID.
	ID string
	// Provider is the issuer's name. An issuer does not set it.
	Provider string
	Card     *StatedAccount
	Movement *MovementRecord
	// Order is the order that explained it last. Epoch is the last complete pass over the books that listed it. An
	// issuer sets neither.
	Order string
	Epoch int64
	// Owner is the owner of its card in lower case, if the card is ours. An issuer does not set it.
	Owner string
}

// Ref is our reference for the line's card or movement.
func (l Line) Ref() fulfilment.Ref {
	if l.Card != nil {
		return l.Card.Ref
	}
	return l.Movement.Ref
}

// StatedAccount is a card and its balance.
type StatedAccount struct {
	Account
	Balance money.Cents
	// Provider is the issuer's name. An issuer does not set it.
	Provider string
}

// EachLine reads the issuer's books after a cursor, at most so many pages, and returns the cursor after them. ended
// says that there are no more.
func EachLine(
	ctx context.Context, b Book, after string, pages int, take func([]Line) error,
) (next string, ended bool, err error) {
	for range pages {
		page, err := b.Changes(ctx, after)
		if err != nil {
			return after, false, fmt.Errorf("read the issuer's books: %w", errors.Join(err, issuerDown()))
		}
		if err := take(page.Lines); err != nil {
			return after, false, err
		}
		if after = page.Next; !page.More {
			return after, true, nil
		}
	}
	return after, false, nil
}

// Statement is the issuer's complete record of our cards and movements.
type Statement struct {
	Accounts  []StatedAccount
	Movements []MovementRecord
}

// mostPages bounds a complete pass over the issuer's books.
const mostPages = 1 << 16

// statementOf reads all of the issuer's books. A line that changes meanwhile is listed again, and its last state
// counts.
func statementOf(ctx context.Context, b Book) (Statement, error) {
	accounts, movements := map[string]StatedAccount{}, map[string]MovementRecord{}
	var names []string
	_, ended, err := EachLine(ctx, b, "", mostPages, func(lines []Line) error {
		for _, l := range lines {
			_, opened := accounts[l.ID]
			_, moved := movements[l.ID]
			if !opened && !moved {
				names = append(names, l.ID)
			}
			if l.Card != nil {
				a := *l.Card
				a.Provider = l.Provider
				accounts[l.ID] = a
			} else {
				m := *l.Movement
				m.Provider = l.Provider
				movements[l.ID] = m
			}
		}
		return nil
	})
	if err == nil && !ended {
		err = errors.New("the issuer's books do not end")
	}
	var s Statement
	for _, name := range names {
		if a, ok := accounts[name]; ok {
			s.Accounts = append(s.Accounts, a)
		} else {
			s.Movements = append(s.Movements, movements[name])
		}
	}
	return s, err
}
