package store

import (
	"context"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/auth"
)

var _ auth.Leftovers = Leftovers{}

// Leftovers is auth.Leftovers in the database.
type Leftovers struct{ s *Store }

// Leftovers are the store's expired challenges and sessions.
func (s *Store) Leftovers() Leftovers { return Leftovers{s} }

const (
	countChallengesSQL = `SELECT count(*), count(*) FILTER (WHERE expires_at < $1) FROM challenges`

	// Locked rows are being pruned by another process.
	pruneChallengesSQL = `
		WITH old AS (SELECT id FROM challenges WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
		DELETE FROM challenges WHERE id IN (SELECT id FROM old)`

	pruneSessionsSQL = `
		WITH old AS (SELECT id FROM sessions WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
		DELETE FROM sessions WHERE id IN (SELECT id FROM old)`
)

// CountChallenges implements auth.Leftovers.
func (l Leftovers) CountChallenges(ctx context.Context, before time.Time) (all, stale int, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	if err := l.s.pool.QueryRow(ctx, countChallengesSQL, before).Scan(&all, &stale); err != nil {
		return 0, 0, fmt.Errorf("count challenges: %w", mapError(err))
	}
	return all, stale, nil
}

// PruneChallenges implements auth.Leftovers.
func (l Leftovers) PruneChallenges(ctx context.Context, before time.Time, limit int) (int, error) {
	return l.s.pruneRows(ctx, pruneChallengesSQL, before, limit)
}

// PruneSessions implements auth.Leftovers.
func (l Leftovers) PruneSessions(ctx context.Context, before time.Time, limit int) (int, error) {
	return l.s.pruneRows(ctx, pruneSessionsSQL, before, limit)
}

// Looked implements auth.Leftovers.
func (l Leftovers) Looked(ctx context.Context, operator string) error {
	return l.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		return l.s.audit(ctx, tx, operator, "auth_challenges.retention", "", nil)
	})
}

// Pruned implements auth.Leftovers.
func (l Leftovers) Pruned(ctx context.Context, operator string, deleted int) error {
	return l.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		return l.s.audit(ctx, tx, operator, "auth_challenges.prune", "", deletion{deleted})
	})
}
