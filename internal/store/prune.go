package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/faultpoint"
)

// plannedAnew makes the server plan a statement each time for its arguments and for what the tables are then.
// Maintenance runs rarely, and a plan that was made while a table was small would stay.
const plannedAnew = pgx.QueryExecModeCacheDescribe

// The walks that progress keeps the place of.
const walkTimeline = "timeline"

const (
	// indexPlansSQL makes the server read by indexes in a transaction, also where tables seem to be small.
	indexPlansSQL = "SET LOCAL enable_seqscan = off"

	beginWalkSQL = `INSERT INTO progress (id, at) VALUES ($1, to_timestamp(0)) ON CONFLICT (id) DO NOTHING`
	// Another process that walks waits here, and goes on from where this one commits.
	lockWalkSQL = `SELECT at, place FROM progress WHERE id = $1 FOR UPDATE`

	// Orders are walked in the order of their last change, each once: the last change of a final order is that which
	// made it final, and one that is not final yet changes again. The last line and those of operators stay, because the
	// comparison of the books reads who fulfilled an order. Lines that were written today stay, whatever the clock of this
	// process says.
	pruneTimelineSQL = `
		WITH walked AS (
			SELECT id, owner, status, version, updated_at FROM orders
			WHERE updated_at >= $2 AND (updated_at, id) > ($2, $3) AND updated_at < $4
			ORDER BY updated_at, id LIMIT $5
		), old AS (
			SELECT t.id, t.owner FROM walked w, LATERAL (
				SELECT id, owner FROM timeline WHERE order_id = w.id AND owner = w.owner AND version < w.version
					AND actor NOT LIKE 'operator:%' AND at < now() - interval '1 day' OFFSET 0) t
			WHERE w.status = ANY($6)
		), gone AS (
			DELETE FROM timeline WHERE (id, owner) IN (SELECT id, owner FROM old)
		), moved AS (
			UPDATE progress SET at = last.updated_at, place = last.id
			FROM (SELECT updated_at, id FROM walked ORDER BY updated_at DESC, id DESC LIMIT 1) last WHERE progress.id = $1
		)
		SELECT count(*) FROM walked`

	// It locks nothing ahead: that takes the right to change rows, which nobody has.
	pruneReadsSQL = `
		WITH old AS (
			SELECT id FROM audit WHERE before IS NULL AND after IS NULL AND reason = '' AND idempotency_key = ''
				AND at < least($1, now() - interval '1 day')
			ORDER BY at LIMIT $2)
		DELETE FROM audit WHERE id IN (SELECT id FROM old)`
)

// PruneTimeline walks through the next orders that changed before a time, at most limit, and deletes the lines of the
// final ones but the last and those of operators. It returns how many it has walked through; at 0 it is done.
func (o Orders) PruneTimeline(ctx context.Context, before time.Time, limit int) (walked int, err error) {
	err = o.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		walked = 0
		later(tx, customPlansSQL)
		later(tx, indexPlansSQL)
		later(tx, beginWalkSQL, walkTimeline)
		var at time.Time
		var place string
		if err := raw(tx).QueryRow(ctx, lockWalkSQL, walkTimeline).Scan(&at, &place); err != nil {
			return err
		}
		if o.s.shards != nil {
			walked, err = o.pruneTimelineSharded(ctx, tx, at, place, before, limit)
		} else {
			err = raw(tx).QueryRow(ctx, pruneTimelineSQL, walkTimeline, at, place, before, limit,
				finalStatuses()).Scan(&walked)
		}
		if err != nil {
			return err
		}
		return faultpoint.Fail("timeline.before_commit")
	})
	if err != nil {
		return 0, fmt.Errorf("prune the timeline: %w", err)
	}
	return walked, nil
}

// PruneReads deletes up to limit reads of operators from the audit trail that happened before a time, and returns how
// many.
func (s *Store) PruneReads(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.pruneRows(ctx, pruneReadsSQL, before, limit)
}
