package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/order"
)

const (
	// A claim holds its product's lock together with others until it ends; a switch waits for all of them. The
	// lock is the server's own and not a row's: claims would write a row each time they share it.
	sellingLockSQL = "SELECT pg_advisory_xact_lock_shared(hashtextextended($1, 0))"
	closingLockSQL = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"

	// A statement of its own, after the lock: only then does it see what the switch that held the lock has written.
	// It divides by zero while the sale is paused, so the server itself undoes the claim and nobody waits for it.
	sellingSQL = "SELECT 1 / (1 - count(*)) FROM kill_switches WHERE id = $1 AND paused"

	// A claim ends within the limits of its transaction, so a switch that waits longer than those gets its turn.
	patientSQL = "SELECT set_config('lock_timeout', '8s', true), set_config('statement_timeout', '9s', true)"
)

// selling queues what makes a transaction fail with availability.ErrPaused when operators have closed the sale of a
// product. It comes first: from then on to the commit the switch cannot be set.
func selling(tx *ent.Tx, product order.Kind) {
	later(tx, sellingLockSQL, saleLock(product))
	pgxOf(tx).later(reviewItem{sql: sellingSQL, args: []any{product}, refused: func(err *pgconn.PgError) error {
		if err.Code != divisionByZero {
			return err
		}
		return fmt.Errorf("%w: %w", availability.ErrPaused, err)
	}})
}

// closing waits for the claims of a product that are on their way, and keeps new ones waiting until the
// transaction ends. They then find what it has written.
func closing(ctx context.Context, tx *ent.Tx, product order.Kind) error {
	later(tx, patientSQL)
	later(tx, closingLockSQL, saleLock(product))
	return pgxOf(tx).flush(ctx)
}

func saleLock(product order.Kind) string { return "sale/" + string(product) }
