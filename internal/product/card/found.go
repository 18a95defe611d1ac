package card

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// Found implements checkout.Finder: the issuer that the order names has a card under the order's reference. A card
// at another one is unexplained.
func (c *Cards) Found(ctx context.Context, o order.Order) (bool, error) {
	of, err := readItem(o.Item)
	if err != nil {
		return false, err
	}
	at, err := c.at(of.Provider)
	if err != nil {
		return false, err
	}
	ctx, cancel := fault.Within(ctx, c.CallTimeout)
	defer cancel()
	return found(at.Issuer.Account(ctx, openingRef(o)))
}

// Loaded reports whether the issuer has a load of an owner's card under a reference. Without a card, none of the
// owner's cards may have it.
func (c *Cards) Loaded(ctx context.Context, owner x402.Address, id uuid.UUID, ref fulfilment.Ref) (bool, error) {
	cards, err := c.Store.Cards(ctx, owner)
	if err != nil {
		return false, fmt.Errorf("find the cards: %w", err)
	}
	for _, on := range cards {
		if on.Account == "" || (id != uuid.Nil && on.ID != id) {
			continue
		}
		if has, err := c.loaded(ctx, on, ref); err != nil || has {
			return has, err
		}
	}
	return false, nil
}

func (c *Cards) loaded(ctx context.Context, on Card, ref fulfilment.Ref) (bool, error) {
	at, err := c.at(on.Provider)
	if err != nil {
		return false, err
	}
	ctx, cancel := fault.Within(ctx, c.CallTimeout)
	defer cancel()
	return found(at.Issuer.Moved(ctx, on.Account, ref))
}

func found[T any](_ T, err error) (bool, error) {
	if errors.Is(err, fulfilment.ErrNoRef) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask the issuer: %w", errors.Join(err, issuerDown()))
	}
	return true, nil
}
