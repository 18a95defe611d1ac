package card

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// List lists an owner's cards, newest first, with the issuer's recent status or, while the issuer does not answer, with
// the stored one.
func (c *Cards) List(ctx context.Context, owner x402.Address) ([]Card, error) {
	cards, err := c.Store.Cards(ctx, owner)
	if err != nil {
		return nil, err
	}
	looking, cancel := fault.Within(ctx, listTimeout)
	defer cancel()
	for i, card := range cards {
		// At most one of them is live. The periodic job records a change that is not recorded here.
		if now, err := c.current(looking, card, beforeList); err == nil {
			cards[i] = now
		}
	}
	return cards, nil
}

// Ensure returns the owner's live card. It never issues one.
func (c *Cards) Ensure(ctx context.Context, owner x402.Address) (Card, error) {
	card, err := c.live(ctx, owner, beforeList)
	switch {
	case err == nil:
		return card, nil
	case !errors.Is(err, ErrNotFound):
		return Card{}, err
	}
	paused, err := c.Availability().Paused(ctx)
	if err != nil {
		return Card{}, err
	}
	if paused {
		return Card{}, fault.New(fault.IssuePaused, "This wallet has no card, and no cards are sold at the moment.")
	}
	return Card{}, fault.New(fault.PaidIssueRequired, "This wallet has no card. Buy one at POST /api/card/purchase.")
}

// live finds an owner's live card, with a status that the issuer reported at most within ago. ErrNotFound when there is
// none, or it is no longer live.
func (c *Cards) live(ctx context.Context, owner x402.Address, within time.Duration) (Card, error) {
	card, err := c.Store.Live(ctx, owner)
	if err == nil {
		card, err = c.current(ctx, card, within)
	}
	if err != nil {
		return Card{}, fmt.Errorf("look for the owner's card: %w", err)
	}
	if !card.Status.Live() {
		return Card{}, ErrNotFound
	}
	return card, nil
}

// Own finds an owner's card that is ACTIVE at its issuer now.
func (c *Cards) Own(ctx context.Context, id uuid.UUID, owner x402.Address) (Card, error) {
	return c.own(ctx, id, owner, atOnce)
}

// own finds an owner's card that the issuer has reported as ACTIVE within ago.
func (c *Cards) own(ctx context.Context, id uuid.UUID, owner x402.Address, within time.Duration) (Card, error) {
	card, err := c.find(ctx, id, owner)
	if err != nil {
		return Card{}, err
	}
	if card, err = c.current(ctx, card, within); err != nil {
		return Card{}, err
	}
	if card.Status != Active {
		return Card{}, notActive(card)
	}
	return card, nil
}

// notActive refuses what a card cannot do as it is. To wait helps with one that its issuer opens or has locked; what
// its owner froze, its owner unfreezes.
func notActive(card Card) *fault.Fault {
	f := fault.Newf(fault.CardNotActive, "The card is %s.", card.Status)
	switch {
	case card.Status == Frozen && card.OwnerFrozen:
		f.Detail += " Unfreeze it first."
		return f.Final()
	case card.Status == Closed, card.Status == Failed:
		return f.Final()
	}
	return f
}

// find finds an owner's card, as it is stored.
func (c *Cards) find(ctx context.Context, id uuid.UUID, owner x402.Address) (Card, error) {
	card, err := c.Store.Card(ctx, id, owner)
	if errors.Is(err, ErrNotFound) {
		return Card{}, fault.New(fault.CardNotFound, "This wallet has no card with this id.")
	}
	if err != nil {
		return Card{}, fmt.Errorf("find the card: %w", err)
	}
	return card, nil
}

// BalanceTTL is how long a balance is cached, if nothing of ours moves it meanwhile.
const BalanceTTL = 5 * time.Second

const (
	// balanceErrorTTL is how long the lack of an answer is cached.
	balanceErrorTTL = time.Second
	maxBalances     = 4096
)

// Balance reads the balance of an owner's card from the issuer. However often it is called, the issuer is asked at most
// once in BalanceTTL about a card by each process: it takes only so many calls, and purchases need them.
func (c *Cards) Balance(ctx context.Context, id uuid.UUID, owner x402.Address) (Balance, error) {
	card, err := c.own(ctx, id, owner, BalanceTTL)
	if err != nil {
		return Balance{}, err
	}
	at, err := c.at(card.Provider)
	if err != nil {
		return Balance{}, err
	}
	b, err := c.balances.GetOrPut(card.ID, func() *availability.Memo[Balance] {
		return availability.NewMemo(availability.MemoConfig[Balance]{
			Read: func(ctx context.Context) (Balance, error) { return at.Vault.Balance(ctx, card.Account) },
			TTL:  BalanceTTL, ErrorTTL: balanceErrorTTL, Timeout: c.CallTimeout, Now: c.Now,
		})
	}).Get(ctx)
	if err != nil {
		return Balance{}, fmt.Errorf("read the balance: %w", errors.Join(err, issuerDown()))
	}
	return b, nil
}

// Credentials reads the number and the security code of an owner's card. The caller has just proven to be the owner.
// Nothing of it is stored.
func (c *Cards) Credentials(ctx context.Context, id uuid.UUID, owner x402.Address) (Credentials, error) {
	card, err := c.Own(ctx, id, owner)
	if err != nil {
		return Credentials{}, err
	}
	at, err := c.at(card.Provider)
	if err != nil {
		return Credentials{}, err
	}
	ctx, cancel := fault.Within(ctx, c.CallTimeout)
	defer cancel()
	s, err := at.Vault.Credentials(ctx, card.Account)
	if err != nil {
		return Credentials{}, fmt.Errorf("read the credentials: %w", errors.Join(err, issuerDown()))
	}
	return s, nil
}

func issuerDown() *fault.Fault {
	return fault.New(fault.DependencyDown, "The card issuer does not answer.")
}
