package store

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/card"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	oweFeeSQL = `UPDATE jobs SET payload = payload || '{"owed": true}' WHERE id = $1`

	// What is not done is little, and has an index.
	outstandingSQL = `SELECT coalesce(sum((j.payload->>'amountUsdCents')::bigint), 0) FROM jobs j
		WHERE j.kind = $1 AND j.status <> 'succeeded'
			AND j.payload @> '{"owed": true}' AND NOT j.payload @> '{"writtenOff": true}'`

	owesSQL = outstandingSQL + ` AND j.unique_key IN (SELECT id::text FROM cards WHERE owner = $2)`
)

// postFee queues what a fee job in a status calls for. What is posted already stays as it is.
func postFee(tx *ent.Tx, now time.Time, a card.FeeArgs, status job.Status) {
	for _, p := range a.Postings(status) {
		post(tx, now, p)
	}
}

// owe queues the record that the fee of a job is owed.
func owe(tx *ent.Tx, now time.Time, id uuid.UUID, a card.FeeArgs) {
	later(tx, oweFeeSQL, id)
	a.Owed = true
	postFee(tx, now, a, job.Failed)
}

// FeeOwed implements card.Store.
func (c Cards) FeeOwed(ctx context.Context, f job.Fence, a card.FeeArgs) error {
	return c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		owe(tx, c.s.stamp(), f.ID, a)
		if err := finishJob(ctx, tx, f, job.Fail(card.RefusedFunds)); err != nil {
			return err
		}
		return faultpoint.Fail("owe.before_commit")
	})
}

// Owes implements card.Store.
func (c Cards) Owes(ctx context.Context, owner x402.Address) (owed money.Cents, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	err = c.s.pool.QueryRow(ctx, owesSQL, card.FeeJob, owner.Lower()).Scan((*int64)(&owed))
	return owed, mapError(err)
}

// Receivable is what all owners owe of issue fees.
func (c Cards) Receivable(ctx context.Context) (owed money.Cents, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	err = c.s.pool.QueryRow(ctx, outstandingSQL, card.FeeJob).Scan((*int64)(&owed))
	return owed, mapError(err)
}
