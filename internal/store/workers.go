package store

import (
	"context"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/job"
)

const (
	// It also deletes workers that have ended without unregistering.
	announceSQL = `
		WITH gone AS (DELETE FROM workers WHERE live_until < now() - interval '1 hour' AND id <> $1)
		INSERT INTO workers (id, kinds, live_until) VALUES ($1, to_jsonb($2::text[]), now() + $3::interval)
		ON CONFLICT (id) DO UPDATE SET kinds = excluded.kinds, live_until = excluded.live_until`

	signOffSQL = `DELETE FROM workers WHERE id = $1`

	workersSQL = `
		SELECT kind, count(*) FROM workers, jsonb_array_elements_text(kinds) AS kind
		WHERE live_until > now() GROUP BY kind`
)

// Announce implements job.Queue.
func (j Jobs) Announce(ctx context.Context, owner string, kinds []job.Kind, ttl time.Duration) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	var err error
	if ttl <= 0 {
		_, err = j.s.pool.Exec(ctx, signOffSQL, owner)
	} else {
		_, err = j.s.pool.Exec(ctx, announceSQL, owner, kindNames(kinds), ttl)
	}
	if err != nil {
		return fmt.Errorf("announce worker: %w", mapError(err))
	}
	return nil
}

// Workers implements job.Queue.
func (j Jobs) Workers(ctx context.Context) (map[job.Kind]int, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	rows, err := j.s.pool.Query(ctx, workersSQL)
	if err != nil {
		return nil, fmt.Errorf("count workers: %w", mapError(err))
	}
	defer rows.Close()
	live := map[job.Kind]int{}
	for rows.Next() {
		var kind job.Kind
		var count int
		if err := rows.Scan(&kind, &count); err != nil {
			return nil, fmt.Errorf("count workers: %w", err)
		}
		live[kind] = count
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("count workers: %w", mapError(err))
	}
	return live, nil
}
