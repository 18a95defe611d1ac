package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"entgo.io/ent/dialect/sql"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/ent/hold"
	"github.com/roamcard/roamcard/internal/mutant"
	"github.com/roamcard/roamcard/internal/order"
)

// takeHolds queues the taking of an order's shares of what is scarce, each under the resource's lock, so
// that two orders are never promised the same. When one does not fit, the transaction fails with an
// *order.Shortage. It comes last, for the locks are held from here to the commit.
func takeHolds(tx *ent.Tx, id order.ID, holds []order.Hold, now time.Time) {
	// One order for everyone, or two placements could wait for each other.
	holds = slices.SortedFunc(slices.Values(holds), func(a, b order.Hold) int { return strings.Compare(a.Resource, b.Resource) })
	for _, h := range holds {
		lock(tx, h.Resource)
		limit := h.Limit
		if mutant.HoldsUnlimited {
			limit = math.MaxInt64
		}
		pgxOf(tx).later(queued{
			sql:     takeHoldSQL,
			args:    []any{uuid.Must(uuid.NewV7()), id, h.Resource, h.Units, now, h.AsOf, limit},
			refused: func(err *pgconn.PgError) error { return refusedHold(h, err) },
		})
	}
}

// takeHoldSQL adds up like sumHolds. What does not fit is inserted without units, which the table refuses:
// so the server itself undoes the transaction, and nobody waits for its answer under the lock.
const takeHoldSQL = `
	INSERT INTO holds (id, order_id, resource, units, created_at)
	SELECT $1, $2, $3::varchar, CASE WHEN coalesce(sum(units), 0) + $4::bigint <= $7::bigint THEN $4::bigint ELSE 0 END, $5::timestamptz
	FROM holds WHERE resource = $3 AND (released_at IS NULL OR released_at > $6)`

func refusedHold(h order.Hold, err *pgconn.PgError) error {
	if err.ConstraintName != "holds_units" {
		return err
	}
	return fmt.Errorf("%w: %w", &order.Shortage{Hold: h}, err)
}

// sumHolds is what is held of a resource, with what was given back after asOf: a limit read then does
// not show yet what became of it.
func sumHolds(ctx context.Context, c *ent.HoldClient, resource string, asOf time.Time) (int64, error) {
	var rows []struct {
		Sum sql.NullInt64 `json:"sum"`
	}
	err := c.Query().
		Where(hold.Resource(resource), hold.Or(hold.ReleasedAtIsNil(), hold.ReleasedAtGT(asOf))).
		Aggregate(ent.As(ent.Sum(hold.FieldUnits), "sum")).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	return rows[0].Sum.Int64, nil
}

func releaseHolds(tx *ent.Tx, id order.ID, now time.Time) {
	later(tx, "UPDATE holds SET released_at = $2 WHERE order_id = $1 AND released_at IS NULL", id, now)
}

// lock holds the row of a named mutex until the transaction ends.
func lock(tx *ent.Tx, name string) {
	// The no-op update is what locks a row that is there already.
	later(tx, "INSERT INTO mutexes (id) VALUES ($1) ON CONFLICT (id) DO UPDATE SET id = excluded.id", name)
}
