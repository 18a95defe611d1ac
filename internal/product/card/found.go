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

// Found implements checkout.Finder: the issuer has a load under the order's reference.
func (t Topups) Found(ctx context.Context, o order.Order) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, t.CallTimeout)
	defer cancel()
	return found(t.Issuer.Moved(ctx, LoadRef(o.Name(), o.Delivery)))
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
