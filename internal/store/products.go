package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/reconcile"
)

// Product is what the store knows of a product. Its tables and statements are in the product's own file.
type Product struct {
	Kind order.Kind
	// atIssuer says that its provider is the card issuer.
	atIssuer bool
	// records reads what is compared with the books of some orders; nil when there is nothing.
	records func(b booksReader, orders []string) (reconcile.Goods, error)
	// referencesSQL finds those of some references that its rows have; empty when it keeps none.
	referencesSQL string
	// explains reports whether each of some references belongs to an order, for a product that keeps none.
	explains func(s *Store, ctx context.Context, references []uuid.UUID) (bool, error)
}

// Explains reports whether each of the goods of a product, by its provider's references, belongs to an order of ours.
// Read the provider first: what it makes is named here before it is asked for it.
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
