package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/ent/audit"
	entcard "github.com/roamcard/roamcard/ent/card"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/testing/faultpoint"
)

// Closings reads and changes the closings of cards for operators. It implements card.CloseJobs.
type Closings struct{ s *Store }

// Closings is the part of the store for operators' actions on closings.
func (s *Store) Closings() Closings { return Closings{s} }

// The operators' actions on closings, as the audit trail names them.
const (
	actListClosings = "card_closings.list"
	actClose        = "card.close"
	actRetryClosing = "card_closing.retry"
)

// resumeJobSQL keeps the step: what was sent before is read first.
const resumeJobSQL = `
	UPDATE jobs SET status = 'queued', payload = $2, last_error = '', run_at = now(), finished_at = NULL,
		uncounted_attempts = attempt, version = version + 1
	WHERE id = $1`

// SaveClosing implements card.CloseStore.
func (c Cards) SaveClosing(ctx context.Context, f job.Fence, a card.CloseArgs, postings ...ledger.Posting) error {
	payload, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode the closing: %w", err)
	}
	return c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		fence(tx, f)
		later(tx, saveJobSQL, f.ID, payload)
		post(tx, c.s.stamp(), postings...)
		return faultpoint.Fail("close.before_commit")
	})
}

// Closing implements card.Store.
func (c Cards) Closing(ctx context.Context, id uuid.UUID) (closing bool, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	err = c.s.pool.QueryRow(ctx, closingSQL, card.CloseJob, id.String()).Scan(&closing)
	return closing, mapError(err)
}

// Closings implements card.CloseJobs.
func (c Closings) Closings(ctx context.Context, q card.JobQuery, act card.Act) ([]job.Row, error) {
	return c.s.listJobs(ctx, card.CloseJob, q, act, actListClosings)
}

// OrderClosing implements card.CloseJobs. The card's lock lets no top-up begin meanwhile.
func (c Closings) OrderClosing(
	ctx context.Context, id uuid.UUID, decide func(card.Sold) (card.CloseArgs, error), act card.Act,
) (row job.Row, err error) {
	err = c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		later(tx, lockCardSQL, id)
		known, err := oneCard(tx.Card.Query().Where(entcard.ID(id)).Only(ctx))
		if err != nil {
			return err
		}
		row, err = scanJob(raw(tx).QueryRow(ctx, findJobSQL, card.CloseJob, id.String()))
		switch {
		case err == nil:
			return c.once(ctx, tx, act, actClose, id.String())
		case !errors.Is(err, pgx.ErrNoRows):
			return err
		}
		sold := card.Sold{Card: known}
		if err := raw(tx).QueryRow(ctx, "SELECT status FROM orders WHERE id = $1 AND owner = $2", known.Order,
			known.Owner.Lower()).Scan(&sold.Order); err != nil {
			return err
		}
		switch fee, err := scanJob(raw(tx).QueryRow(ctx, findJobSQL, card.FeeJob, id.String())); {
		case err == nil:
			sold.Fee = &fee
		case !errors.Is(err, pgx.ErrNoRows):
			return err
		}
		args, err := decide(sold)
		if err != nil {
			return err
		}
		if row, _, err = insertJob(ctx, tx, card.NewCloseJob(args), known.Owner); err != nil {
			return err
		}
		if err := c.once(ctx, tx, act, actClose, id.String()); err != nil {
			return err
		}
		return faultpoint.Fail("close.before_order")
	})
	return row, err
}

// RetryClosing implements card.CloseJobs.
func (c Closings) RetryClosing(
	ctx context.Context, id uuid.UUID, next func(job.Row) (card.CloseArgs, error), act card.Act,
) (row job.Row, err error) {
	err = c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		row, err = scanJob(raw(tx).QueryRow(ctx, jobOfKindSQL+" FOR UPDATE", card.CloseJob, id))
		if errors.Is(err, pgx.ErrNoRows) {
			return card.ErrNotFound
		}
		if err != nil || row.Status != job.OperatorReview {
			return err
		}
		if done, err := done(ctx, tx, act, actRetryClosing, id.String()); err != nil || done {
			return err
		}
		args, err := next(row)
		if err != nil {
			return err
		}
		payload, err := json.Marshal(args)
		if err != nil {
			return fmt.Errorf("encode the closing: %w", err)
		}
		if _, err := raw(tx).Exec(ctx, resumeJobSQL, row.ID, payload); err != nil {
			return err
		}
		wakeOnCommit(tx, topicJobs, string(row.Class))
		if err := c.once(ctx, tx, act, actRetryClosing, id.String()); err != nil {
			return err
		}
		row, err = scanJob(raw(tx).QueryRow(ctx, jobOfKindSQL, card.CloseJob, id))
		return err
	})
	return row, err
}

// once records an action, unless it is recorded with its key.
func (c Closings) once(ctx context.Context, tx *ent.Tx, act card.Act, action, subject string) error {
	if done, err := done(ctx, tx, act, action, subject); err != nil || done {
		return err
	}
	return c.s.record(ctx, tx, act, action, subject, nil, nil)
}

// done reports whether an operator has used a key for an action before.
func done(ctx context.Context, tx *ent.Tx, act card.Act, action, subject string) (bool, error) {
	return tx.Audit.Query().Where(audit.Actor(act.Operator), audit.Action(action), audit.Subject(subject),
		audit.IdempotencyKey(act.Key)).Exist(ctx)
}
