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
	// A claim holds a shared lock of its product until it ends; a kill switch takes the exclusive one. It is an
	// advisory lock, because a shared row lock is a write.
	sellingLockSQL = "SELECT pg_advisory_xact_lock_shared(hashtextextended($1, 0))"
	closingLockSQL = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"

	// A statement of its own after the lock, so that it sees what the previous holder has written. It divides by zero
	// while the sale is paused, so that the server rolls the claim back without a round trip.
	sellingSQL = "SELECT 1 / (1 - count(*)) FROM kill_switches WHERE id = $1 AND paused"

	// A claim ends within its transaction's timeouts, so a switch that waits longer gets the lock.
	waitForClaimsSQL = "SELECT set_config('lock_timeout', '8s', true), set_config('statement_timeout', '9s', true)"
)

// selling queues the check of a product's kill switch, which fails the transaction with availability.ErrPaused. It is
// first in the transaction, and prevents that the switch is set before the commit.
func selling(tx *ent.Tx, product order.Kind) {
	later(tx, sellingLockSQL, saleLock(product))
	pgxOf(tx).later(statement{sql: sellingSQL, args: []any{product}, refused: func(err *pgconn.PgError) error {
		if err.Code != divisionByZero {
			return err
		}
		return fmt.Errorf("%w: %w", availability.ErrPaused, err)
	}})
}

// closing waits for the running claims of a product, and makes new ones wait until the transaction ends, so that they
// see what it has written.
func closing(ctx context.Context, tx *ent.Tx, product order.Kind) error {
	later(tx, waitForClaimsSQL)
	later(tx, closingLockSQL, saleLock(product))
	return pgxOf(tx).flush(ctx)
}

func saleLock(product order.Kind) string { return "sale/" + string(product) }
