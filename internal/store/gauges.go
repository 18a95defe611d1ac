package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/order"
)

// Settling and reviewed orders count, too. Unpaid ones do not: they wait for a buyer.
const oldestOrdersSQL = `
	SELECT kind, min(created_at) FROM orders
	WHERE status IN ('settling', 'settled', 'provisioning', 'refund_pending', 'operator_review') GROUP BY kind`

// PoolUse is how the pool of connections is used.
type PoolUse struct {
	Used, Idle, Max int64
	// Waits counts the calls that found no free connection, and Waited is how long all of them waited.
	Waits  int64
	Waited time.Duration
}

// PoolUse is how the pool of connections is used now.
func (s *Store) PoolUse() PoolUse {
	now := s.pool.Stat()
	return PoolUse{
		Used: int64(now.AcquiredConns()), Idle: int64(now.IdleConns()), Max: int64(now.MaxConns()),
		Waits: now.EmptyAcquireCount(), Waited: now.EmptyAcquireWaitTime(),
	}
}

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

// The last deliveries of a bounded time, and no more than a bounded number of them, so that the cost does not grow with
// the sales.
const deliveryTimesSQL = `
	SELECT o.kind, count(*), percentile_disc(0.5) WITHIN GROUP (ORDER BY greatest(f.at - p.at, interval '0'))
	FROM (
		SELECT id, owner, kind FROM orders WHERE updated_at > $1 AND status = 'fulfilled' ORDER BY updated_at DESC LIMIT $2
	) o
	JOIN timeline p ON p.order_id = o.id AND p.owner = o.owner AND p.to_status = 'settled'
	JOIN timeline f ON f.order_id = o.id AND f.owner = o.owner AND f.to_status = 'fulfilled'
	GROUP BY o.kind`

// DeliveryTimes are how long the last deliveries of each kind took that have ended since a time, at most as many as are
// named.
func (o Orders) DeliveryTimes(
	ctx context.Context, since time.Time, most int,
) (map[order.Kind]availability.DeliveryTime, error) {
	rows, err := o.s.pool.Query(ctx, deliveryTimesSQL, since, most)
	if err != nil {
		return nil, fmt.Errorf("read the delivery times: %w", mapError(err))
	}
	times := map[order.Kind]availability.DeliveryTime{}
	var kind order.Kind
	var one availability.DeliveryTime
	_, err = pgx.ForEachRow(rows, []any{&kind, &one.Count, &one.Median}, func() error { times[kind] = one; return nil })
	if err != nil {
		return nil, fmt.Errorf("read the delivery times: %w", mapError(err))
	}
	return times, nil
}
