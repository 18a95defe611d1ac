package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	entcard "github.com/roamcard/roamcard/ent/card"
	"github.com/roamcard/roamcard/internal/approval"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/x402"
)

// Closings reads and changes the closings of cards for operators. It implements card.CloseJobs.
type Closings struct{ s *Store }

// Closings is the part of the store for operators' actions on closings.
func (s *Store) Closings() Closings { return Closings{s} }

// The operators' actions on closings, as the audit trail names them.
const (
	actInspectCard  = "card.inspect"
	actListClosings = "card_closings.list"
	actClose        = "card.close"
	actRetryClosing = "card_closing.retry"

	actConcludeRefund = "card_closing.conclude"
)

// resumeJobSQL keeps the step: what was sent before is read first.
const resumeJobSQL = `
	UPDATE jobs SET status = 'queued', payload = $2, last_error = '', run_at = now(), finished_at = NULL,
		uncounted_attempts = attempt, version = version + 1
	WHERE id = $1 AND owner = $3`

// SaveClosing implements card.CloseStore.
func (c Cards) SaveClosing(ctx context.Context, f job.Fence, a card.CloseArgs, postings ...ledger.Posting) error {
	payload, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode the closing: %w", err)
	}
	return c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		fence(tx, f)
		later(tx, saveJobSQL, f.ID, f.Of, payload)
		postAs(tx, c.s.stamp(), f.Of, postings...)
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

// Inspect implements card.CloseJobs.
func (c Closings) Inspect(
	ctx context.Context, id uuid.UUID, act card.OperatorContext,
) (found card.Inspection, err error) {
	err = c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		if found.Card, err = oneCard(tx.Card.Get(ctx, id)); err != nil {
			return err
		}
		if found.Loaded, err = onCard(ctx, tx, id); err != nil {
			return err
		}
		return c.s.record(ctx, tx, act, actInspectCard, id.String(), nil, nil)
	})
	return found, err
}

// Closings implements card.CloseJobs.
func (c Closings) Closings(ctx context.Context, q job.Query, act card.OperatorContext) ([]job.Row, error) {
	return c.s.listJobs(ctx, card.CloseJob, q, act, actListClosings)
}

// OrderClosing implements card.CloseJobs. The card's lock lets no top-up begin meanwhile.
func (c Closings) OrderClosing(
	ctx context.Context, id uuid.UUID, decide func(card.ClosingFacts) (card.CloseArgs, error), act card.OperatorContext,
) (row job.Row, err error) {
	var pending *approval.Approval
	err = c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) (err error) {
		pending = nil
		row, err = c.order(ctx, tx, id, decide, act, func() (bool, error) {
			on, err := onCard(ctx, tx, id)
			if err != nil {
				return false, err
			}
			pending, err = c.s.requestApproval(ctx, tx, approval.Asked{
				Action: approval.CloseCard, Subject: id.String(), Amount: on,
			}, act)
			return pending != nil, err
		})
		return err
	})
	if err == nil && pending != nil {
		return job.Row{}, &approval.PendingError{Approval: *pending}
	}
	return row, err
}

// order is OrderClosing in a transaction. request, which may be nil, can store the decision for a second operator
// instead.
func (c Closings) order(
	ctx context.Context, tx *ent.Tx, id uuid.UUID, decide func(card.ClosingFacts) (card.CloseArgs, error),
	act card.OperatorContext,
	request func() (pending bool, err error),
) (row job.Row, err error) {
	owner, err := lockCard(ctx, tx, id)
	if err != nil {
		return row, err
	}
	known, err := oneCard(tx.Card.Query().Where(entcard.ID(id), entcard.Owner(owner)).Only(ctx))
	if err != nil {
		return row, err
	}
	row, err = scanJob(raw(tx).QueryRow(ctx, findOwnJobSQL, card.CloseJob, id.String(), owner))
	switch {
	case err == nil:
		return row, c.once(ctx, tx, act, actClose, id.String())
	case !errors.Is(err, pgx.ErrNoRows):
		return row, err
	}
	args, err := c.closingOf(ctx, tx, known, decide)
	if err != nil {
		return row, err
	}
	if request != nil {
		if pending, err := request(); err != nil || pending {
			return row, err
		}
	}
	if row, _, err = insertJob(ctx, tx, card.NewCloseJob(args), known.Owner); err != nil {
		return row, err
	}
	if err := c.once(ctx, tx, act, actClose, id.String()); err != nil {
		return row, err
	}
	return row, faultpoint.Fail("close.before_order")
}

// closingOf is the closing that decide makes of a locked card.
func (c Closings) closingOf(
	ctx context.Context, tx *ent.Tx, known card.Card, decide func(card.ClosingFacts) (card.CloseArgs, error),
) (card.CloseArgs, error) {
	sold := card.ClosingFacts{Card: known}
	if err := raw(tx).QueryRow(ctx, "SELECT status FROM orders WHERE id = $1 AND owner = $2", known.Order,
		known.Owner.Lower()).Scan(&sold.Order); err != nil {
		return card.CloseArgs{}, err
	}
	fee, err := scanJob(raw(tx).QueryRow(ctx, findOwnJobSQL, card.FeeJob, known.ID.String(), known.Owner.Lower()))
	switch {
	case err == nil:
		sold.Fee = &fee
	case !errors.Is(err, pgx.ErrNoRows):
		return card.CloseArgs{}, err
	}
	return decide(sold)
}

// RetryClosing implements card.CloseJobs.
func (c Closings) RetryClosing(
	ctx context.Context, id uuid.UUID, next func(job.Row) (card.CloseArgs, error), act card.OperatorContext,
) (row job.Row, err error) {
	err = c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		row, err = c.resume(ctx, tx, id, next, resumption{act: act, action: actRetryClosing})
		return err
	})
	return row, err
}

// Refunding implements card.CloseJobs.
func (c Closings) Refunding(ctx context.Context,
	id uuid.UUID) (row job.Row, owner x402.Address, signed bool, err error) {
	err = c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		row, err = scanJob(raw(tx).QueryRow(ctx, jobOfKindSQL, card.CloseJob, id))
		if errors.Is(err, pgx.ErrNoRows) {
			return card.ErrNotFound
		}
		if err != nil {
			return err
		}
		args, err := job.Decode[card.CloseArgs](row)
		if err != nil {
			return err
		}
		known, err := oneCard(tx.Card.Query().Where(entcard.ID(args.Card), entcard.Owner(row.Of)).Only(ctx))
		if err != nil {
			return err
		}
		owner = known.Owner
		return raw(tx).QueryRow(ctx, refundSignedSQL, args.Order, row.Of).Scan(&signed)
	})
	return row, owner, signed, err
}

const refundSignedSQL = "SELECT EXISTS (SELECT 1 FROM refunds WHERE order_id = $1 AND owner = $2 AND status = 'signed')"

// ConcludeRefund implements card.CloseJobs, with the posting of the return. The lock of the closing's row lets its job
// sign no refund meanwhile: a closing that waits for an operator has none.
func (c Closings) ConcludeRefund(
	ctx context.Context, id uuid.UUID, next func(job.Row) (card.CloseArgs, error), act card.OperatorContext,
) (row job.Row, err error) {
	err = c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		row, err = c.resume(ctx, tx, id, next, resumption{
			act: act, action: actConcludeRefund, with: func(a card.CloseArgs, owner string) error {
				if err := c.s.refundableByHand(ctx, tx, refundedByHand{id, a.Order, owner, a.ByHand}); err != nil {
					return err
				}
				postAs(tx, c.s.stamp(), owner, a.Return())
				return nil
			},
			after: func(a card.CloseArgs) any { return concluded{a.ByHand} },
		})
		return err
	})
	return row, err
}

const concludedWithSQL = `SELECT EXISTS (SELECT 1 FROM jobs
	WHERE kind = ANY($1::text[]) AND payload->>'byHand' = $2 AND id <> $3)
	OR EXISTS (SELECT 1 FROM refunds WHERE transaction = $2)`

// refundedByHand is a job whose refund a transaction has done, for an order and its owner.
type refundedByHand struct {
	job                       uuid.UUID
	order, owner, transaction string
}

// refundableByHand fails with payment.ErrRefundSigned while a refund of the order may still be paid, and with
// payment.ErrTransferUsed when the transaction is a refund of the service's own, or has concluded another job, of
// whatever product. Two at once by one transaction are decided one after the other.
func (s *Store) refundableByHand(ctx context.Context, tx *ent.Tx, r refundedByHand) error {
	var signed, used bool
	if err := raw(tx).QueryRow(ctx, refundSignedSQL, r.order, r.owner).Scan(&signed); err != nil {
		return err
	}
	if signed {
		return payment.ErrRefundSigned
	}
	lock(tx, bucket("concluded/"+r.transaction))
	if err := raw(tx).QueryRow(ctx, concludedWithSQL, s.returning(), r.transaction, r.job).Scan(&used); err != nil {
		return err
	}
	if used {
		return payment.ErrTransferUsed
	}
	return nil
}

// returning are the kinds of jobs that return money.
func (s *Store) returning() (kinds []job.Kind) {
	for _, p := range s.products {
		kinds = append(kinds, p.returns...)
	}
	return kinds
}

// concluded is the audit record of a refund that was done by hand.
type concluded struct {
	Transaction string `json:"transaction"`
}

// resumption is how an operator lets a closing go on.
type resumption struct {
	act    card.OperatorContext
	action string
	// with is done in the same transaction, for the owner of the card, and after is what the audit record has; both may be
	// nil.
	with  func(a card.CloseArgs, owner string) error
	after func(card.CloseArgs) any
}

// resume queues a closing that waits for an operator again, with other arguments.
func (c Closings) resume(
	ctx context.Context, tx *ent.Tx, id uuid.UUID, next func(job.Row) (card.CloseArgs, error), r resumption,
) (job.Row, error) {
	row, err := lockRow(ctx, tx, jobOfKindSQL, card.CloseJob, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return job.Row{}, card.ErrNotFound
	}
	if err != nil {
		return job.Row{}, err
	}
	repeated, err := c.s.repeats(ctx, tx, r.act, r.action, id.String(), nil)
	if err != nil || repeated || row.Status != job.OperatorReview {
		return row, err
	}
	if at(r.act, row.Version) != nil {
		return job.Row{}, card.ErrChanged
	}
	args, err := next(row)
	if err != nil {
		return job.Row{}, err
	}
	payload, err := json.Marshal(args)
	if err != nil {
		return job.Row{}, fmt.Errorf("encode the closing: %w", err)
	}
	if r.with != nil {
		if err := r.with(args, row.Of); err != nil {
			return job.Row{}, err
		}
	}
	if _, err := raw(tx).Exec(ctx, resumeJobSQL, row.ID, payload, row.Of); err != nil {
		return job.Row{}, err
	}
	wakeOnCommit(tx, topicJobs, string(row.Class))
	var after any
	if r.after != nil {
		after = r.after(args)
	}
	if err := c.s.record(ctx, tx, r.act, r.action, id.String(), nil, after); err != nil {
		return job.Row{}, err
	}
	return scanJob(raw(tx).QueryRow(ctx, jobSQL+" AND owner = $2", id, row.Of))
}

// once records an action, unless it is recorded with its key.
func (c Closings) once(ctx context.Context, tx *ent.Tx, act card.OperatorContext, action, subject string) error {
	if repeated, err := c.s.repeats(ctx, tx, act, action, subject, nil); err != nil || repeated {
		return err
	}
	return c.s.record(ctx, tx, act, action, subject, nil, nil)
}
