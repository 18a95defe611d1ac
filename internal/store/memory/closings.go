package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/x402"
)

// Closings reads and changes the closings of cards for operators. It keeps no record of their actions.
type Closings struct{ *Store }

var _ card.CloseJobs = Closings{}

// Closings is the part of the store for operators' actions on closings.
func (s *Store) Closings() Closings { return Closings{s} }

// Inspect implements card.CloseJobs.
func (c Closings) Inspect(
	ctx context.Context, id uuid.UUID, _ card.OperatorContext,
) (found card.Inspection, err error) {
	err = c.do(ctx, "closings.inspect", func(t *tx) error {
		known := t.cards.get(id)
		if known == nil {
			return card.ErrNotFound
		}
		const cent = 10_000
		on := max(t.balance(known.Owner.Lower(), ledger.Card(id.String())), 0)
		found = card.Inspection{Card: known.Card, Loaded: money.Cents((on + cent - 1) / cent)}
		return nil
	})
	return found, err
}

// Closings implements card.CloseJobs.
func (c Closings) Closings(ctx context.Context, q job.Query, _ card.OperatorContext) ([]job.Row, error) {
	return c.listJobs(ctx, "closings.list", card.CloseJob, q)
}

// listJobs lists the jobs of a kind, newest first. A queued one with a step counts as processing.
func (s *Store) listJobs(ctx context.Context, op string, kind job.Kind, q job.Query) (found []job.Row, err error) {
	err = s.do(ctx, op, func(t *tx) error {
		found = t.jobs.all(func(r *job.Row) bool {
			status := r.Status
			if status == job.Queued && r.Step != "" {
				status = job.Processing
			}
			return r.Kind == kind && (q.Status == "" || q.Status == status) &&
				(q.Before == uuid.Nil || r.ID.String() < q.Before.String())
		})
		slices.SortFunc(found, func(a, b job.Row) int { return cmp.Compare(b.ID.String(), a.ID.String()) })
		found = found[:min(q.Limit, len(found))]
		return nil
	})
	return found, err
}

// OrderClosing implements card.CloseJobs. No closing waits for a second operator.
func (c Closings) OrderClosing(
	ctx context.Context, id uuid.UUID, decide func(card.ClosingFacts) (card.CloseArgs, error), _ card.OperatorContext,
) (row job.Row, err error) {
	err = c.do(ctx, "closings.order", func(t *tx) error {
		known := t.cards.get(id)
		if known == nil {
			return card.ErrNotFound
		}
		of := known.Owner.Lower()
		if closing := t.jobOf(card.CloseJob, id.String(), of); closing != nil {
			row = *closing
			return nil
		}
		facts := card.ClosingFacts{Card: known.Card}
		if sold := t.orders.get(known.Order); sold != nil {
			facts.Order = sold.Status
		}
		if fee := t.jobOf(card.FeeJob, id.String(), of); fee != nil {
			paid := *fee
			facts.Fee = &paid
		}
		args, err := decide(facts)
		if err != nil {
			return err
		}
		row, _, err = t.insertJob(card.NewCloseJob(args), of)
		return err
	})
	return row, err
}

// RetryClosing implements card.CloseJobs.
func (c Closings) RetryClosing(
	ctx context.Context, id uuid.UUID, next func(job.Row) (card.CloseArgs, error), act card.OperatorContext,
) (job.Row, error) {
	return c.resume(ctx, "closings.retry", id, next, act, nil)
}

// Refunding implements card.CloseJobs.
func (c Closings) Refunding(
	ctx context.Context, id uuid.UUID,
) (row job.Row, owner x402.Address, signed bool, err error) {
	err = c.do(ctx, "closings.refunding", func(t *tx) error {
		known := t.jobs.get(id)
		if known == nil || known.Kind != card.CloseJob {
			return card.ErrNotFound
		}
		row = *known
		args, err := job.Decode[card.CloseArgs](row)
		if err != nil {
			return err
		}
		of := t.cards.get(args.Card)
		if of == nil {
			return card.ErrNotFound
		}
		owner, signed = of.Owner, t.refundSigned(order.ID(args.Order))
		return nil
	})
	return row, owner, signed, err
}

func (t *tx) refundSigned(id order.ID) bool {
	return t.refunds.first(func(r *payment.Refund) bool {
		return r.Order == id && r.Status == payment.RefundSigned
	}) != nil
}

// ConcludeRefund implements card.CloseJobs.
func (c Closings) ConcludeRefund(
	ctx context.Context, id uuid.UUID, next func(job.Row) (card.CloseArgs, error), act card.OperatorContext,
) (job.Row, error) {
	return c.resume(ctx, "closings.conclude", id, next, act, func(t *tx, of string, a card.CloseArgs) error {
		if err := t.refundableByHand(id, order.ID(a.Order), a.ByHand); err != nil {
			return err
		}
		return t.post(of, a.Return())
	})
}

// refundableByHand fails with payment.ErrRefundSigned while a refund of the order may still be paid, and with
// payment.ErrTransferUsed when the transaction is a refund of the service's own, or has concluded another job.
func (t *tx) refundableByHand(by uuid.UUID, id order.ID, transaction string) error {
	if t.refundSigned(id) {
		return payment.ErrRefundSigned
	}
	concluded := t.jobs.first(func(r *job.Row) bool {
		return r.ID != by && strings.Contains(string(r.Payload), `"byHand":"`+transaction+`"`)
	})
	ours := t.refunds.first(func(r *payment.Refund) bool {
		return r.Receipt != nil && r.Receipt.Transaction.String() == transaction
	})
	if concluded != nil || ours != nil {
		return payment.ErrTransferUsed
	}
	return nil
}

// resume queues a closing that waits for an operator again, with other arguments. with, which may be nil, is done in
// the same transaction.
func (c Closings) resume(
	ctx context.Context, op string, id uuid.UUID, next func(job.Row) (card.CloseArgs, error), act card.OperatorContext,
	with func(t *tx, of string, a card.CloseArgs) error,
) (row job.Row, err error) {
	err = c.do(ctx, op, func(t *tx) error {
		known := t.jobs.get(id)
		if known == nil || known.Kind != card.CloseJob {
			return card.ErrNotFound
		}
		if row = *known; row.Status != job.OperatorReview {
			return nil
		}
		if act.Version != 0 && act.Version != int(row.Version) {
			return card.ErrChanged
		}
		args, err := next(row)
		if err != nil {
			return err
		}
		if with != nil {
			if err := with(t, row.Of, args); err != nil {
				return err
			}
		}
		err = t.resumeJob(id, args)
		row = *known
		return err
	})
	return row, err
}
