package store

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// paidFor are the orders of a kind whose goods are owed, or may be.
const paidFor = `o.kind = $1 AND o.status IN ('settling', 'settled', 'provisioning', 'operator_review')`

// names reads a list of names.
func (s *Store) names(ctx context.Context, sql string, args ...any) ([]string, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	rows, err := s.pool.Query(ctx, s.shards.read(sql), args...)
	if err != nil {
		return nil, mapError(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return all, mapError(err)
}
