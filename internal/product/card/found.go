package card

import (
	"context"
	"errors"
	"fmt"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/order"
)

// Found implements checkout.Finder: the issuer has a card under the order's reference.
func (c *Cards) Found(ctx context.Context, o order.Order) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.CallTimeout)
	defer cancel()
	return found(c.Issuer.Account(ctx, openingRef(o)))
}

// Loaded reports whether the issuer has a load under a reference.
func (c *Cards) Loaded(ctx context.Context, ref fulfilment.Ref) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.CallTimeout)
	defer cancel()
	return found(c.Issuer.Moved(ctx, ref))
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
