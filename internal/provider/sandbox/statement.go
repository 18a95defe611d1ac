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

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

// statementPage is how many lines of a statement one answer holds.
const statementPage = 500

// lineBody is one line of a statement: a card, with what is on it, or a movement. Seq numbers its last change.
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

// getStatement shows a page of what is in the books, as it stands, by its last change, the earliest first.
func (s *Server) getStatement(c call) (any, error) {
	after, err := strconv.Atoi(cmp.Or(c.URL.Query().Get("after"), "0"))
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
		page.Items = append(page.Items, lineBody{Seq: row.Changed, Card: &body, Balance: &row.Balance})
	}
	for _, row := range movements {
		body := movementBodyOf(row)
		page.Items = append(page.Items, lineBody{Seq: row.Changed, Movement: &body})
	}
	slices.SortFunc(page.Items, func(a, b lineBody) int { return cmp.Compare(a.Seq, b.Seq) })
	if len(page.Items) > statementPage {
		page.Items, page.More = page.Items[:statementPage], true
	}
	return page, nil
}

// since are the rows that changed after a line and that look-ups would find.
func (b *books) since(after int) (cards []cardRow, movements []moveRow, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	if err := b.advance(now); err != nil {
		return nil, nil, err
	}
	if err := b.reveal(now); err != nil {
		return nil, nil, err
	}
	for _, row := range b.cards {
		if row.Changed > after && row.HiddenUntil.IsZero() {
			cards = append(cards, row)
		}
	}
	for _, row := range b.movements {
		if row.Changed > after && row.HiddenUntil.IsZero() {
			movements = append(movements, row)
		}
	}
	return cards, movements, nil
}

// reveal numbers a hidden change again when it appears: a reader of the statement may be past its old number.
func (b *books) reveal(now time.Time) error {
	ch := b.begin(now)
	for id, row := range b.cards {
		if !row.HiddenUntil.IsZero() && !now.Before(row.HiddenUntil) {
			row.HiddenUntil = time.Time{}
			ch.cards[id] = row
		}
	}
	for id, row := range b.movements {
		if !row.HiddenUntil.IsZero() && !now.Before(row.HiddenUntil) {
			row.HiddenUntil = time.Time{}
			ch.movements[id] = row
		}
	}
	if len(ch.cards)+len(ch.movements) == 0 {
		return nil
	}
	return ch.commit()
}

type lineAnswer struct {
	Seq      wire.Int        `json:"seq"`
	Card     *cardAnswer     `json:"card"`
	Balance  *wire.Int       `json:"balanceCents"`
	Movement *movementAnswer `json:"movement"`
}

type statementAnswer struct {
	Items *[]lineAnswer `json:"items"`
	More  wire.Flag     `json:"more"`
}

var _ card.Book = (*Issuer)(nil)

// Changes implements card.Book. The cursor is the number of the last change; a card may move on between two pages, and
// comes again then.
func (i *Issuer) Changes(ctx context.Context, after string) (card.Page, error) {
	last, err := strconv.Atoi(cmp.Or(after, "0"))
	if err != nil {
		return card.Page{}, fmt.Errorf("read the statement after %q: %w", after, err)
	}
	var got statementAnswer
	var page card.Page
	if err = i.call(ctx, request{
		op: "statement", method: http.MethodGet, path: []string{"statement"}, route: "/v1/statement",
		query: url.Values{"after": {strconv.Itoa(last)}},
	}, &got); err == nil {
		page, err = got.page(last)
	}
	if err != nil {
		return card.Page{}, fmt.Errorf("read the statement: %w", err)
	}
	return page, nil
}

// page reads an answer's lines.
func (p statementAnswer) page(after int) (page card.Page, err error) {
	if p.Items == nil || (bool(p.More) && len(*p.Items) == 0) {
		return page, wire.Unclear("the statement in the answer does not match the documentation")
	}
	for _, line := range *p.Items {
		if int(line.Seq) <= after || (line.Card == nil) == (line.Movement == nil) {
			return page, wire.Unclear("a line of the statement does not match the documentation")
		}
		after = int(line.Seq)
		read, err := line.read()
		if err != nil {
			return page, err
		}
		page.Lines = append(page.Lines, read)
	}
	page.Next, page.More = strconv.Itoa(after), bool(p.More)
	return page, nil
}

func (l lineAnswer) read() (card.Line, error) {
	if l.Movement != nil {
		ref, err := uuid.Parse(l.Movement.Reference)
		if err != nil || !isID(l.Movement.ID) {
			return card.Line{}, wire.Unclear("a movement in the statement does not match the documentation")
		}
		moved, err := l.Movement.moved(fulfilment.Ref(ref))
		return card.Line{ID: l.Movement.ID, Movement: &moved}, err
	}
	ref, err := uuid.Parse(l.Card.Reference)
	if err != nil || l.Balance == nil || *l.Balance < 0 {
		return card.Line{}, wire.Unclear("a card in the statement does not match the documentation")
	}
	account, err := l.Card.account(fulfilment.Ref(ref))
	return card.Line{ID: account.ID, Card: &card.StatedAccount{Account: account, Balance: money.Cents(*l.Balance)}}, err
}
