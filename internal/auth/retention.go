package auth

import (
	"context"
	"fmt"
	"time"
)

// DefaultRetention is how long challenges and sessions are kept after they expire.
const DefaultRetention = 24 * time.Hour

// ExpiredChallenges counts and deletes expired challenges and sessions.
type ExpiredChallenges interface {
	// CountChallenges counts all challenges, and those that expired before a time.
	CountChallenges(ctx context.Context, before time.Time) (all, stale int, err error)
	// PruneChallenges and PruneSessions delete at most limit that expired before a time, and say how many.
	PruneChallenges(ctx context.Context, before time.Time, limit int) (int, error)
	PruneSessions(ctx context.Context, before time.Time, limit int) (int, error)
	// Looked and Pruned record in the audit trail what an operator did.
	Looked(ctx context.Context, operator string) error
	Pruned(ctx context.Context, operator string, deleted int) error
}

// Retention deletes challenges and sessions some time after they expire.
type Retention struct {
	Store ExpiredChallenges
	Now   func() time.Time
	// Keep is how long they are kept after they expire; zero stands for DefaultRetention.
	Keep time.Duration
}

// PruneBatch is how many rows one statement deletes; a call takes maxBatches of them.
const PruneBatch = 1000

const maxBatches = 20

// RetentionStatus tells how many challenges there are, and how many of them pruning would delete.
type RetentionStatus struct {
	Keep       time.Duration
	All, Stale int
}

func (r Retention) before() time.Time { return r.Now().Add(-orDefault(r.Keep, DefaultRetention)) }

// Status counts challenges for an operator.
func (r Retention) Status(ctx context.Context, operator string) (RetentionStatus, error) {
	s := RetentionStatus{Keep: orDefault(r.Keep, DefaultRetention)}
	var err error
	if s.All, s.Stale, err = r.Store.CountChallenges(ctx, r.before()); err != nil {
		return s, err
	}
	return s, r.Store.Looked(ctx, operator)
}

// PruneFor prunes challenges for an operator and counts those deleted and those left to the next call.
func (r Retention) PruneFor(ctx context.Context, operator string) (deleted, left int, err error) {
	if deleted, err = batches(ctx, r.before(), r.Store.PruneChallenges); err != nil {
		return deleted, 0, fmt.Errorf("prune challenges: %w", err)
	}
	if _, left, err = r.Store.CountChallenges(ctx, r.before()); err != nil {
		return deleted, 0, err
	}
	return deleted, left, r.Store.Pruned(ctx, operator, deleted)
}

// Prune deletes expired challenges and sessions, and returns how many. The next call deletes the rest.
func (r Retention) Prune(ctx context.Context) (int, error) {
	challenges, err := batches(ctx, r.before(), r.Store.PruneChallenges)
	if err != nil {
		return challenges, fmt.Errorf("prune challenges: %w", err)
	}
	sessions, err := batches(ctx, r.before(), r.Store.PruneSessions)
	if err != nil {
		return challenges + sessions, fmt.Errorf("prune sessions: %w", err)
	}
	return challenges + sessions, nil
}

func batches(
	ctx context.Context, before time.Time, prune func(context.Context, time.Time, int) (int, error),
) (deleted int, err error) {
	for range maxBatches {
		n, err := prune(ctx, before, PruneBatch)
		if deleted += n; err != nil || n < PruneBatch {
			return deleted, err
		}
	}
	return deleted, nil
}
