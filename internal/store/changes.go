package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/job"
)

// change is what a job stores at one step. It needs no answer before the commit, so it may share its transaction.
type change struct {
	fence job.Fence
	// queue queues the statements, with the claim of the job first, and sends nothing. What it sets when their answers
	// are read is set again when the change has a transaction of its own after all.
	queue func(ctx context.Context, tx *ent.Tx) error
}

type changeMember = member[change, struct{}]

// changeKey is the job: a batch has one change of it.
func changeKey(c change) string { return string(c.fence.ID[:]) }

// fenced stores what a job changes, under its fence, in one transaction. queue only queues statements. Changes of other
// jobs that come at the same time have the same transaction.
func (s *Store) fenced(ctx context.Context, f job.Fence, queue func(context.Context, *ent.Tx) error) error {
	if err := begun(ctx); err != nil {
		return err
	}
	claimed := func(ctx context.Context, tx *ent.Tx) error {
		fence(tx, f)
		return queue(ctx, tx)
	}
	return s.change(ctx, change{f, claimed}, func() error { return s.tx(ctx, claimed) })
}

// change stores a change together with others, or by alone.
func (s *Store) change(ctx context.Context, c change, alone func() error) error {
	if s.shards != nil {
		return alone()
	}
	_, err := s.changes.do(ctx, c, func() (struct{}, error) { return struct{}{}, alone() })
	return err
}

// changeTogether stores the changes of a batch in one transaction and one round trip. When the server refuses one, such
// as that of a lost lease, nothing is stored and each has a transaction of its own.
func (s *Store) changeTogether(ctx context.Context, batch []*changeMember) {
	// All batches take the locks of the jobs in the same order, and each job's before those of its order.
	slices.SortFunc(batch, func(a, b *changeMember) int { return bytes.Compare(a.in.fence.ID[:], b.in.fence.ID[:]) })
	var queued []*changeMember
	err := mapError(s.txOnce(ctx, func(_ context.Context, tx *ent.Tx) error {
		t := pgxOf(tx)
		t.batch = true
		for _, m := range batch {
			statements, wakes := len(t.queue), len(t.wakes)
			if err := m.in.queue(context.WithoutCancel(m.ctx), tx); err != nil {
				t.queue, t.wakes = t.queue[:statements], t.wakes[:wakes]
				m.answer(struct{}{}, mapError(err))
				continue
			}
			queued = append(queued, m)
		}
		return nil
	}))
	if isMemberError(err) {
		return
	}
	for _, m := range queued {
		m.answer(struct{}{}, err)
	}
}

// updateFenced queues the statement of a change that is its own fence: it changes the row of the claim, and returns a
// value of it. Without that row the transaction fails with job.ErrLeaseLost.
func updateFenced(tx *ent.Tx, act, sql string, args ...any) {
	mustAffectOne(tx, fmt.Errorf("%s: %w", act, job.ErrLeaseLost), sql+" RETURNING 1", args...)
}
