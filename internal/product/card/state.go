package card

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
)

// How old the issuer's last report of a card may be. Before a payment or a reveal it has to be current.
const (
	atOnce = 0
	// beforeTerms bounds the calls that others can cause who know an order's address.
	beforeTerms = 2 * time.Second
	// beforeList is for owners who poll their list.
	beforeList  = 5 * time.Second
	listTimeout = 2 * time.Second
)

// current is a card with the status that its issuer reported at most within ago. While the issuer does not answer, or
// reports an unknown state, the stored status counts.
func (c *Cards) current(ctx context.Context, card Card, within time.Duration) (Card, error) {
	if card.Status != Active && card.Status != Frozen {
		return card, nil
	}
	if !c.looks.due(card.ID, c.Now(), within) {
		return card, nil
	}
	ctx, cancel := fault.Within(ctx, c.CallTimeout)
	defer cancel()
	var account Account
	asOf := c.Now()
	at, err := c.at(card.Provider)
	if err == nil {
		account, err = at.Issuer.Account(ctx, card.Ref)
	}
	if err != nil {
		if fault.Gone(ctx) {
			return card, nil // the owner did not wait
		}
		c.Log.WarnContext(ctx, "card state not read", slog.String("card", card.ID.String()), slog.Any("error", err))
		return card, nil
	}
	status, known := account.State.Status()
	if !known || status == card.Status {
		return card, nil
	}
	if err := c.observe(ctx, Seen{card.Ref, status, card.Provider, asOf}); err != nil {
		return Card{}, err
	}
	card.Status = status
	return card, nil
}

// Refresh reads cards from an issuer, by its names of them or by our references, and stores the changes of their
// states. What is none of our cards there is left out.
func (c *Cards) Refresh(ctx context.Context, provider string, accounts []string, refs []fulfilment.Ref) error {
	found, err := c.Store.ByNames(ctx, provider, accounts, refs)
	if err != nil {
		return fmt.Errorf("find the cards: %w", err)
	}
	for _, card := range found {
		c.balances.Delete(card.ID)
		if _, err := c.current(ctx, card, atOnce); err != nil {
			return err
		}
	}
	return nil
}

// observe stores the changes that the issuer reports.
func (c *Cards) observe(ctx context.Context, seen ...Seen) error {
	changed, err := c.Store.Observe(ctx, seen...)
	if err != nil {
		return fmt.Errorf("record the issuer's report: %w", err)
	}
	for _, card := range changed {
		c.Log.InfoContext(ctx, "card state changed",
			slog.String("card", card.ID.String()), slog.String("status", string(card.Status)))
	}
	return nil
}

// StateJob is the kind of the job that reads the states of all cards at the issuer.
const StateJob job.Kind = "card_states"

// StateArgs are the arguments of that job: none.
type StateArgs struct{}

// Kind implements job.Args.
func (StateArgs) Kind() job.Kind { return StateJob }

// ReadStates handles the job: it reads the list of each issuer page by page, and stores the changes. When an issuer
// does not answer, the job of the next period reads again.
func (c *Cards) ReadStates(ctx context.Context, _ *job.Lease) (job.Outcome, error) {
	for _, p := range c.providers {
		if err := c.readStates(ctx, p); err != nil {
			return job.Outcome{}, err
		}
	}
	return job.Done(), nil
}

func (c *Cards) readStates(ctx context.Context, p *provider) error {
	for after := ""; ; {
		asOf := c.Now()
		page, next, err := c.statePage(ctx, p, after)
		if err != nil {
			c.Log.WarnContext(ctx, "card states not read", slog.String("provider", p.Name),
				slog.Any("error", errors.Join(err, ctx.Err())))
			return nil
		}
		var seen []Seen
		for _, a := range page {
			if status, known := a.State.Status(); known {
				seen = append(seen, Seen{a.Ref, status, p.Name, asOf})
			}
		}
		if err := c.observe(ctx, seen...); err != nil {
			return err
		}
		if next == "" {
			return nil
		}
		after = next
	}
}

func (c *Cards) statePage(ctx context.Context, p *provider, after string) ([]Account, string, error) {
	ctx, cancel := fault.Within(ctx, c.CallTimeout)
	defer cancel()
	return p.Lister.Accounts(ctx, after)
}

// looks caches when the issuer was last asked for a card's state.
type looks struct {
	mu sync.Mutex
	at map[uuid.UUID]time.Time
}

// maxLooks bounds the cache. A dropped entry costs one more call.
const maxLooks = 10_000

// due reports whether the issuer has to be asked for a card, and records that it is.
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
