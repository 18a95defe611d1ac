package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/esim"
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
	"a probe opens cards and may order eSIMs: it is for the vendors' sandboxes, not for environment production")

// TryProviders tries all providers out, by calls that take effect there. Each supplier's cheapest plan is ordered if it
// costs at most spend, with what the database remembers of orders that a supplier takes no reference for.
func (c Config) TryProviders(ctx context.Context, spend money.USDC) (all []Trial, err error) {
	if c.Environment == Production {
		return nil, ErrProductionTrial
	}
	s, err := store.Open(ctx, store.Config{
		URL: c.DatabaseURL.Reveal(), MaxConns: 2, Now: time.Now, Products: c.StoredProducts(),
	})
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	defer s.Close()
	issuers, err := c.dialIssuers(discard(), nil)
	if err != nil {
		return nil, err
	}
	for _, of := range issuers {
		all = append(all, Trial{of.Name, card.Try(ctx, of.client, c.IssuerCallTimeout)})
	}
	journal := func(name string) esim.Journal { return s.SupplierJournal(name) }
	suppliers, err := c.dialSuppliers(journal, discard(), nil)
	if err != nil {
		return nil, err
	}
	for _, of := range suppliers {
		found := esim.Try(ctx, of.client, of.client.Traits(), spend, of.callTimeout())
		all = append(all, Trial{of.Name, found})
	}
	return all, nil
}
