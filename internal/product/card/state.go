package card

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/job"
)

// How old what the issuer last said of a card may be: no time at all before money or secrets move.
const (
	atOnce = 0
	// beforeList is for owners who look again and again.
	beforeList  = 5 * time.Second
	listTimeout = 2 * time.Second
)

// current is a card as its issuer reports it, at most as long ago as within. While the issuer does not answer,
// or says nothing that we know, what is known decides.
func (c *Cards) current(ctx context.Context, card Card, within time.Duration) (Card, error) {
	if card.Status != Active && card.Status != Frozen {
		return card, nil
	}
	if !c.looks.due(card.ID, c.Now(), within) {
		return card, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.CallTimeout)
	defer cancel()
	account, err := c.Issuer.Account(ctx, card.Ref)
	if err != nil {
		c.Log.WarnContext(ctx, "card state not read", slog.String("card", card.ID.String()), slog.Any("error", err))
		return card, nil
	}
	status, known := account.State.Status()
	if !known || status == card.Status {
		return card, nil
	}
	if err := c.observe(ctx, Seen{card.Ref, status}); err != nil {
		return Card{}, err
	}
	card.Status = status
	return card, nil
}

// observe writes what the issuer reports, where that is news.
func (c *Cards) observe(ctx context.Context, seen ...Seen) error {
	changed, err := c.Store.Observe(ctx, seen...)
	if err != nil {
		return fmt.Errorf("record what the issuer reports: %w", err)
	}
	for _, card := range changed {
		c.Log.InfoContext(ctx, "card state changed",
			slog.String("card", card.ID.String()), slog.String("status", string(card.Status)))
	}
	return nil
}

// StateJob is the kind of the job that reads what became of cards at their issuer.
const StateJob job.Kind = "card_states"

// StateArgs asks for one reading.
type StateArgs struct{}

// Kind implements job.Args.
func (StateArgs) Kind() job.Kind { return StateJob }

// ReadStates handles the job: it reads the issuer's list page by page, and writes what differs. An issuer that
// does not answer is asked again in the next period.
func (c *Cards) ReadStates(ctx context.Context, _ *job.Lease) (job.Outcome, error) {
	for after := ""; ; {
		page, next, err := c.statePage(ctx, after)
		if err != nil {
			c.Log.WarnContext(ctx, "card states not read", slog.Any("error", errors.Join(err, ctx.Err())))
			return job.Done(), nil
		}
		var seen []Seen
		for _, a := range page {
			if status, known := a.State.Status(); known {
				seen = append(seen, Seen{a.Ref, status})
			}
		}
		if err := c.observe(ctx, seen...); err != nil {
			return job.Outcome{}, err
		}
		if next == "" {
			return job.Done(), nil
		}
		after = next
	}
}

func (c *Cards) statePage(ctx context.Context, after string) ([]Account, string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.CallTimeout)
	defer cancel()
	return c.Roll.Accounts(ctx, after)
}

// looks remembers for a moment when the issuer was asked for a card's state.
type looks struct {
	mu sync.Mutex
	at map[uuid.UUID]time.Time
}

// maxLooks bounds what is remembered; without it a card is asked for once more.
const maxLooks = 10_000

// due says that a card is to be asked for, and remembers that it is.
func (l *looks) due(id uuid.UUID, now time.Time, within time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, asked := l.at[id]; asked && now.Sub(at) < within && !now.Before(at) {
		return false
	}
	if l.at == nil || len(l.at) >= maxLooks {
		l.at = map[uuid.UUID]time.Time{}
	}
	l.at[id] = now
	return true
}
