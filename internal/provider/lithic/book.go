package lithic

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

// The parts of the books, as a cursor names them: all cards, then all transfers, then what events name from the time
// that the cards were begun.
const (
	partCards     = "cards"
	partTransfers = "transfers"
	partEvents    = "events"
)

const (
	// overlap is how late an event may appear in the vendor's list.
	overlap = time.Minute
	// booksPage bounds the calls of one page: each card is read with its load and its balance.
	booksPage = "25"
)

// cursor is where the reading of the books stands.
type cursor struct {
	part string
	// since and until bound events. While all is read, since is when that began.
	since, until time.Time
	// after is the vendor's cursor in the part.
	after string
}

func eventsSince(at time.Time) string { return cursor{part: partEvents, since: at}.String() }

func (c cursor) String() string {
	return fmt.Sprintf("%s/%d/%d/%s", c.part, unix(c.since), unix(c.until), c.after)
}

func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

var cursorForm = regexp.MustCompile(`^(cards|transfers|events)/(\d{1,12})/(\d{1,12})/([A-Za-z0-9_-]{0,64})$`)

func parseCursor(s string) (c cursor, err error) {
	parts := cursorForm.FindStringSubmatch(s)
	if parts == nil {
		return c, fmt.Errorf("%q is no cursor", s)
	}
	since, _ := strconv.ParseInt(parts[2], 10, 64) // digits, not too many
	until, _ := strconv.ParseInt(parts[3], 10, 64)
	c = cursor{part: parts[1], since: time.Unix(since, 0).UTC(), after: parts[4]}
	if until != 0 {
		c.until = time.Unix(until, 0).UTC()
	}
	return c, nil
}

// Changes implements card.Book. What an event names is read as it stands now: the order of events, and whether one
// comes twice, does not matter.
func (i *Issuer) Changes(ctx context.Context, after string) (card.Page, error) {
	c := cursor{part: partCards, since: i.wire.Now().Add(-overlap)}
	if after != "" {
		var err error
		if c, err = parseCursor(after); err != nil {
			return card.Page{}, fmt.Errorf("read the books: %w", err)
		}
	}
	read := map[string]func(context.Context, cursor) (card.Page, error){
		partCards: i.allCards, partTransfers: i.allTransfers, partEvents: i.changed,
	}[c.part]
	page, err := read(ctx, c)
	if err != nil {
		return card.Page{}, fmt.Errorf("read the books: %w", err)
	}
	return page, nil
}

func (i *Issuer) allCards(ctx context.Context, c cursor) (card.Page, error) {
	found, next, err := i.cards(ctx, c.after, booksPage)
	if err != nil {
		return card.Page{}, err
	}
	page := card.Page{More: true}
	for _, one := range found {
		line, err := i.cardLine(ctx, one)
		if err != nil {
			return card.Page{}, err
		}
		page.Lines = append(page.Lines, line)
	}
	c.after = next
	if next == "" {
		c.part = partTransfers
	}
	page.Next = c.String()
	return page, nil
}

// cardLine is a card with what is on it. One whose load was never made is pending.
func (i *Issuer) cardLine(ctx context.Context, one foundCard) (card.Line, error) {
	account, err := i.opened(ctx, one)
	if errors.Is(err, fulfilment.ErrNoRef) {
		account, err = one.unloaded(), nil
		account.State = card.AccountPending
	}
	if err != nil {
		return card.Line{}, err
	}
	balance, err := i.Balance(ctx, account.ID)
	if err != nil {
		return card.Line{}, err
	}
	return card.Line{ID: account.ID, Card: &card.StatedAccount{Account: account, Balance: balance.Available}}, nil
}

func (i *Issuer) allTransfers(ctx context.Context, c cursor) (card.Page, error) {
	// Not by the float's account: the vendor's filter is documented for the one that sends.
	query := url.Values{"page_size": {pageSize}}
	if c.after != "" {
		query.Set("starting_after", c.after)
	}
	var got list[transferAnswer]
	if err := i.send(ctx, request{
		op: "statement", method: http.MethodGet, path: []string{"book_transfers"}, route: "book_transfers", query: query,
	}, &got); err != nil {
		return card.Page{}, err
	}
	if !got.complete() {
		return card.Page{}, wire.Unclear("the list in the answer does not match the documentation")
	}
	page := card.Page{More: bool(*got.HasMore)}
	for _, one := range *got.Data {
		line, ours, err := one.line()
		if err != nil {
			return card.Page{}, err
		}
		if ours {
			page.Lines = append(page.Lines, line)
		}
	}
	next := cursor{part: partEvents, since: c.since}
	if page.More {
		next = c
		if next.after = (*got.Data)[len(*got.Data)-1].Token.String(); next.after == c.after {
			return card.Page{}, wire.Unclear("the list in the answer does not go on")
		}
	}
	page.Next = next.String()
	return page, nil
}

// line is a load or withdrawal of ours. The load of an opening is a part of its card's line, and what others transfer
// is not read.
func (a transferAnswer) line() (l card.Line, ours bool, err error) {
	if p := a.purpose(); p != load && p != withdrawal {
		return card.Line{}, false, nil
	}
	m, err := a.read()
	if err != nil {
		return card.Line{}, false, err
	}
	on := m.to
	if m.purpose == withdrawal {
		on = m.from
	}
	moved, err := m.moved(on)
	return card.Line{ID: m.token.String(), Movement: &moved}, true, err
}

// eventTypes are the events after which a card or a transfer of ours may be another.
var eventTypes = []string{
	"card.created", "card.updated", "card_transaction.updated", "book_transfer_transaction.created",
	"book_transfer_transaction.updated",
}

// eventAnswer is an event. Nothing but what it names is taken from it.
type eventAnswer struct {
	Token   string `json:"token"`
	Type    string `json:"event_type"`
	Payload struct {
		Token string `json:"token"`
		Card  string `json:"card_token"`
	} `json:"payload"`
}

// changed reads what a page of events names.
func (i *Issuer) changed(ctx context.Context, c cursor) (card.Page, error) {
	if c.until.IsZero() {
		c.until = i.wire.Now().UTC().Add(time.Second) // in whole seconds, this one included
	}
	query := url.Values{
		"page_size": {booksPage}, "with_content": {"true"}, "event_types": eventTypes,
		"begin": {c.since.Format(time.RFC3339)}, "end": {c.until.Format(time.RFC3339)},
	}
	if c.after != "" {
		query.Set("starting_after", c.after)
	}
	var got list[eventAnswer]
	if err := i.send(ctx, request{
		op: "statement", method: http.MethodGet, path: []string{"events"}, route: "events", query: query,
	}, &got); err != nil {
		return card.Page{}, err
	}
	if !got.complete() {
		return card.Page{}, wire.Unclear("the list in the answer does not match the documentation")
	}
	page := card.Page{More: bool(*got.HasMore)}
	next := cursor{part: partEvents, since: c.until.Add(-overlap)}
	if page.More {
		next = c
		next.after = (*got.Data)[len(*got.Data)-1].Token
		if next.after == c.after || !cursorForm.MatchString(next.String()) {
			return card.Page{}, wire.Unclear("an event in the answer does not match the documentation")
		}
	}
	page.Next = next.String()
	var err error
	page.Lines, err = i.named(ctx, *got.Data)
	return page, err
}

// named reads the cards and transfers that events name, each once. What is gone or names nothing is left to the next
// reading of all.
func (i *Issuer) named(ctx context.Context, events []eventAnswer) (lines []card.Line, err error) {
	cards, transfers := map[uuid.UUID]bool{}, map[uuid.UUID]bool{}
	for _, e := range events {
		into, named := cards, e.Payload.Card
		if strings.HasPrefix(e.Type, "book_transfer_transaction.") {
			into, named = transfers, e.Payload.Token
		}
		if token, err := uuid.Parse(named); err == nil {
			into[token] = true
		}
	}
	for token := range transfers {
		got, err := i.readTransfer(ctx, "statement", token)
		if errors.Is(err, fulfilment.ErrNoRef) {
			continue
		}
		if err != nil {
			return nil, err
		}
		// Whoever made it, a card at its end has another balance.
		cards[got.From], cards[got.To] = true, true
		line, ours, err := got.line()
		if err != nil {
			return nil, err
		}
		if ours {
			lines = append(lines, line)
		}
	}
	delete(cards, i.float)
	for token := range cards {
		switch found, err := i.card(ctx, token); {
		case errors.Is(err, fulfilment.ErrNoRef):
		case err != nil:
			return nil, err
		default:
			line, err := i.cardLine(ctx, found)
			if err != nil {
				return nil, err
			}
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// card reads one card. fulfilment.ErrNoRef when it is not there, or was not opened here.
func (i *Issuer) card(ctx context.Context, token uuid.UUID) (foundCard, error) {
	var got cardAnswer
	err := i.send(ctx, request{
		op: "statement", method: http.MethodGet, path: []string{"cards", token.String()}, route: "cards/{token}", card: true,
	}, &got)
	switch _, ours := parseMemo(got.Memo); {
	case errors.Is(err, errAbsent):
		return foundCard{}, fulfilment.ErrNoRef
	case err != nil:
		return foundCard{}, err
	case got.Token != token:
		return foundCard{}, wire.Unclear("the answer is about another card")
	case !ours:
		return foundCard{}, fulfilment.ErrNoRef
	}
	return got.read()
}
