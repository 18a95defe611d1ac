package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/activity"
)

// Events is activity.Store in the database.
type Events struct{ s *Store }

var _ activity.Store = Events{}

// Events are the store's product events.
func (s *Store) Events() Events { return Events{s} }

const (
	recordEventSQL = `
		INSERT INTO events (id, name, visitor, path, properties, at) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (id) DO NOTHING`

	totalEventsSQL = `SELECT count(*), count(DISTINCT visitor) FROM events WHERE at >= $1`

	eventNamesSQL = `
		SELECT 'name', name, count(*), count(DISTINCT visitor) FROM events WHERE at >= $1 GROUP BY name
		UNION ALL
		SELECT 'day', to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, count(*), count(DISTINCT visitor) FROM events
		WHERE at >= $1 GROUP BY day
		UNION ALL
		SELECT 'property.' || key, value, count(*), count(DISTINCT visitor) FROM events, jsonb_each_text(properties)
		WHERE at >= $1 GROUP BY key, value
		ORDER BY 1, 3 DESC, 2`

	// No row when there are no more events than asked for, so that nothing is pruned.
	oldestEventSQL = `
		SELECT newest.at FROM (SELECT at FROM events ORDER BY at DESC OFFSET $1 - 1 LIMIT 1) newest
		WHERE EXISTS (SELECT FROM events ORDER BY at DESC OFFSET $1 LIMIT 1)`

	// Locked rows are being pruned by another process.
	pruneEventsSQL = `
		WITH old AS (SELECT id FROM events WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)
		DELETE FROM events WHERE id IN (SELECT id FROM old)`
)

// Record implements activity.Store.
func (e Events) Record(ctx context.Context, n activity.Event) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	properties, err := json.Marshal(n.Properties)
	if err != nil {
		return fmt.Errorf("encode the properties: %w", err)
	}
	if _, err := e.s.pool.Exec(ctx, recordEventSQL, n.ID, n.Name, n.Visitor[:], n.Path, properties, n.At); err != nil {
		return fmt.Errorf("store event: %w", mapError(err))
	}
	return nil
}

// Summarize implements activity.Store.
func (e Events) Summarize(ctx context.Context, from time.Time) (activity.Summary, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	sum := activity.Summary{ByProperty: map[string][]activity.Count{}}
	if err := e.s.pool.QueryRow(ctx, totalEventsSQL, from).Scan(&sum.Events, &sum.Visitors); err != nil {
		return sum, fmt.Errorf("count events: %w", mapError(err))
	}
	rows, err := e.s.pool.Query(ctx, eventNamesSQL, from)
	if err != nil {
		return sum, fmt.Errorf("count events: %w", mapError(err))
	}
	var by string
	var c activity.Count
	_, err = pgx.ForEachRow(rows, []any{&by, &c.Value, &c.Events, &c.Visitors}, func() error {
		switch by {
		case "name":
			sum.ByName = append(sum.ByName, c)
		case "day":
			sum.ByDay = append(sum.ByDay, c)
		default:
			property := by[len("property."):]
			sum.ByProperty[property] = append(sum.ByProperty[property], c)
		}
		return nil
	})
	if err != nil {
		return sum, fmt.Errorf("count events: %w", mapError(err))
	}
	return sum, nil
}

// Oldest implements activity.Store.
func (e Events) Oldest(ctx context.Context, newest int) (time.Time, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	var at time.Time
	err := e.s.pool.QueryRow(ctx, oldestEventSQL, newest).Scan(&at)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return at, fmt.Errorf("find the oldest event: %w", mapError(err))
	}
	return at.UTC(), nil
}

// Prune implements activity.Store.
func (e Events) Prune(ctx context.Context, before time.Time, limit int) (int, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	tag, err := e.s.pool.Exec(ctx, pruneEventsSQL, before, limit)
	if err != nil {
		return 0, fmt.Errorf("prune events: %w", mapError(err))
	}
	return int(tag.RowsAffected()), nil
}

// Pruned implements activity.Store.
func (e Events) Pruned(ctx context.Context, actor string, deleted int) error {
	return e.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		return e.s.audit(ctx, tx, actor, "activity.prune", "", deletion{deleted})
	})
}

// deletion is the audit record of deleted rows.
type deletion struct {
	Deleted int `json:"deleted"`
}
