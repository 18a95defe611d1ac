package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/limit"
)

// The counters use the database's clock, which all processes share. A request above the limit changes no row.
const (
	countHitSQL = `
		INSERT INTO rate_limits (id, resets_at) VALUES ($1, now() + $2::interval)
		ON CONFLICT (id) DO UPDATE SET resets_at = greatest(rate_limits.resets_at, now()) + $2::interval
		WHERE greatest(rate_limits.resets_at, now()) + $2::interval <= now() + $3::interval RETURNING 1`

	wholeAtSQL = `SELECT greatest(resets_at - now(), interval '0') FROM rate_limits WHERE id = $1`

	pruneRatesSQL = `
		WITH old AS (SELECT id FROM rate_limits WHERE resets_at < now() LIMIT $1 FOR UPDATE SKIP LOCKED)
		DELETE FROM rate_limits WHERE id IN (SELECT id FROM old)`

	// Locks without a shard number are one per caller. A lock that is held or waited for stays.
	pruneLocksSQL = `
		WITH old AS (SELECT id FROM locks WHERE position('#' in id) = 0 LIMIT $1 FOR UPDATE SKIP LOCKED)
		DELETE FROM locks WHERE id IN (SELECT id FROM old)`
)

// tooManyHits fails a transaction whose request exceeds a limit.
type tooManyHits struct{ limit.Hit }

// Error implements error.
func (e *tooManyHits) Error() string { return fmt.Sprintf("too many requests of class %s", e.Class) }

func hitID(t limit.Hit) string { return string(t.Class) + "/" + t.Name }

// spanOf is how far a counter may be ahead of the time.
func spanOf(t limit.Hit) time.Duration { return t.Each() * time.Duration(t.Rate.Count) }

// countHits queues the counting of requests, which locks their counters until the commit. Exceeding a limit fails the
// transaction, see refusedHit.
func countHits(tx *ent.Tx, hits []limit.Hit) {
	for _, t := range hits {
		mustAffectOne(tx, &tooManyHits{t}, countHitSQL, hitID(t), t.Each(), spanOf(t))
	}
}

// refusedHit converts a tooManyHits to a *limit.Refusal; other errors are returned unchanged.
func (s *Store) refusedHit(ctx context.Context, err error) error {
	many, ok := errors.AsType[*tooManyHits](err)
	if !ok {
		return err
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	var whole time.Duration
	if err := s.pool.QueryRow(ctx, wholeAtSQL, hitID(many.Hit)).Scan(&whole); err != nil {
		return fmt.Errorf("read the rate: %w", mapError(err))
	}
	return many.Refusal(whole)
}

// PruneRates deletes up to limit counters that have recovered fully, and returns how many.
func (s *Store) PruneRates(ctx context.Context, limit int) (int, error) {
	return s.pruneRows(ctx, pruneRatesSQL, limit)
}

// PruneLocks deletes up to limit locks of single callers or rows that are not held, and returns how many.
func (s *Store) PruneLocks(ctx context.Context, limit int) (int, error) {
	return s.pruneRows(ctx, pruneLocksSQL, limit)
}

// pruneRows runs a statement that deletes rows.
func (s *Store) pruneRows(ctx context.Context, sql string, args ...any) (int, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	tag, err := s.pool.Exec(ctx, sql, append([]any{plannedAnew}, args...)...)
	if err != nil {
		return 0, fmt.Errorf("prune rows: %w", mapError(err))
	}
	return int(tag.RowsAffected()), nil
}
