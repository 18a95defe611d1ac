package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/card"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/reconcile"
)

// statementPage is how many lines of a statement one answer holds.
const statementPage = 500

// lineBody is one line of a statement: a card, with what is on it, or a movement.
type lineBody struct {
	Seq      int           `json:"seq"`
	Card     *cardBody     `json:"card,omitempty"`
	Balance  *money.Cents  `json:"balanceCents,omitempty"`
	Movement *movementBody `json:"movement,omitempty"`
}

type statementBody struct {
	Items []lineBody `json:"items"`
	// More says that there are lines after these.
	More bool `json:"more"`
}

// getStatement shows a page of everything in the books, oldest first.
func (s *Server) getStatement(c call) (any, error) {
	after, err := strconv.Atoi(cmp.Or(c.request.URL.Query().Get("after"), "0"))
	if err != nil || after < 0 {
		return nil, invalid("after is the seq of a line")
	}
	cards, movements, err := s.books.since(after)
	if err != nil {
		return nil, err
	}
	page := statementBody{Items: []lineBody{}}
	for _, row := range cards {
		body := s.cardBody(row)
		page.Items = append(page.Items, lineBody{Seq: row.Seq, Card: &body, Balance: &row.Balance})
	}
	for _, row := range movements {
		body := movementBodyOf(row)
		page.Items = append(page.Items, lineBody{Seq: row.Seq, Movement: &body})
	}
	slices.SortFunc(page.Items, func(a, b lineBody) int { return cmp.Compare(a.Seq, b.Seq) })
	if len(page.Items) > statementPage {
		page.Items, page.More = page.Items[:statementPage], true
	}
	return page, nil
}

// since are the rows after a line that look-ups would find.
func (b *books) since(after int) (cards []cardRow, movements []moveRow, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	if err := b.advance(now); err != nil {
		return nil, nil, err
	}
	shown := func(seq int, hidden time.Time) bool { return seq > after && !now.Before(hidden) }
	for _, row := range b.cards {
		if shown(row.Seq, row.HiddenUntil) {
			cards = append(cards, row)
		}
	}
	for _, row := range b.movements {
		if shown(row.Seq, row.HiddenUntil) {
			movements = append(movements, row)
		}
	}
	return cards, movements, nil
}

type lineAnswer struct {
	Seq      int             `json:"seq"`
	Card     *cardAnswer     `json:"card"`
	Balance  *int64          `json:"balanceCents"`
	Movement *movementAnswer `json:"movement"`
}

type statementAnswer struct {
	Items *[]lineAnswer `json:"items"`
	More  bool          `json:"more"`
}

var _ reconcile.Issuer = (*Issuer)(nil)

// Statement implements reconcile.Issuer. A card may move on between two pages; its line is of one moment.
func (i *Issuer) Statement(ctx context.Context) (reconcile.Statement, error) {
	var all reconcile.Statement
	for after := 0; ; {
		var page statementAnswer
		err := i.call(ctx, request{
			op: "statement", method: http.MethodGet, path: []string{"statement"}, route: "/v1/statement",
			query: url.Values{"after": {strconv.Itoa(after)}},
		}, &page)
		if err == nil {
			after, err = page.enter(&all, after)
		}
		if err != nil {
			return reconcile.Statement{}, fmt.Errorf("read the statement: %w", err)
		}
		if !page.More {
			return all, nil
		}
	}
}

// enter adds a page's lines to a statement, and returns the last of them.
func (p statementAnswer) enter(all *reconcile.Statement, after int) (int, error) {
	if p.Items == nil || (p.More && len(*p.Items) == 0) {
		return after, unclear("the statement in the answer does not match the documentation")
	}
	for _, line := range *p.Items {
		if line.Seq <= after || (line.Card == nil) == (line.Movement == nil) {
			return after, unclear("a line of the statement does not match the documentation")
		}
		after = line.Seq
		if err := line.enter(all); err != nil {
			return after, err
		}
	}
	return after, nil
}

func (l lineAnswer) enter(all *reconcile.Statement) error {
	if l.Movement != nil {
		ref, err := uuid.Parse(l.Movement.Reference)
		if err != nil {
			return unclear("a reference in the statement is none")
		}
		moved, err := l.Movement.moved(card.Ref(ref))
		all.Movements = append(all.Movements, moved)
		return err
	}
	ref, err := uuid.Parse(l.Card.Reference)
	if err != nil || l.Balance == nil || *l.Balance < 0 {
		return unclear("a card in the statement does not match the documentation")
	}
	account, err := l.Card.account(card.Ref(ref))
	all.Accounts = append(all.Accounts, reconcile.StatedAccount{Account: account, Balance: money.Cents(*l.Balance)})
	return err
}
