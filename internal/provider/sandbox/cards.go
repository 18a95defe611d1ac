package sandbox

import (
	"net/http"
	"slices"
	"time"

	"github.com/roamcard/roamcard/internal/money"
)

// opening is a request for a card.
type opening struct {
	Reference string
	Load      money.Cents
	// Limited makes the load a limit to what is spent.
	Limited  bool
	Scenario string
	Note     string
}

// openCard puts a card into the books once per reference. A request that is refused leaves a
// declined card, so that a refusal stays one however often it is asked for again.
func (b *books) openCard(o opening, hide time.Duration) (cardRow, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	if err := b.advance(now); err != nil {
		return cardRow{}, err
	}
	if id, ok := b.cardOf[o.Reference]; ok {
		known := b.cards[id]
		if known.Load != o.Load || known.Limited != o.Limited || known.Scenario != o.Scenario {
			return cardRow{}, errConflict
		}
		return known, nil
	}
	ch := b.begin(now)
	row := cardRow{
		ID: newID("crd"), Seq: ch.next(), Reference: o.Reference, Status: cardPreparing,
		Load: o.Load, Limited: o.Limited, Scenario: o.Scenario, Note: o.Note, CreatedAt: now,
		HiddenUntil: hiddenUntil(now, hide),
	}
	bin, online := b.onlineBIN()
	row.BIN = bin
	switch {
	case !online:
		row.Status, row.Reason, row.AtOnce = cardDeclined, codeBINOffline, true
	case ch.float < row.Load:
		row.Status, row.Reason, row.AtOnce = cardDeclined, codeMasterBalanceLow, true
	default:
		// The money leaves the master balance with the request: two cards never count on the same cents.
		ch.float -= row.Load
		row.DueAt = b.rules.due(now, fateOfCard(row.Scenario))
	}
	ch.cards[row.ID] = row
	return row, ch.commit()
}

func (b *books) onlineBIN() (prefix string, ok bool) {
	for _, bin := range b.bins {
		if bin.Open {
			return bin.Prefix, true
		}
	}
	return "", false
}

// findCards is the look-up by reference: none or one.
func (b *books) findCards(reference string) ([]cardRow, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	if err := b.advance(now); err != nil {
		return nil, err
	}
	row, ok := b.cards[b.cardOf[reference]]
	if !ok || now.Before(row.HiddenUntil) {
		return nil, nil
	}
	return []cardRow{row}, nil
}

// listCards is a page of the cards after a seq, oldest first, and whether there are more.
func (b *books) listCards(after, most int) (page []cardRow, more bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	if err := b.advance(now); err != nil {
		return nil, false, err
	}
	from, _ := slices.BinarySearchFunc(b.roll, after+1, func(id string, seq int) int { return b.cards[id].Seq - seq })
	for _, id := range b.roll[from:] {
		if row := b.cards[id]; !now.Before(row.HiddenUntil) {
			if len(page) == most {
				return page, true, nil
			}
			page = append(page, row)
		}
	}
	return page, false, nil
}

func (b *books) card(id string) (cardRow, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	if err := b.advance(now); err != nil {
		return cardRow{}, err
	}
	row, ok := b.cards[id]
	if !ok || now.Before(row.HiddenUntil) {
		return cardRow{}, errNoCard
	}
	return row, nil
}

// stock is the master balance and the ranges.
func (b *books) stock() (money.Cents, []binRow, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.advance(b.clock()); err != nil {
		return 0, nil, err
	}
	return b.float, append([]binRow(nil), b.bins...), nil
}

// become moves a card to a status together with the money that goes with the move.
func (c *change) become(row cardRow, status cardStatus, reason string) error {
	switch {
	case row.Status == status:
	case row.Status == cardDeclined || row.Status == cardTerminated:
		return &problem{http.StatusConflict, codeCardNotUsable, "the card is " + string(row.Status)}
	case row.Status == cardPreparing && (status == cardLive || status == cardLocked):
		row.Balance = row.Load
		if row.Limited {
			row.Limit = row.Load
		}
	case row.Status == cardPreparing && (status == cardDeclined || status == cardTerminated):
		c.float += row.Load
	case status == cardTerminated:
		c.float += row.Balance
		row.Balance = 0
	case status == cardLive || status == cardLocked:
	default:
		return &problem{
			http.StatusConflict, codeCardNotUsable, "a card that is " + string(row.Status) + " cannot become " + string(status),
		}
	}
	row.Status, row.Reason, row.DueAt = status, reason, time.Time{}
	c.cards[row.ID] = row
	return nil
}

// stepCard makes the change of a card that is due at a time.
func (c *change) stepCard(row cardRow, at time.Time) error {
	f := fateOfCard(row.Scenario)
	if row.Status != cardPreparing {
		return c.become(row, cardTerminated, "reversed")
	}
	if f.declined != "" {
		return c.become(row, cardDeclined, f.declined)
	}
	if err := c.become(row, cardLive, ""); err != nil {
		return err
	}
	if f.reversed {
		live := c.cards[row.ID]
		live.DueAt = at.Add(c.books.rules.reverse)
		c.cards[row.ID] = live
	}
	return nil
}

func hiddenUntil(now time.Time, hide time.Duration) time.Time {
	if hide <= 0 {
		return time.Time{}
	}
	return now.Add(hide)
}
