package checkout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/testing/faultpoint"
)

// Refunds is what brings money back. Without a treasury or a collector nothing is refunded by itself.
type Refunds struct {
	// Treasury signs; nil when no key is configured.
	Treasury *payment.Treasury
	// Collect brings a refund to the chain; nil when nobody can send it.
	Collect Collector
	// Deadline is how long a refund may stay undecided before an operator looks at it.
	Deadline time.Duration
}

// Unavailable says why nothing can be refunded, or is empty.
func (r Refunds) Unavailable() string {
	switch {
	case r.Treasury == nil:
		return "no treasury key is configured"
	case r.Collect == nil:
		return "no relayer is configured to send refunds"
	}
	return ""
}

// RefundStore keeps refunds. Writes carry a job's fence, as those of Store.
type RefundStore interface {
	// Refunds finds the refunds of orders; an order without one is left out.
	Refunds(ctx context.Context, ids ...order.ID) (map[order.ID]payment.Refund, error)
	// SignRefund keeps a refund before anything of it is sent: a new one, or a new window of earlier, which
	// must be as it was read.
	SignRefund(ctx context.Context, f job.Fence, r payment.Refund, earlier *payment.Refund) error
	// Refunded records a proven refund, moves its order to refunded, and enqueues the job that follows the
	// refund until it is final.
	Refunded(ctx context.Context, f job.Fence, r payment.Refund, m order.Move, follow job.New) (order.Order, error)
	// GiveUpRefund records that a signed refund can never move its money, and moves its order.
	GiveUpRefund(ctx context.Context, f job.Fence, r payment.Refund, m order.Move) (order.Order, error)
	// ReproveRefund records where a paid refund's transfer stands for good.
	ReproveRefund(ctx context.Context, f job.Fence, r payment.Refund) error
}

// refused moves an order whose provider proved that it will never deliver: to its refund, or to a person
// where nothing can be refunded.
func (c *Checkout) refused(ctx context.Context, l *job.Lease, o order.Order, at order.Progress) (order.Order, error) {
	to := order.RefundPending
	if why := c.Refunds.Unavailable(); why != "" {
		to = order.OperatorReview
		at.Evidence = with(at.Evidence, "not_refunded", why)
	}
	m := worker(o, to, at)
	m.Refused = true
	return c.take(ctx, l, m)
}

// refund takes one step of an order's refund. The order leaves refund_pending only when the money has
// moved or when no authorization that could move it is left: so nothing that comes after, a delivery or
// another refund, can come on top of it.
func (c *Checkout) refund(ctx context.Context, l *job.Lease, o order.Order) (order.Order, time.Duration, error) {
	r, err := c.refundOf(ctx, o.ID)
	switch {
	case err != nil && !errors.Is(err, ErrNotFound):
		return o, 0, err
	case err != nil:
		return c.sign(ctx, l, o, nil)
	case r.Status == payment.RefundDead:
		return c.sign(ctx, l, o, &r)
	}
	verdict, sent, err := c.bringBack(ctx, r)
	if err != nil {
		return o, 0, err
	}
	switch verdict.State {
	case payment.Settled:
		return onward(c.refunded(ctx, l, o, r, *verdict.Receipt))
	case payment.Void:
		if verdict.Reason == payment.ReasonExpired && c.Refunds.Unavailable() == "" && !c.impatient(o) {
			return c.sign(ctx, l, o, &r)
		}
		return onward(c.giveUp(ctx, l, o, r, "the refund did not go through: its authorization is "+verdict.Reason))
	case payment.Unknown, payment.Unused:
	}
	if sent {
		return o, min(c.refundLater(o), time.Second), nil // it may be in the next block
	}
	return o, c.refundLater(o), nil
}

// refundLater is how long an undecided refund rests: a twentieth of the time gone by.
func (c *Checkout) refundLater(o order.Order) time.Duration {
	const least, most = 500 * time.Millisecond, 10 * time.Second
	return min(max(least, c.Now().Sub(o.UpdatedAt)/20), most)
}

func (c *Checkout) impatient(o order.Order) bool {
	return c.Now().Sub(o.UpdatedAt) > c.Refunds.Deadline
}

// sign stores the refund's authorization, with which the next step begins. Nothing of an earlier one can
// move money any more, and what is given back is there.
func (c *Checkout) sign(ctx context.Context, l *job.Lease, o order.Order, earlier *payment.Refund) (order.Order, time.Duration, error) {
	if why := c.Refunds.Unavailable(); why != "" {
		return onward(c.move(ctx, l, o, order.OperatorReview, order.Progress{Reason: "the refund cannot be made: " + why}))
	}
	pay, err := c.payment(ctx, o.ID)
	if err != nil {
		return o, 0, fmt.Errorf("read the payment: %w", err)
	}
	switch arrived, err := c.Chain.Verdict(ctx, pay.Authorization, pay.Since()); {
	case err != nil:
		return o, 0, fmt.Errorf("look for the payment: %w", err)
	case arrived.State == payment.Void:
		return onward(c.move(ctx, l, o, order.OperatorReview, order.Progress{Reason: "nothing to refund: the payment was undone: " + arrived.Reason}))
	case arrived.State == payment.Unused, arrived.State == payment.Unknown && c.Now().Sub(pay.CreatedAt) < confirmDeadline:
		// A reorganisation took the payment out; who follows it brings it back. One that is older than that
		// is out of the chain's reach, and final long since.
		return o, c.refundLater(o), nil
	}
	r, err := c.Refunds.Treasury.Refund(pay, earlier, c.Now())
	if err != nil {
		return o, 0, err
	}
	if err := c.Store.SignRefund(ctx, l.Fence(), r, earlier); err != nil {
		return o, 0, fmt.Errorf("store the refund: %w", err)
	}
	faultpoint.Reach("refund.stored")
	return o, 0, nil
}

// bringBack looks at a signed refund, and has it sent while it is unused. Where nobody sends any more, it only looks:
// somebody else still may.
func (c *Checkout) bringBack(ctx context.Context, r payment.Refund) (v payment.Verdict, sent bool, err error) {
	if v, err = c.Chain.Verdict(ctx, r.Authorization, r.Since()); err != nil {
		return payment.Verdict{}, false, fmt.Errorf("look for the refund: %w", err)
	}
	if v.State != payment.Unused || c.Refunds.Collect == nil {
		return v, false, nil
	}
	// The treasury may be short.
	if err := c.Chain.Simulate(ctx, r.Authorization, r.Signature); err != nil {
		c.Log.WarnContext(ctx, "refund waits", slog.String("order", string(r.Order)), slog.String("treasury", r.Authorization.From.String()),
			slog.Int64("atomic", int64(r.Authorization.Value)), slog.Any("cause", err))
		return v, false, nil
	}
	return c.Refunds.Collect.Collect(ctx, r.Payment()), true, nil
}

func (c *Checkout) refunded(ctx context.Context, l *job.Lease, o order.Order, r payment.Refund, receipt payment.Receipt) (order.Order, error) {
	faultpoint.Reach("refund.seen")
	r.Status, r.Receipt = payment.RefundPaid, &receipt
	m := worker(o, order.Refunded, order.Progress{Reason: "refund proven", Evidence: map[string]string{
		"refund": r.ID.String(), "transaction": receipt.Transaction.String(), "amount": receipt.Amount.String(),
	}})
	m.Postings = r.Postings()
	o, err := c.Store.Refunded(ctx, l.Fence(), r, m, refundConfirmJob(r))
	if err != nil {
		return o, fmt.Errorf("record the refund: %w", err)
	}
	c.Metrics.Moved(ctx, string(o.Kind), string(m.From), string(m.To))
	faultpoint.Reach("refund.committed")
	return o, nil
}

func (c *Checkout) giveUp(ctx context.Context, l *job.Lease, o order.Order, r payment.Refund, why string) (order.Order, error) {
	r.Status = payment.RefundDead
	m := worker(o, order.OperatorReview, order.Progress{Reason: why, Evidence: map[string]string{
		"refund": r.ID.String(), "treasury": r.Authorization.From.String(), "amount": r.Authorization.Value.String(),
	}})
	o, err := c.Store.GiveUpRefund(ctx, l.Fence(), r, m)
	if err != nil {
		return o, fmt.Errorf("give the refund up: %w", err)
	}
	return o, nil
}

func (c *Checkout) refundOf(ctx context.Context, id order.ID) (payment.Refund, error) {
	found, err := c.Store.Refunds(ctx, id)
	if err != nil {
		return payment.Refund{}, fmt.Errorf("read the refund: %w", err)
	}
	r, ok := found[id]
	if !ok {
		return payment.Refund{}, ErrNotFound
	}
	return r, nil
}

// with is evidence with one thing more.
func with(evidence map[string]string, name, value string) map[string]string {
	more := map[string]string{name: value}
	for k, v := range evidence {
		more[k] = v
	}
	return more
}
