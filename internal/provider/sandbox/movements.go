package sandbox

import (
	"cmp"
	"slices"
	"time"

	"github.com/roamcard/roamcard/internal/money"
)

// moving is a request for a load or a withdrawal.
type moving struct {
	Reference string
	Card      string
	Direction string
	Amount    money.Cents
	// Limit is what the card's limit is set to, where there are spending limits.
	Limit    money.Cents
	Scenario string
}

// move puts a movement into the books once per reference; refusals stay, as with openCard.
func (b *books) move(m moving, hide time.Duration) (moveRow, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	if err := b.advance(now); err != nil {
		return moveRow{}, err
	}
	if id, ok := b.moveOf[m.Reference]; ok {
		known := b.movements[id]
		if (moving{known.Reference, known.Card, known.Direction, known.Amount, known.Limit, known.Scenario}) != m {
			return moveRow{}, errConflict
		}
		return known, nil
	}
	card, ok := b.cards[m.Card]
	if !ok || now.Before(card.HiddenUntil) {
		return moveRow{}, errNoCard
	}
	if card.Limited && m.Direction == intoCard && m.Limit == 0 {
		return moveRow{}, invalid("a card with a limit is given limitCents")
	}
	ch := b.begin(now)
	row := moveRow{
		ID: newID("mov"), Seq: ch.next(), Reference: m.Reference, Card: m.Card, Direction: m.Direction, Amount: m.Amount,
		Limit: m.Limit, Status: moveQueued, Scenario: m.Scenario, CreatedAt: now, HiddenUntil: hiddenUntil(now, hide),
	}
	switch {
	case !row.allowed(card):
		row.Status, row.Reason, row.AtOnce = moveDeclined, codeCardNotUsable, true
	case card.Limited && m.Direction == outOfCard && m.Limit+m.Amount != card.Limit:
		row.Status, row.Reason, row.AtOnce = moveDeclined, codeNothingToTake, true
	case m.Direction == intoCard && ch.float < row.taken(card):
		row.Status, row.Reason, row.AtOnce = moveDeclined, codeMasterBalanceLow, true
	default:
		if m.Direction == intoCard {
			row.Committed = row.taken(card)
			ch.float -= row.Committed
		}
		row.DueAt = b.rules.due(now, fateOfMovement(row, card))
	}
	ch.movements[row.ID] = row
	return row, ch.commit()
}

// allowed reports whether a card's status allows a movement: what the API has locked can be emptied.
func (m moveRow) allowed(card cardRow) bool {
	return card.Status == cardLive ||
		m.Direction == outOfCard && card.Status == cardLocked && card.Reason == lockedByClient
}

// findMovements is the look-up by reference: none or one.
func (b *books) findMovements(reference string) ([]moveRow, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	if err := b.advance(now); err != nil {
		return nil, err
	}
	row, ok := b.movements[b.moveOf[reference]]
	if !ok || now.Before(row.HiddenUntil) {
		return nil, nil
	}
	return []moveRow{row}, nil
}

// stepMovement makes the change of a movement that is due at a time.
func (c *change) stepMovement(row moveRow, at time.Time) {
	card, _ := c.card(row.Card)
	f := fateOfMovement(row, card)
	row.DueAt = time.Time{}
	switch {
	case row.Status == moveDone:
		c.reverse(&row, card)
	case f.declined != "":
		c.decline(&row, f.declined)
	case !row.allowed(card):
		c.decline(&row, codeCardNotUsable)
	case row.Direction == outOfCard && card.Balance < row.Amount:
		c.decline(&row, codeBalanceTooLow)
	case row.Direction == outOfCard && card.Balance-row.Amount < c.books.rules.retention:
		c.decline(&row, codeRetentionQuota)
	case card.Limited && card.Balance+row.Limit-card.Limit < 0:
		c.decline(&row, codeBalanceTooLow)
	default:
		row.Status = moveDone
		switch {
		case card.Limited:
			change := row.Limit - card.Limit
			c.float += row.Committed - change
			card.Balance, card.Limit = card.Balance+change, row.Limit
		case row.Direction == intoCard:
			card.Balance += row.Amount
		default:
			card.Balance -= row.Amount
			c.float += row.Amount
		}
		c.cards[card.ID] = card
		if f.reversed {
			row.DueAt = at.Add(c.books.rules.reverse)
		}
	}
	c.movements[row.ID] = row
}

func (c *change) decline(row *moveRow, reason string) {
	row.Status, row.Reason = moveDeclined, reason
	if row.Direction == intoCard {
		c.float += row.Committed
	}
}

// taken is what of the master balance a movement into a card needs now: its amount or, where the card has a limit, what
// the limit rises by.
func (m moveRow) taken(card cardRow) money.Cents {
	if card.Limited {
		return max(0, m.Limit-card.Limit)
	}
	return m.Amount
}

// reverse undoes a movement. What was spent meanwhile, or is on a card that is gone, cannot be taken
// back: the movement then stays done.
func (c *change) reverse(row *moveRow, card cardRow) {
	if card.Status != cardLive && card.Status != cardLocked {
		return
	}
	amount := row.Amount
	if row.Direction == intoCard {
		amount = -amount
	}
	if card.Balance+amount < 0 || c.float-amount < 0 {
		return
	}
	card.Balance += amount
	if card.Limited {
		card.Limit += amount
	}
	c.float -= amount
	row.Status, row.Reason = moveReversed, "reversed"
	c.cards[card.ID] = card
}

// waiter is a card or movement with a change due.
type waiter struct {
	id  string
	seq int
	due time.Time
}

// waiters are what is due by a time in the books as the change sees them, the earliest first.
func (c *change) waiters(by time.Time) []waiter {
	ids := make(map[string]bool, len(c.books.waiting))
	for id := range c.books.waiting {
		ids[id] = true
	}
	for id := range c.cards {
		ids[id] = true
	}
	for id := range c.movements {
		ids[id] = true
	}
	var due []waiter
	for id := range ids {
		w := waiter{id: id}
		if row, ok := c.card(id); ok {
			w.seq, w.due = row.Seq, row.DueAt
		} else if row, ok := c.movement(id); ok {
			w.seq, w.due = row.Seq, row.DueAt
		}
		if !w.due.IsZero() && !w.due.After(by) {
			due = append(due, w)
		}
	}
	slices.SortFunc(due, func(a, b waiter) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.seq, b.seq)) })
	return due
}

func (c *change) step(id string, at time.Time) error {
	if row, ok := c.card(id); ok {
		return c.stepCard(row, at)
	}
	row, _ := c.movement(id)
	c.stepMovement(row, at)
	return nil
}

// advance makes, in order, every change that is due. Each happens at the time it was due and not at the time of a read,
// so that a restart changes no outcome.
func (b *books) advance(now time.Time) error {
	ch := b.begin(now)
	for due := ch.waiters(now); len(due) > 0; due = ch.waiters(now) {
		if err := ch.step(due[0].id, due[0].due); err != nil {
			return err
		}
	}
	if len(ch.cards)+len(ch.movements) == 0 {
		return nil
	}
	return ch.commit()
}

// farFuture is later than anything in the books.
var farFuture = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
