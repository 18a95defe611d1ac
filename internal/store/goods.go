package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
)

// Goods are what providers say they made for us, by our references.
type Goods struct{ Cards, Loads, Esims []uuid.UUID }

const (
	unknownCardsSQL = `SELECT EXISTS (SELECT FROM unnest($1::uuid[]) r WHERE NOT EXISTS (SELECT FROM cards WHERE reference = r))`
	unknownEsimsSQL = `SELECT EXISTS (SELECT FROM unnest($1::uuid[]) r WHERE NOT EXISTS (SELECT FROM esim_profiles WHERE reference = r))`
	// A top-up's reference is derived and not kept: it follows from the order's name and its attempts.
	topupNamesSQL = `SELECT coalesce('adopted:' || adopted_reference, reference::text, id), delivery_attempt FROM orders
		WHERE kind = $1 AND status NOT IN ('payment_required', 'settling', 'expired')`
)

// Explains reports whether each of the goods belongs to an order of ours. Read the providers first: what they make is named here
// before they are asked for it.
func (s *Store) Explains(ctx context.Context, g Goods) (bool, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	for _, of := range []struct {
		sql  string
		refs []uuid.UUID
	}{{unknownCardsSQL, g.Cards}, {unknownEsimsSQL, g.Esims}} {
		var unknown bool
		if err := s.pool.QueryRow(ctx, of.sql, of.refs).Scan(&unknown); err != nil || unknown {
			return false, mapError(err)
		}
	}
	return s.explainsLoads(ctx, g.Loads)
}

func (s *Store) explainsLoads(ctx context.Context, loads []uuid.UUID) (bool, error) {
	unknown := map[uuid.UUID]bool{}
	for _, ref := range loads {
		unknown[ref] = true
	}
	if len(unknown) == 0 {
		return true, nil
	}
	rows, err := s.pool.Query(ctx, topupNamesSQL, order.CardTopup)
	if err != nil {
		return false, mapError(err)
	}
	var name string
	var attempts int
	_, err = pgx.ForEachRow(rows, []any{&name, &attempts}, func() error {
		for n := 1; n <= attempts; n++ {
			delete(unknown, uuid.UUID(card.LoadRef(name, n)))
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("read the top-ups: %w", mapError(err))
	}
	return len(unknown) == 0, nil
}
