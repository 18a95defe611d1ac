package reconcile

import (
	"context"
	"fmt"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
)

// Issuer is the issuer's own book.
type Issuer interface {
	// Changes is a page of what the issuer opened and moved for us, or changed since a cursor, the earliest change first. An
	// empty cursor begins at the beginning. What changes while it is read comes again, with a later cursor.
	Changes(ctx context.Context, after string) (Page, error)
}

// Page is a part of the issuer's books.
type Page struct {
	Lines []Line
	// Next is the cursor after these lines; More says that there are lines after it now.
	Next string
	More bool
}

// Line is a card or a movement, with the issuer's own name for it. One of the two is set.
type Line struct {
	ID       string
	Card     *StatedAccount
	Movement *card.Moved
	// Order is the order that explained it last. Epoch is the reading of the whole books that last showed it. An issuer sets neither.
	Order string
	Epoch int64
	// Owner is the owner of the card that it is on, when that is one of ours, lower-case. An issuer does not set it.
	Owner string
}

// ref is our reference for what the line is about.
func (l Line) ref() fulfilment.Ref {
	if l.Card != nil {
		return l.Card.Ref
	}
	return l.Movement.Ref
}

// StatedAccount is a card and what is on it.
type StatedAccount struct {
	card.Account
	Balance money.Cents
}

// EachLine reads the issuer's books from a cursor on, page by page, and returns the cursor after them. It reads so many pages at
// most; ended says that there is no more.
func EachLine(ctx context.Context, i Issuer, after string, pages int, take func([]Line) error) (next string, ended bool, err error) {
	for range pages {
		page, err := i.Changes(ctx, after)
		if err != nil {
			return after, false, fmt.Errorf("read the issuer's books: %w", down(err, "card issuer"))
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
