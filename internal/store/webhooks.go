package store

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/webhook"
)

// Webhooks keeps what providers send by themselves. It implements webhook.Store.
type Webhooks struct{ s *Store }

var _ webhook.Store = Webhooks{}

// Webhooks is the part of the store for the events of providers.
func (s *Store) Webhooks() Webhooks { return Webhooks{s} }

const (
	keepEventSQL = `INSERT INTO webhook_events (id, provider, event_id, type, body, received_at)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (provider, event_id) DO NOTHING`

	// Only jobs that wait for a provider: they have begun a call there.
	hurrySQL = `UPDATE jobs SET run_at = now(), version = version + 1
		WHERE status = 'queued' AND step <> '' AND run_at > now() AND owner <> '' AND owner = ANY($1)
		RETURNING class`

	pruneEventsOfProvidersSQL = `
		WITH old AS (SELECT id FROM webhook_events WHERE received_at < $1 ORDER BY received_at LIMIT $2
			FOR UPDATE SKIP LOCKED)
		DELETE FROM webhook_events WHERE id IN (SELECT id FROM old)`
)

// Keep implements webhook.Store.
func (w Webhooks) Keep(ctx context.Context, e webhook.Stored, then job.New) (fresh bool, err error) {
	err = w.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		tag, err := raw(tx).Exec(ctx, keepEventSQL, e.ID, e.Provider, e.Event.ID, e.Event.Type, e.Body, e.ReceivedAt)
		fresh = err == nil && tag.RowsAffected() > 0
		if !fresh {
			return err
		}
		row, _, err := insertJobOn(ctx, raw(tx), then, "")
		if err != nil {
			return err
		}
		wakeOnCommit(tx, topicJobs, string(row.Class))
		return faultpoint.Fail("webhook.before_commit")
	})
	return fresh && err == nil, err
}

// WakeJobs implements webhook.Store.
func (w Webhooks) WakeJobs(ctx context.Context, a webhook.About) (jobs int, err error) {
	owners, err := w.owners(ctx, a)
	if err != nil || len(owners) == 0 {
		return 0, err
	}
	groups := [][]string{owners}
	if w.s.shards != nil {
		groups = w.s.shards.groups(owners)
	}
	for _, some := range groups {
		n, err := w.hurry(ctx, some)
		if jobs += n; err != nil {
			return jobs, err
		}
	}
	return jobs, nil
}

// hurry makes the jobs of owners due, who are of one shard.
func (w Webhooks) hurry(ctx context.Context, owners []string) (jobs int, err error) {
	err = w.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		rows, err := raw(tx).Query(ctx, hurrySQL, owners)
		if err != nil {
			return err
		}
		classes, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		jobs = len(classes)
		for _, class := range classes {
			wakeOnCommit(tx, topicJobs, class)
		}
		return nil
	})
	return jobs, err
}

// owners are those whose goods an event is about.
func (w Webhooks) owners(ctx context.Context, a webhook.About) ([]string, error) {
	var all []string
	for _, p := range w.s.products {
		if p.ownersSQL != "" {
			all = append(all, p.ownersSQL)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	// Says what the parameters are, of which a product may use one.
	const named = "WITH named AS (SELECT $1::varchar[], $2::uuid[]) "
	rows, err := w.s.pool.Query(ctx, named+strings.Join(all, " UNION "), a.Accounts, a.References)
	if err != nil {
		return nil, mapError(err)
	}
	owners, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return owners, mapError(err)
}

// Prune implements webhook.Store.
func (w Webhooks) Prune(ctx context.Context, before time.Time, limit int) (int, error) {
	return w.s.pruneRows(ctx, pruneEventsOfProvidersSQL, before, limit)
}
