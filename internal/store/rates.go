package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/limit"
)

// The counts go by the database's clock, the one that all processes share. A turn too many changes no row.
const (
	takeTurnSQL = `
		INSERT INTO rate_limits (id, resets_at) VALUES ($1, now() + $2::interval)
		ON CONFLICT (id) DO UPDATE SET resets_at = greatest(rate_limits.resets_at, now()) + $2::interval
		WHERE greatest(rate_limits.resets_at, now()) + $2::interval <= now() + $3::interval RETURNING 1`

	wholeAtSQL = `SELECT greatest(resets_at - now(), interval '0') FROM rate_limits WHERE id = $1`

	pruneRatesSQL = `
		WITH old AS (SELECT id FROM rate_limits WHERE resets_at < now() LIMIT $1 FOR UPDATE SKIP LOCKED)
		DELETE FROM rate_limits WHERE id IN (SELECT id FROM old)`

	// Names without a number are as many as there are callers. One that is locked or waited for stays.
	pruneLocksSQL = `
		WITH old AS (SELECT id FROM locks WHERE position('#' in id) = 0 LIMIT $1 FOR UPDATE SKIP LOCKED)
		DELETE FROM locks WHERE id IN (SELECT id FROM old)`
)

// turnTooMany ends a transaction that counted a request too many.
type turnTooMany struct{ limit.Turn }

// Error implements error.
func (e *turnTooMany) Error() string { return fmt.Sprintf("too many requests of class %s", e.Class) }

func turnID(t limit.Turn) string { return string(t.Class) + "/" + t.Name }

// takeTurns queues the counting of requests, which hold their callers' rows until the commit. One too many
// undoes the transaction, see refusedTurn.
func takeTurns(tx *ent.Tx, turns []limit.Turn) {
	for _, t := range turns {
		touchOne(tx, &turnTooMany{t}, takeTurnSQL, turnID(t), t.Each(), t.Each()*time.Duration(t.Rate.Count))
	}
}

// refusedTurn makes the *limit.Refusal of a transaction that counted a request too many; other errors stay.
func (s *Store) refusedTurn(ctx context.Context, err error) error {
	many, ok := errors.AsType[*turnTooMany](err)
	if !ok {
		return err
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	var whole time.Duration
	if err := s.pool.QueryRow(ctx, wholeAtSQL, turnID(many.Turn)).Scan(&whole); err != nil {
		return fmt.Errorf("read the rate: %w", mapError(err))
	}
	return many.Refusal(whole)
}

// PruneRates deletes up to limit counts of callers whose rate is whole again, and says how many.
func (s *Store) PruneRates(ctx context.Context, limit int) (int, error) {
	return s.pruneRows(ctx, pruneRatesSQL, limit)
}

// PruneLocks deletes up to limit locks that were made for one caller or one row and are not held, and says how
// many.
func (s *Store) PruneLocks(ctx context.Context, limit int) (int, error) {
	return s.pruneRows(ctx, pruneLocksSQL, limit)
}

func (s *Store) pruneRows(ctx context.Context, sql string, args ...any) (int, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	tag, err := s.pool.Exec(ctx, sql, args...)
	if err != nil {
		return 0, fmt.Errorf("prune what is over: %w", mapError(err))
	}
	return int(tag.RowsAffected()), nil
}
