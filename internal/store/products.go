package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/reconcile"
)

// Product is the store's part of a product. Its tables and statements are in the product's own file.
type Product struct {
	Kind order.Kind
	// atIssuer says that its provider is the card issuer.
	atIssuer bool
	// records reads the product's records of some orders, for comparisons; nil when there are none.
	records func(b booksReader, orders []string) (reconcile.Goods, error)
	// referencesSQL selects those of some references that its rows have; empty when it stores none.
	referencesSQL string
	// explains reports whether each of some references belongs to an order, for a product that stores none.
	explains func(s *Store, ctx context.Context, references []uuid.UUID) (bool, error)
}

// Explains reports whether all goods of a product, by their references at the provider, belong to orders of ours. Read
// the provider first: a reference is stored here before the provider is called.
func (s *Store) Explains(ctx context.Context, kind order.Kind, references []uuid.UUID) (bool, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	for _, p := range s.products {
		switch {
		case p.Kind != kind:
		case p.explains != nil:
			return p.explains(s, ctx, references)
		case p.referencesSQL != "":
			unknown := `SELECT EXISTS (SELECT FROM unnest($1::uuid[]) r WHERE r NOT IN (` + p.referencesSQL + `))`
			var found bool
			err := s.pool.QueryRow(ctx, unknown, references).Scan(&found)
			return !found, mapError(err)
		}
	}
	return false, fmt.Errorf("explain the goods of %s: no such product", kind)
}
