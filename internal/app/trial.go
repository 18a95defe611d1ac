package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/store"
)

// Trial is how a provider's sandbox did what its adapter takes for granted.
type Trial struct {
	// Provider is its name.
	Provider string
	Found    []fulfilment.Observed
}

// ErrProductionTrial says that providers are not tried out where their money is real.
var ErrProductionTrial = errors.New(
	"a probe buys at the providers: it is for the vendors' sandboxes, not for environment production")

// TryProviders tries the providers of all products out, by calls that take effect there. What costs more than spend is
// not bought.
func (c Config) TryProviders(ctx context.Context, spend money.USDC) (all []Trial, err error) {
	if c.Environment == Production {
		return nil, ErrProductionTrial
	}
	s, err := store.Open(ctx, c.StoreConfig())
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	defer s.Close()
	for _, r := range c.Added.registered() {
		if r.Try == nil {
			continue
		}
		trials, err := r.Try(ctx, c, s, spend)
		all = append(all, trials...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}
