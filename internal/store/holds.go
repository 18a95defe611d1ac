package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"entgo.io/ent/dialect/sql"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/ent/hold"
	"github.com/roamcard/roamcard/internal/mutant"
	"github.com/roamcard/roamcard/internal/order"
)

// takeHolds takes an order's shares of what is scarce, each under the resource's lock, so that two
// orders are never promised the same. The error is an *order.Shortage when one does not fit.
func takeHolds(ctx context.Context, tx *ent.Tx, id order.ID, holds []order.Hold, now time.Time) error {
	// One order for everyone, or two placements could wait for each other.
	holds = slices.SortedFunc(slices.Values(holds), func(a, b order.Hold) int { return strings.Compare(a.Resource, b.Resource) })
	for _, h := range holds {
		if err := lock(ctx, tx, h.Resource); err != nil {
			return err
		}
		held, err := sumHolds(ctx, tx.Hold, h.Resource, h.AsOf)
		if err != nil {
			return err
		}
		if held+h.Units > h.Limit && !mutant.HoldsUnlimited {
			return &order.Shortage{Hold: h}
		}
		err = tx.Hold.Create().SetOrderID(string(id)).SetResource(h.Resource).SetUnits(h.Units).SetCreatedAt(now).Exec(ctx)
		if err != nil {
			return err
		}
	}
	return nil
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

func releaseHolds(ctx context.Context, tx *ent.Tx, id order.ID, now time.Time) error {
	return tx.Hold.Update().Where(hold.OrderID(string(id)), hold.ReleasedAtIsNil()).SetReleasedAt(now).Exec(ctx)
}

// lock holds the row of a named mutex until the transaction ends.
func lock(ctx context.Context, tx *ent.Tx, name string) error {
	// The no-op update is what locks a row that is there already.
	_, err := raw(tx).Exec(ctx, `INSERT INTO mutexes (id) VALUES ($1) ON CONFLICT (id) DO UPDATE SET id = excluded.id`, name)
	if err != nil {
		return fmt.Errorf("lock %s: %w", name, err)
	}
	return nil
}
