package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/order"
)

const (
	// A claim holds shared locks of its switches until it ends; setting one takes the exclusive lock. They are advisory
	// locks, because a shared row lock is a write.
	sellingLockSQL = "SELECT pg_advisory_xact_lock_shared(hashtextextended(name, 0)) FROM unnest($1::text[]) name"
	closingLockSQL = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"

	// A statement of its own after the lock, so that it sees what the previous holder has written. It divides by zero
	// while the sale is paused, so that the server rolls the claim back without a round trip.
	sellingSQL = `SELECT 1 / (CASE WHEN EXISTS (SELECT FROM kill_switches WHERE id = ANY($1::varchar[]) AND paused)
		THEN 0 ELSE 1 END)`

	// A claim ends within its transaction's timeouts, so a switch that waits longer gets the lock.
	waitForClaimsSQL = "SELECT set_config('lock_timeout', '8s', true), set_config('statement_timeout', '9s', true)"
)

// selling queues the check of the kill switches that close a sale, which fails the transaction with
// availability.ErrPaused. It is first in the transaction, and prevents that one of them is set before the commit.
func selling(tx *ent.Tx, switches []order.Kind) {
	lockSales(tx, switches)
	pgxOf(tx).later(statement{sql: sellingSQL, args: []any{switches}, refused: func(err *pgconn.PgError) error {
		if err.Code != divisionByZero {
			return err
		}
		return fmt.Errorf("%w: %w", availability.ErrPaused, err)
	}})
}

// switchesOf are the kill switches that close a claim: its product's, and that of the provider it is sold over.
func switchesOf(p checkout.ClaimRequest) []order.Kind {
	if p.Provider == "" {
		return []order.Kind{p.Order.Kind}
	}
	return []order.Kind{p.Order.Kind, availability.OfProvider(p.Provider)}
}

// lockSales queues the shared locks of switches. All transactions take them in the order of their names: a switch that
// waits for one of them lets the next that asks for it wait.
func lockSales(tx *ent.Tx, switches []order.Kind) {
	locks := make([]string, len(switches))
	for i, of := range switches {
		locks[i] = saleLock(of)
	}
	slices.Sort(locks)
	later(tx, sellingLockSQL, slices.Compact(locks))
}

// closing waits for the running claims that a switch closes, and makes new ones wait until the transaction ends, so
// that they see what it has written.
func closing(ctx context.Context, tx *ent.Tx, of order.Kind) error {
	later(tx, waitForClaimsSQL)
	later(tx, closingLockSQL, saleLock(of))
	return pgxOf(tx).flush(ctx)
}

func saleLock(of order.Kind) string { return "sale/" + string(of) }
