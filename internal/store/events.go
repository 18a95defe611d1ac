package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/activity"
	"github.com/roamcard/roamcard/internal/fault"
)

// Events is activity.Store in the database.
type Events struct{ s *Store }

var _ activity.Store = Events{}

// walkEvents is the walk of the days that are rolled up.
const walkEvents = "events"

// longest bounds a transaction that reads all events of a day, which may be as many as are kept.
const longest = time.Minute

const longLimitsSQL = "SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', '3s', true)"

// endOfTime is after all events.
var endOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// sketched are the last arguments of talliesSQL.
var sketched = []any{activity.DigestSize, activity.DigestSize * activity.SketchSize, activity.MostValues}

// Events are the store's product events.
func (s *Store) Events() Events { return Events{s} }

const (
	// An event of a day that is rolled up counts for the next.
	recordEventSQL = `
		INSERT INTO events (id, name, visitor, path, properties, at)
		VALUES ($1, $2, $3, $4, $5, greatest($6, (SELECT at FROM progress WHERE id = '` + walkEvents + `')))
		ON CONFLICT (id) DO NOTHING`

	// talliesSQL counts the events of the days from $1 to before $2. $3 is how many bytes of a digest a sketch has, $4
	// how many bytes a sketch has, $5 how many values of a property are counted.
	talliesSQL = `
		WITH seen AS (
			SELECT date_trunc('day', at, 'UTC') AS day, name, substring(visitor FROM 1 FOR $3::int) AS visitor,
				CASE jsonb_typeof(properties) WHEN 'object' THEN properties ELSE '{}' END AS properties
			FROM events WHERE at >= $1 AND at < $2
		), properties AS (
			SELECT day, key, value, count(*) AS events,
				string_agg(DISTINCT visitor, ''::bytea ORDER BY visitor) AS visitors,
				row_number() OVER (PARTITION BY day, key ORDER BY count(*) DESC, value) AS place
			FROM seen, jsonb_each_text(properties) GROUP BY day, key, value
		), tallies AS (
			SELECT day, '` + activity.All + `' AS subject, '' AS value, count(*) AS events,
				string_agg(DISTINCT visitor, ''::bytea ORDER BY visitor) AS visitors FROM seen GROUP BY day
			UNION ALL
			SELECT day, '` + activity.ByName + `', name, count(*),
				string_agg(DISTINCT visitor, ''::bytea ORDER BY visitor) FROM seen GROUP BY day, name
			UNION ALL
			SELECT day, '` + activity.Property + `' || key, value, events, visitors FROM properties WHERE place <= $5
		)
		SELECT day, subject, value, events, substring(visitors FROM 1 FOR $4::int) AS visitors FROM tallies`

	// What is rolled up and what is not are told apart by one snapshot.
	daysSQL   = `SELECT day, subject, value, events, visitors FROM event_days WHERE day >= $1`
	rolledSQL = `SELECT at FROM progress WHERE id = $1`

	rollDaySQL = `
		INSERT INTO event_days (id, day, subject, value, events, visitors)
		SELECT gen_random_uuid(), * FROM (` + talliesSQL + `) AS tallies`
	firstEventSQL = `SELECT date_trunc('day', min(at), 'UTC') FROM events WHERE at >= $1 AND at < $2`
	moveWalkSQL   = `UPDATE progress SET at = greatest(at, $2) WHERE id = $1`

	pruneDaysSQL = `
		WITH old AS (SELECT id FROM event_days WHERE day < $1 ORDER BY day LIMIT $2 FOR UPDATE SKIP LOCKED)
		DELETE FROM event_days WHERE id IN (SELECT id FROM old)`

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

// Tallies implements activity.Store.
func (e Events) Tallies(ctx context.Context, from time.Time) (all []activity.Tally, err error) {
	err = e.long(ctx, snapshotTx,
		func(ctx context.Context, tx pgx.Tx) error {
			rolled := from
			if err := tx.QueryRow(ctx, rolledSQL, walkEvents).Scan(&rolled); err != nil && !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			if rolled.Before(from) {
				rolled = from
			}
			for _, q := range []statement{
				{sql: daysSQL, args: []any{from}},
				{sql: talliesSQL, args: append([]any{rolled, endOfTime}, sketched...)},
			} {
				rows, err := tx.Query(ctx, q.sql, q.args...)
				if err != nil {
					return err
				}
				some, err := pgx.CollectRows(rows, pgx.RowToStructByPos[activity.Tally])
				if err != nil {
					return err
				}
				all = append(all, some...)
			}
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("count events: %w", mapError(err))
	}
	return all, nil
}

// RollUp implements activity.Store.
func (e Events) RollUp(ctx context.Context, until time.Time) (more bool, err error) {
	err = e.long(ctx, pgx.TxOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, beginWalkSQL, walkEvents); err != nil {
			return err
		}
		var rolled time.Time
		var place string
		if err := tx.QueryRow(ctx, lockWalkSQL, walkEvents).Scan(&rolled, &place); err != nil {
			return err
		}
		var day *time.Time
		if err := tx.QueryRow(ctx, firstEventSQL, rolled, until).Scan(&day); err != nil {
			return err
		}
		if more = day != nil; !more {
			_, err := tx.Exec(ctx, moveWalkSQL, walkEvents, until)
			return err
		}
		end := day.AddDate(0, 0, 1)
		if _, err := tx.Exec(ctx, rollDaySQL, append([]any{*day, end}, sketched...)...); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, moveWalkSQL, walkEvents, end)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("roll events up: %w", mapError(err))
	}
	return more, nil
}

// long runs a transaction that reads all events of a day.
func (e Events) long(ctx context.Context, o pgx.TxOptions, do func(context.Context, pgx.Tx) error) error {
	ctx, cancel := fault.Outlive(context.WithValue(ctx, callerKey{}, ctx), longest)
	defer cancel()
	return pgx.BeginTxFunc(ctx, e.s.pool, o, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, longLimitsSQL, strconv.FormatInt(longest.Milliseconds(), 10)); err != nil {
			return err
		}
		return do(ctx, tx)
	})
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
	return e.s.pruneRows(ctx, pruneEventsSQL, before, limit)
}

// PruneDays implements activity.Store.
func (e Events) PruneDays(ctx context.Context, before time.Time, limit int) (int, error) {
	return e.s.pruneRows(ctx, pruneDaysSQL, before, limit)
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
