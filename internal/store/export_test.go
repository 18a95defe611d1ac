package store

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
)

// Internals of the store that only the tests of this package use.

const MaxReruns = maxReruns

func (s *Store) Tx(ctx context.Context, fn func(context.Context, *ent.Tx) error) error {
	return s.tx(ctx, fn)
}

func (s *Store) Pool() *pgxpool.Pool { return s.pool }

func Raw(tx *ent.Tx) pgxRunner { return raw(tx) }

func InsertJob(ctx context.Context, tx *ent.Tx, n job.New) (job.Row, bool, error) {
	row, added, err := insertJobOn(ctx, raw(tx), n, "")
	if err == nil && added && n.LeaseOwner == "" {
		wakeOnCommit(tx, topicJobs, string(row.Class))
	}
	return row, added, err
}

func Fence(ctx context.Context, tx *ent.Tx, f job.Fence) error {
	fence(tx, f)
	return pgxOf(tx).flush(ctx)
}

func FinishJob(ctx context.Context, tx *ent.Tx, f job.Fence, o job.Outcome) error {
	return finishJob(ctx, tx, f, o)
}

func WakeOnCommit(tx *ent.Tx, topic, key string) { wakeOnCommit(tx, topic, key) }

func QueueFence(tx *ent.Tx, f job.Fence) { fence(tx, f) }

func Bucket(resource string) string { return bucket(resource) }

func Later(tx *ent.Tx, sql string, args ...any) { later(tx, sql, args...) }

func Post(ctx context.Context, s *Store, p ledger.Posting) error {
	return s.tx(ctx, func(_ context.Context, tx *ent.Tx) error {
		post(tx, s.stamp(), p)
		return nil
	})
}
