package store

import (
	"context"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/auth"
)

var _ auth.ExpiredChallenges = ExpiredChallenges{}

// ExpiredChallenges is auth.ExpiredChallenges in the database.
type ExpiredChallenges struct{ s *Store }

// ExpiredChallenges are the store's expired challenges and sessions.
func (s *Store) ExpiredChallenges() ExpiredChallenges { return ExpiredChallenges{s} }

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

// CountChallenges implements auth.ExpiredChallenges.
func (l ExpiredChallenges) CountChallenges(ctx context.Context, before time.Time) (all, stale int, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	if err := l.s.pool.QueryRow(ctx, countChallengesSQL, before).Scan(&all, &stale); err != nil {
		return 0, 0, fmt.Errorf("count challenges: %w", mapError(err))
	}
	return all, stale, nil
}

// PruneChallenges implements auth.ExpiredChallenges.
func (l ExpiredChallenges) PruneChallenges(ctx context.Context, before time.Time, limit int) (int, error) {
	return l.s.pruneRows(ctx, pruneChallengesSQL, before, limit)
}

// PruneSessions implements auth.ExpiredChallenges.
func (l ExpiredChallenges) PruneSessions(ctx context.Context, before time.Time, limit int) (int, error) {
	return l.s.pruneRows(ctx, pruneSessionsSQL, before, limit)
}

// Looked implements auth.ExpiredChallenges.
func (l ExpiredChallenges) Looked(ctx context.Context, operator string) error {
	return l.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		return l.s.audit(ctx, tx, operator, "auth_challenges.retention", "", nil)
	})
}

// Pruned implements auth.ExpiredChallenges.
func (l ExpiredChallenges) Pruned(ctx context.Context, operator string, deleted int) error {
	return l.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		return l.s.audit(ctx, tx, operator, "auth_challenges.prune", "", deletion{deleted})
	})
}
