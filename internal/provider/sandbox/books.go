package sandbox

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/money"
)

// cardStatus and moveStatus are the vendor's own terms, which the client maps to ours.
type (
	cardStatus string
	moveStatus string
)

const (
	cardPreparing  cardStatus = "preparing"
	cardLive       cardStatus = "live"
	cardLocked     cardStatus = "locked"
	cardTerminated cardStatus = "terminated"
	cardDeclined   cardStatus = "declined"

	moveQueued   moveStatus = "queued"
	moveDone     moveStatus = "done"
	moveDeclined moveStatus = "declined"
	moveReversed moveStatus = "reversed"
)

// The directions of a movement, seen from the card.
const (
	intoCard  = "in"
	outOfCard = "out"
)

// cardRow is a card in the books. Its number and code are not kept: they follow from the seed.
type cardRow struct {
	ID        string      `json:"id"`
	Seq       int         `json:"seq"`
	Reference string      `json:"reference"`
	Status    cardStatus  `json:"status"`
	Reason    string      `json:"reason,omitempty"`
	BIN       string      `json:"bin"`
	Load      money.Cents `json:"loadCents"`
	Balance   money.Cents `json:"balanceCents"`
	// Limited says that the amounts are what may be spent: a withdrawal takes from that. Limit is all that may be, and
	// Balance what is left of it.
	Limited bool `json:"limited,omitempty"`
	// Held is what merchants hold: it is not in the balance.
	Held      money.Cents `json:"heldCents,omitempty"`
	Limit     money.Cents `json:"limitCents,omitempty"`
	Scenario  string      `json:"scenario,omitempty"`
	Note      string      `json:"note,omitempty"`
	CreatedAt time.Time   `json:"createdAt"`
	// Limits are what the card may be used for; nil without any.
	Limits *limitsRow `json:"limits,omitempty"`
	// DueAt is when the next change is due; zero when none is.
	DueAt time.Time `json:"dueAt,omitzero"`
	// HiddenUntil keeps a card out of look-ups: an effect that appears late.
	HiddenUntil time.Time `json:"hiddenUntil,omitzero"`
	// AtOnce says that the card was declined in the answer to its request.
	AtOnce bool `json:"atOnce,omitempty"`
	// Changed numbers its last change, among all changes.
	Changed int `json:"changed,omitempty"`
}

// moveRow is a load or a withdrawal in the books. Its times are those of cardRow.
type moveRow struct {
	ID        string      `json:"id"`
	Seq       int         `json:"seq"`
	Reference string      `json:"reference"`
	Card      string      `json:"cardId"`
	Direction string      `json:"direction"`
	Amount    money.Cents `json:"amountCents"`
	// Limit is what the limit of a card is set to; Committed is what of the master balance waits for that.
	Limit       money.Cents `json:"limitCents,omitempty"`
	Committed   money.Cents `json:"committedCents,omitempty"`
	Status      moveStatus  `json:"status"`
	Reason      string      `json:"reason,omitempty"`
	Scenario    string      `json:"scenario,omitempty"`
	CreatedAt   time.Time   `json:"createdAt"`
	DueAt       time.Time   `json:"dueAt,omitzero"`
	HiddenUntil time.Time   `json:"hiddenUntil,omitzero"`
	AtOnce      bool        `json:"atOnce,omitempty"`
	Changed     int         `json:"changed,omitempty"`
}

// purchaseRow is what a merchant charged to a card, or tried to.
type purchaseRow struct {
	ID       string      `json:"id"`
	Seq      int         `json:"seq"`
	Card     string      `json:"cardId"`
	Kind     string      `json:"kind"`
	Status   string      `json:"status"`
	Reason   string      `json:"reason,omitempty"`
	Amount   money.Cents `json:"amountCents"`
	Merchant string      `json:"merchant"`
	Category string      `json:"category,omitempty"`
	Country  string      `json:"country,omitempty"`
	At       time.Time   `json:"at"`
}

// binRow is a range of card numbers.
type binRow struct {
	Prefix string `json:"prefix"`
	Open   bool   `json:"open"`
}

// entry is one line of the journal: everything that one mutation changed, with its new values.
type entry struct {
	At        time.Time   `json:"at"`
	Seed      string      `json:"seed,omitempty"`
	Float     money.Cents `json:"floatCents"`
	BINs      []binRow    `json:"bins,omitempty"`
	Cards     []cardRow   `json:"cards,omitempty"`
	Movements []moveRow   `json:"movements,omitempty"`

	Purchases []purchaseRow `json:"purchases,omitempty"`
}

// books are the issuer's own state: cards, movements and the master balance. Whatever is due by the
// clock is done, and written, before a request is answered, so a restart loses and delays nothing.
type books struct {
	rules rules
	now   func() time.Time

	mu        sync.Mutex
	journal   *journal // nil keeps the books in memory
	seed      []byte
	seq       int
	float     money.Cents
	bins      []binRow
	cards     map[string]cardRow
	movements map[string]moveRow
	cardOf    map[string]string        // by reference
	moveOf    map[string]string        // by reference
	waiting   map[string]bool          // ids of what has a change due
	executed  map[string]int           // by reference: how often it made a row
	roll      []string                 // the ids of the cards, by seq
	purchases map[string][]purchaseRow // by card, by seq
}

// openBooks restores the books at path, or starts new ones with the float and ranges given. An empty
// path keeps them in memory.
func openBooks(path string, r rules, now func() time.Time, float money.Cents, bins []binRow) (*books, error) {
	b := &books{
		rules: r, now: now,
		cards: map[string]cardRow{}, movements: map[string]moveRow{},
		cardOf: map[string]string{}, moveOf: map[string]string{},
		waiting: map[string]bool{}, executed: map[string]int{}, purchases: map[string][]purchaseRow{},
	}
	var err error
	if b.journal, err = openEntries(path, b.apply); err != nil {
		return nil, err
	}
	if b.seed != nil {
		return b, nil
	}
	first := entry{At: b.clock(), Seed: rand.Text(), Float: float, BINs: bins}
	if err := b.write(first); err != nil {
		return nil, err
	}
	return b, nil
}

// clock is the time in the form the journal keeps, so that a restart compares the same instants.
func (b *books) clock() time.Time { return b.now().UTC().Round(0) }

func (b *books) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.journal.close()
}

// write puts an entry into the journal and then, when the disk has it, into memory.
func (b *books) write(e entry) error {
	if err := b.journal.append(e); err != nil {
		return err
	}
	return b.apply(e)
}

func (b *books) apply(e entry) error {
	if e.Seed != "" {
		b.seed = []byte(e.Seed)
	}
	if b.seed == nil {
		return fmt.Errorf("the books do not begin with their seed")
	}
	b.float = e.Float
	for _, bin := range e.BINs {
		b.putBIN(bin)
	}
	for _, c := range e.Cards {
		if _, known := b.cards[c.ID]; !known {
			b.executed[c.Reference]++
			b.roll = append(b.roll, c.ID) // entries, and cards in an entry, are in the order of their seq
		}
		c.Changed = max(c.Changed, c.Seq)
		b.cards[c.ID], b.cardOf[c.Reference] = c, c.ID
		b.await(c.ID, c.Changed, c.DueAt)
	}
	for _, m := range e.Movements {
		if _, known := b.movements[m.ID]; !known {
			b.executed[m.Reference]++
		}
		m.Changed = max(m.Changed, m.Seq)
		b.movements[m.ID], b.moveOf[m.Reference] = m, m.ID
		b.await(m.ID, m.Changed, m.DueAt)
	}
	for _, p := range e.Purchases {
		b.purchases[p.Card] = append(b.purchases[p.Card], p)
		b.seq = max(b.seq, p.Seq)
	}
	return nil
}

func (b *books) await(id string, seq int, due time.Time) {
	b.seq = max(b.seq, seq)
	if due.IsZero() {
		delete(b.waiting, id)
	} else {
		b.waiting[id] = true
	}
}

func (b *books) putBIN(bin binRow) {
	at := slices.IndexFunc(b.bins, func(o binRow) bool { return o.Prefix == bin.Prefix })
	if at < 0 {
		b.bins = append(b.bins, bin)
		return
	}
	b.bins[at] = bin
}

// change collects what one mutation does. Nothing is visible before commit has written it.
type change struct {
	books     *books
	at        time.Time
	float     money.Cents
	bins      []binRow
	cards     map[string]cardRow
	movements map[string]moveRow
	purchases []purchaseRow
	seq       int
}

// begin starts a change. The caller holds the lock until commit.
func (b *books) begin(at time.Time) *change {
	return &change{
		books: b, at: at, float: b.float, seq: b.seq,
		cards: map[string]cardRow{}, movements: map[string]moveRow{},
	}
}

func (c *change) next() int { c.seq++; return c.seq }

func (c *change) card(id string) (cardRow, bool) {
	if row, ok := c.cards[id]; ok {
		return row, true
	}
	row, ok := c.books.cards[id]
	return row, ok
}

func (c *change) movement(id string) (moveRow, bool) {
	if row, ok := c.movements[id]; ok {
		return row, true
	}
	row, ok := c.books.movements[id]
	return row, ok
}

func (c *change) commit() error {
	e := entry{At: c.at, Float: c.float, BINs: c.bins, Purchases: c.purchases}
	for _, row := range c.cards {
		e.Cards = append(e.Cards, row)
	}
	for _, row := range c.movements {
		e.Movements = append(e.Movements, row)
	}
	slices.SortFunc(e.Cards, func(a, b cardRow) int { return cmp.Compare(a.Seq, b.Seq) })
	slices.SortFunc(e.Movements, func(a, b moveRow) int { return cmp.Compare(a.Seq, b.Seq) })
	for i := range e.Cards {
		e.Cards[i].Changed = c.next()
	}
	for i := range e.Movements {
		e.Movements[i].Changed = c.next()
	}
	return c.books.write(e)
}

// newID is the issuer's own id of something: random, and different from our reference.
func newID(kind string) string {
	var raw [12]byte
	_, _ = rand.Read(raw[:]) // never fails: the runtime stops the program instead
	return kind + "_" + hex.EncodeToString(raw[:])
}
