package store

import (
	"context"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	oweFeeSQL = `UPDATE jobs SET payload = payload || '{"owed": true}' WHERE id = $1 AND owner = $2`

	// Few jobs have not succeeded, and they have an index.
	outstandingSQL = `SELECT coalesce(sum((j.payload->>'amountUsdCents')::bigint), 0) FROM jobs j
		WHERE j.kind = $1 AND j.status <> 'succeeded'
			AND j.payload @> '{"owed": true}' AND NOT j.payload @> '{"writtenOff": true}'`

	owesSQL = outstandingSQL + ` AND j.owner = $2 AND j.unique_key IN (SELECT id::text FROM cards WHERE owner = $2)`
)

// FeeOwed implements card.Store.
func (c Cards) FeeOwed(ctx context.Context, f job.Fence, postings []ledger.Posting) error {
	return c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		fence(tx, f)
		later(tx, oweFeeSQL, f.ID, f.Of)
		postAs(tx, c.s.stamp(), f.Of, postings...)
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

// Receivable is the sum of all owed issue fees.
func (c Cards) Receivable(ctx context.Context) (owed money.Cents, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	err = c.s.pool.QueryRow(ctx, outstandingSQL, card.FeeJob).Scan((*int64)(&owed))
	return owed, mapError(err)
}
