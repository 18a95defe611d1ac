package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/order"
)

// Settling and reviewed orders count, too. Unpaid ones do not: they wait for a buyer.
const oldestOrdersSQL = `
	SELECT kind, min(created_at) FROM orders
	WHERE status IN ('settling', 'settled', 'provisioning', 'refund_pending', 'operator_review') GROUP BY kind`

// Oldest is the creation time of the oldest claimed order of each kind that is not final.
func (o Orders) Oldest(ctx context.Context) (map[order.Kind]time.Time, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	rows, err := o.s.pool.Query(ctx, oldestOrdersSQL)
	if err != nil {
		return nil, fmt.Errorf("find the oldest orders: %w", mapError(err))
	}
	oldest := map[order.Kind]time.Time{}
	var kind order.Kind
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&kind, &at}, func() error { oldest[kind] = at; return nil })
	if err != nil {
		return nil, fmt.Errorf("find the oldest orders: %w", mapError(err))
	}
	return oldest, nil
}
