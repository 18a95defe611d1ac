package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/reconcile"
)

// Product is the store's part of a product. Its tables and statements are in the product's own file; a product without
// any has Goods and RefOf instead.
type Product struct {
	Kind order.Kind
	// Goods is what is compared with the books for a product without rows; nil for one that has them.
	Goods reconcile.Goods
	// RefOf derives the reference of an attempt at the delivery of an order by the order's name, for a product whose rows
	// do not keep it; nil for one whose rows do.
	RefOf func(name string, attempt int) fulfilment.Ref
	// atIssuer says that its provider is the card issuer.
	atIssuer bool
	// records reads the product's records of some orders, for comparisons; nil when there are none.
	records func(b booksReader, orders []string) (reconcile.Goods, error)
	// referencesSQL selects those of some references that its rows have; empty when it stores none.
	referencesSQL string
	// ownersSQL selects the owners of its rows by the provider's names of them, $1, and by our references, $2; empty when
	// it has none.
	ownersSQL string
	// jobs are the kinds of its jobs whose unique key is an order.
	jobs []job.Kind
	// returns are the kinds of those that refund what was delivered, which a refund by hand ends.
	returns []job.Kind
}

// goods is what is compared with the books of some orders; nil when there is nothing.
func (p Product) goods(b booksReader, orders []string) (reconcile.Goods, error) {
	if p.records == nil {
		return p.Goods, nil
	}
	return p.records(b, orders)
}

// Explains reports whether all goods of a product, by their references at the provider, belong to orders of ours. Read
// the provider first: a reference is stored here before the provider is called.
func (s *Store) Explains(ctx context.Context, kind order.Kind, references []uuid.UUID) (bool, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	for _, p := range s.products {
		switch {
		case p.Kind != kind:
		case p.RefOf != nil:
			return s.derives(ctx, p, references)
		case p.referencesSQL != "":
			unknown := `SELECT EXISTS (SELECT FROM unnest($1::uuid[]) r WHERE r NOT IN (` + p.referencesSQL + `))`
			var found bool
			err := s.pool.QueryRow(ctx, unknown, references).Scan(&found)
			return !found, mapError(err)
		}
	}
	return false, fmt.Errorf("explain the goods of %s: no such product", kind)
}

// namesSQL reads what references are derived from: the orders' names and their attempts.
const namesSQL = `SELECT coalesce('adopted:' || adopted_reference, reference::text, id), delivery_attempt FROM orders
	WHERE kind = $1 AND status NOT IN ('payment_required', 'settling', 'expired')`

// derives reports whether each of some references is derived from an order.
func (s *Store) derives(ctx context.Context, p Product, references []uuid.UUID) (bool, error) {
	unknown := map[uuid.UUID]bool{}
	for _, ref := range references {
		unknown[ref] = true
	}
	if len(unknown) == 0 {
		return true, nil
	}
	rows, err := s.pool.Query(ctx, namesSQL, p.Kind)
	if err != nil {
		return false, mapError(err)
	}
	var name string
	var attempts int
	_, err = pgx.ForEachRow(rows, []any{&name, &attempts}, func() error {
		for n := 1; n <= attempts; n++ {
			delete(unknown, uuid.UUID(p.RefOf(name, n)))
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("read the orders of %s: %w", p.Kind, mapError(err))
	}
	return len(unknown) == 0, nil
}
