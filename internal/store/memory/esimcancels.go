package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/x402"
)

// cancelOf is the cancellation of an order, and its job.
func (t *tx) cancelOf(id order.ID) (c esim.Cancellation, row *job.Row, found bool) {
	row = t.jobs.first(func(r *job.Row) bool { return r.Kind == esim.CancelJob && r.UniqueKey == string(id) })
	if row == nil {
		return c, nil, false
	}
	args, err := job.Decode[esim.CancelArgs](*row)
	return esim.Cancellation{CancelArgs: args, Job: row.Status}, row, err == nil
}

// BeginCancel implements esim.CancelStore.
func (e Esims) BeginCancel(ctx context.Context, a esim.CancelArgs) (begun esim.Cancellation, err error) {
	err = e.do(ctx, "esims.begin_cancel", func(t *tx) error {
		known, row, found := t.cancelOf(a.Order)
		if begun = known; found && (known.Stage != esim.StageKept || known.Job != job.Succeeded) {
			return nil
		}
		of := t.profiles.get(a.Profile)
		if of == nil || of.Order != a.Order || of.Status != esim.Ready {
			return esim.ErrNotFound
		}
		if t.topups.first(func(o *esim.Topup) bool { return o.Profile == a.Profile && o.Status != esim.Failed }) != nil {
			return esim.ErrToppedUp
		}
		if begun = (esim.Cancellation{CancelArgs: a, Job: job.Queued}); found {
			return t.resumeJob(row.ID, a)
		}
		owner := ""
		if o := t.orders.get(a.Order); o != nil {
			owner = o.Owner.Lower()
		}
		_, _, err := t.insertJob(esim.NewCancelJob(a), owner)
		return err
	})
	return begun, err
}

// Cancellation implements esim.CancelStore.
func (e Esims) Cancellation(ctx context.Context, id order.ID) (c esim.Cancellation, err error) {
	err = e.do(ctx, "esims.cancellation", func(t *tx) (err error) {
		var found bool
		if c, _, found = t.cancelOf(id); !found {
			return esim.ErrNotFound
		}
		if c.Stage != esim.StageRefunded {
			return nil
		}
		if c.ByHand != "" {
			c.Transaction, err = x402.ParseHash(c.ByHand)
			return err
		}
		if r := t.refunds.first(func(r *payment.Refund) bool { return r.Order == id && r.Receipt != nil }); r != nil {
			c.Transaction = r.Receipt.Transaction
		}
		return nil
	})
	return c, err
}

// SaveCancel implements esim.CancelStore.
func (e Esims) SaveCancel(ctx context.Context, f job.Fence, a esim.CancelArgs, postings ...ledger.Posting) error {
	return e.fenced(ctx, "esims.save_cancel", f, func(t *tx) error {
		if a.Stage == esim.StageRefunding {
			row := t.profiles.get(a.Profile)
			if row == nil || row.Order != a.Order || row.Status != esim.Ready {
				return fmt.Errorf("profile %s is no longer %s", a.Profile, esim.Ready)
			}
			row = edit(t, row)
			row.Status, row.ActivationData, row.UpdatedAt = esim.Cancelled, esim.Sealed{}, t.stamp
		}
		return errors.Join(t.saveJob(f.ID, a), t.post(f.Of, postings...))
	})
}

// RetryCancel implements esim.CancelStore.
func (e Esims) RetryCancel(
	ctx context.Context, id order.ID, since time.Time, _ order.OperatorContext,
) (esim.Cancellation, error) {
	return e.resumeCancel(ctx, "esims.retry_cancel", id, func(_ *tx, _ *job.Row, c *esim.Cancellation) (bool, error) {
		c.Since = since
		return true, nil
	})
}

// resumeCancel queues a cancellation that waits for an operator again, as change leaves it if it says so.
func (e Esims) resumeCancel(
	ctx context.Context, op string, id order.ID, change func(*tx, *job.Row, *esim.Cancellation) (bool, error),
) (c esim.Cancellation, err error) {
	err = e.do(ctx, op, func(t *tx) error {
		var row *job.Row
		var found bool
		if c, row, found = t.cancelOf(id); !found {
			return esim.ErrNotFound
		}
		if c.Job != job.OperatorReview {
			return nil
		}
		changed, err := change(t, row, &c)
		if err != nil || !changed {
			return err
		}
		c.Job = job.Queued
		return t.resumeJob(row.ID, c.CancelArgs)
	})
	return c, err
}

// CancelRefunding implements esim.CancelStore.
func (e Esims) CancelRefunding(
	ctx context.Context, id order.ID,
) (c esim.Cancellation, owner x402.Address, signed bool, err error) {
	err = e.do(ctx, "esims.cancel_refunding", func(t *tx) error {
		var found bool
		if c, _, found = t.cancelOf(id); !found {
			return esim.ErrNotFound
		}
		if o := t.orders.get(id); o != nil {
			owner = o.Owner
		}
		signed = t.refundSigned(id)
		return nil
	})
	return c, owner, signed, err
}

// ConcludeCancel implements esim.CancelStore.
func (e Esims) ConcludeCancel(
	ctx context.Context, id order.ID, transaction x402.Hash, at time.Time, _ order.OperatorContext,
) (esim.Cancellation, error) {
	conclude := func(t *tx, row *job.Row, c *esim.Cancellation) (bool, error) {
		if c.Stage != esim.StageRefunding {
			return false, nil
		}
		if err := t.refundableByHand(row.ID, id, transaction.String()); err != nil {
			return false, err
		}
		c.Stage, c.Since, c.ByHand, c.Transaction = esim.StageRefunded, at, transaction.String(), transaction
		return true, t.post(row.Of, c.Return())
	}
	return e.resumeCancel(ctx, "esims.conclude_cancel", id, conclude)
}

// Cancellations implements esim.CancelStore.
func (e Esims) Cancellations(ctx context.Context, q job.Query, _ order.OperatorContext) ([]job.Row, error) {
	return e.listJobs(ctx, "esims.cancellations", esim.CancelJob, q)
}
