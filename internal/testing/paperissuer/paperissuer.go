// Package paperissuer is a card issuer for tests, whose books are in memory: the model of an adapter. It is all that
// one needs, in one folder, and is added to the program in one line, see Office.Register.
package paperissuer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/secret"
)

// Office is the issuer itself. What it is asked for is done at once, and stays when the program ends.
type Office struct {
	now func() time.Time

	mu    sync.Mutex
	float money.Cents
	// lines are the cards and movements in the order in which they changed last; a line that changes again is moved to
	// the end. seq numbers the changes.
	lines   []*line
	seq     int
	opened  map[fulfilment.Ref]*line
	moved   map[fulfilment.Ref]*line
	refused map[fulfilment.Ref]*fulfilment.Refusal
}

// line is a card or a movement.
type line struct {
	seq      int
	card     *card.StatedAccount
	number   string
	movement *card.MovementRecord
}

// NewOffice makes an issuer without cards that issues from a float.
func NewOffice(float money.Cents, now func() time.Time) *Office {
	return &Office{
		now: now, float: float, opened: map[fulfilment.Ref]*line{}, moved: map[fulfilment.Ref]*line{},
		refused: map[fulfilment.Ref]*fulfilment.Refusal{},
	}
}

// Client is the issuer as the program sees it.
type Client struct {
	office *Office
	// bin begins all card numbers.
	bin string
}

var _ provider.IssuerClient = Client{}

// Traits implements provider.IssuerClient: a reference takes effect once, and can be read at once.
func (c Client) Traits() fulfilment.Traits { return fulfilment.Traits{Deduplicates: true} }

// Capabilities implements provider.IssuerClient.
func (c Client) Capabilities() card.Capabilities {
	return card.Capabilities{
		Funding: card.Purse, BINs: true, Reveal: card.RevealInline, Holder: card.HolderProgramme,
	}
}

// Open implements card.Issuer.
func (c Client) Open(ctx context.Context, o card.Opening) (card.Account, error) {
	c.office.mu.Lock()
	defer c.office.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return card.Account{}, err
	}
	if known := c.office.opened[o.Ref]; known != nil {
		if known.card.Loaded != o.Load {
			return card.Account{}, fmt.Errorf("open a card: %w", errReused)
		}
		return known.card.Account, nil
	}
	if no := c.office.refuses(o.Ref, c.office.declined(o.Load)); no != nil {
		return card.Account{}, no
	}
	number := numberOf(c.bin, len(c.office.opened)+1)
	l := &line{number: number, card: &card.StatedAccount{Balance: o.Load, Account: card.Account{
		ID: fmt.Sprintf("paper-%d", len(c.office.opened)+1), Ref: o.Ref, State: card.AccountActive,
		Last4: number[len(number)-4:], Loaded: o.Load, Buyer: o.Buyer,
	}}}
	c.office.float -= o.Load
	c.office.opened[o.Ref] = l
	c.office.changed(l)
	return l.card.Account, nil
}

// Account implements card.Issuer.
func (c Client) Account(_ context.Context, ref fulfilment.Ref) (card.Account, error) {
	c.office.mu.Lock()
	defer c.office.mu.Unlock()
	l := c.office.opened[ref]
	if l == nil {
		return card.Account{}, fulfilment.ErrNoRef
	}
	return l.card.Account, nil
}

// Move implements card.Issuer.
func (c Client) Move(ctx context.Context, m card.Movement) (card.MovementRecord, error) {
	c.office.mu.Lock()
	defer c.office.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return card.MovementRecord{}, err
	}
	done := card.MovementRecord{
		Ref: m.Ref, Account: m.Account, Direction: m.Direction, Amount: m.Amount, State: card.MoveSucceeded,
	}
	if known := c.office.moved[m.Ref]; known != nil {
		if *known.movement != done {
			return card.MovementRecord{}, fmt.Errorf("move money: %w", errReused)
		}
		return done, nil
	}
	on := c.office.find(m.Account)
	if no := c.office.refuses(m.Ref, c.office.unmovable(on, m)); no != nil {
		return card.MovementRecord{}, no
	}
	change := m.Amount
	if m.Direction == card.Withdrawal {
		change = -m.Amount
	}
	c.office.float -= change
	on.card.Balance += change
	l := &line{movement: &done}
	c.office.moved[m.Ref] = l
	c.office.changed(on)
	c.office.changed(l)
	return done, nil
}

// Moved implements card.Issuer.
func (c Client) Moved(_ context.Context, _ string, ref fulfilment.Ref) (card.MovementRecord, error) {
	c.office.mu.Lock()
	defer c.office.mu.Unlock()
	l := c.office.moved[ref]
	if l == nil {
		return card.MovementRecord{}, fulfilment.ErrNoRef
	}
	return *l.movement, nil
}

// Balance implements card.Vault.
func (c Client) Balance(_ context.Context, account string) (card.Balance, error) {
	c.office.mu.Lock()
	defer c.office.mu.Unlock()
	l := c.office.find(account)
	if l == nil {
		return card.Balance{}, errNoCard
	}
	return card.Balance{Available: l.card.Balance, AsOf: c.office.now().UTC()}, nil
}

// Credentials implements card.Vault.
func (c Client) Credentials(_ context.Context, account string) (card.Credentials, error) {
	c.office.mu.Lock()
	defer c.office.mu.Unlock()
	l := c.office.find(account)
	if l == nil {
		return card.Credentials{}, errNoCard
	}
	return card.Credentials{
		Number: secret.New(l.number), SecurityCode: secret.New(l.number[6:9]),
		ExpiryMonth: 12, ExpiryYear: c.office.now().Year() + 3,
	}, nil
}

// Stock implements card.Stock.
func (c Client) Stock(context.Context) (card.Inventory, error) {
	c.office.mu.Lock()
	defer c.office.mu.Unlock()
	return card.Inventory{
		Float: c.office.float, BINs: []card.BIN{{Prefix: c.bin, Open: true}}, AsOf: c.office.now().UTC(),
	}, nil
}

// Accounts implements card.CardLister: all cards are one page.
func (c Client) Accounts(context.Context, string) (page []card.Account, next string, err error) {
	c.office.mu.Lock()
	defer c.office.mu.Unlock()
	for _, l := range c.office.lines {
		if l.card != nil {
			page = append(page, l.card.Account)
		}
	}
	return page, "", nil
}

// Changes implements card.Book. The cursor is the number of a change.
func (c Client) Changes(_ context.Context, after string) (p card.Page, err error) {
	last := 0
	if after != "" {
		if last, err = strconv.Atoi(after); err != nil {
			return p, fmt.Errorf("read the books after %q: %w", after, err)
		}
	}
	c.office.mu.Lock()
	defer c.office.mu.Unlock()
	for _, l := range c.office.lines {
		if l.seq <= last {
			continue
		}
		if l.card != nil {
			stated := *l.card
			p.Lines = append(p.Lines, card.Line{ID: stated.ID, Card: &stated})
		} else {
			moved := *l.movement
			p.Lines = append(p.Lines, card.Line{ID: moved.Ref.String(), Movement: &moved})
		}
	}
	p.Next = strconv.Itoa(c.office.seq)
	return p, nil
}

var (
	errReused = errors.New("the reference was used for something else")
	errNoCard = errors.New("there is no such card")
)

// refuses keeps a refusal for good under the reference that it was asked for with.
func (o *Office) refuses(ref fulfilment.Ref, now *fulfilment.Refusal) *fulfilment.Refusal {
	if earlier := o.refused[ref]; earlier != nil {
		return earlier
	}
	if now != nil {
		o.refused[ref] = now
	}
	return now
}

// declined is why nothing is taken from the float.
func (o *Office) declined(load money.Cents) *fulfilment.Refusal {
	if o.float < load {
		return &fulfilment.Refusal{Code: fulfilment.RefusedFloat, Message: "the float is too low"}
	}
	return nil
}

// unmovable is why a movement is refused.
func (o *Office) unmovable(on *line, m card.Movement) *fulfilment.Refusal {
	switch {
	case on == nil:
		return &fulfilment.Refusal{Code: fulfilment.RefusedRequest, Message: errNoCard.Error()}
	case m.Direction == card.Load:
		return o.declined(m.Amount)
	case on.card.Balance < m.Amount:
		return &fulfilment.Refusal{Code: card.RefusedFunds, Message: "there is less on the card"}
	}
	return nil
}

// changed puts a line at the end of the books.
func (o *Office) changed(l *line) {
	for at, known := range o.lines {
		if known == l {
			o.lines = append(o.lines[:at], o.lines[at+1:]...)
			break
		}
	}
	o.seq++
	l.seq = o.seq
	o.lines = append(o.lines, l)
}

func (o *Office) find(account string) *line {
	for _, l := range o.opened {
		if l.card.ID == account {
			return l
		}
	}
	return nil
}

// numberOf is the nth card's number, with its check digit.
func numberOf(bin string, n int) string {
	number := fmt.Sprintf("%s%09d", bin, n)
	sum := 0
	for i := range len(number) {
		digit := int(number[len(number)-1-i] - '0')
		if i%2 == 0 {
			digit = digit*2/10 + digit*2%10
		}
		sum += digit
	}
	return number + strconv.Itoa((10-sum%10)%10)
}
