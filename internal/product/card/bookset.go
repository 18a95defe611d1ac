package card

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// NamedBook is the book of one issuer.
type NamedBook struct {
	// Provider is the issuer's name in the settings.
	Provider string
	Book     Book
}

// Books are the books of all issuers as one Book, whose lines tell whose they are. The cursor has the cursor of each
// book: one that is added later is read from its beginning, and the cursor of one that is left out is kept.
type Books []NamedBook

// Changes implements Book: a page of the first book that has more, after a cursor.
func (b Books) Changes(ctx context.Context, after string) (Page, error) {
	at := booksCursor{After: map[string]string{}}
	if after != "" {
		if err := json.Unmarshal([]byte(after), &at); err != nil {
			return Page{}, fmt.Errorf("read the cursor of the issuers' books: %w", err)
		}
	}
	read := 0
	for i := range b {
		if b[i].Provider == at.Next {
			read = i
		}
	}
	if len(b) == 0 {
		return Page{Next: after}, nil
	}
	of := b[read]
	page, err := of.Book.Changes(ctx, at.After[of.Provider])
	if err != nil {
		return Page{}, fmt.Errorf("read the books of %s: %w", of.Provider, err)
	}
	page.Lines = slices.Clone(page.Lines)
	for i := range page.Lines {
		page.Lines[i].ID, page.Lines[i].Provider = of.Provider+"/"+page.Lines[i].ID, of.Provider
	}
	at.After[of.Provider] = page.Next
	if at.Next = of.Provider; !page.More {
		// The next one, or all of them from the first one on when something asks again.
		read, at.Next = read+1, ""
		if page.More = read < len(b); page.More {
			at.Next = b[read].Provider
		}
	}
	next, err := json.Marshal(at)
	if err != nil {
		return Page{}, fmt.Errorf("write the cursor of the issuers' books: %w", err)
	}
	page.Next = string(next)
	return page, nil
}

// Each are the same books one by one, each of which tells in its lines whose they are as all of them do together.
func (b Books) Each() (all []NamedBook) {
	for _, one := range b {
		all = append(all, NamedBook{one.Provider, Books{one}})
	}
	return all
}

// booksCursor is a position in several books.
type booksCursor struct {
	// Next is the book to read from.
	Next string `json:"next,omitempty"`
	// After are the cursors, by provider.
	After map[string]string `json:"after"`
}
