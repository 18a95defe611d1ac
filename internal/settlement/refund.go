package settlement

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

// refused moves an order whose provider proved that it will never deliver: to its refund, or to a person
// where nothing can be refunded.
func (s *Settlement) refused(ctx context.Context, l *job.Lease, o order.Order, at order.Progress) (order.Order, error) {
	to := order.RefundPending
	if why := s.Refunds.Unavailable(); why != "" {
		to = order.OperatorReview
		at.Evidence = with(at.Evidence, "not_refunded", why)
	}
	m := worker(o, to, at)
	m.Refused = true
	return s.take(ctx, l, m)
}

// refund takes one step of an order's refund. The order leaves refund_pending only when the money has
// moved or when no authorization that could move it is left: so nothing that comes after, a delivery or
// another refund, can come on top of it.
func (s *Settlement) refund(ctx context.Context, l *job.Lease, o order.Order) (order.Order, time.Duration, error) {
	r, err := s.refundOf(ctx, o.ID)
	switch {
	case err != nil && !errors.Is(err, errNoRefund):
		return o, 0, err
	case err != nil:
		return s.sign(ctx, l, o, nil)
	case r.Status == payment.RefundDead:
		return s.sign(ctx, l, o, &r)
	}
	verdict, sent, err := s.bringBack(ctx, r)
	if err != nil {
		return o, 0, err
	}
	switch verdict.State {
	case payment.Settled:
		return onward(s.refunded(ctx, l, o, r, *verdict.Receipt))
	case payment.Void:
		if verdict.Reason == payment.ReasonExpired && s.Refunds.Unavailable() == "" && !s.impatient(o) {
			return s.sign(ctx, l, o, &r)
		}
		return onward(s.giveUp(ctx, l, o, r, "the refund did not go through: its authorization is "+verdict.Reason))
	case payment.Unknown, payment.Unused:
	}
	if sent {
		return o, min(s.refundLater(o), time.Second), nil // it may be in the next block
	}
	return o, s.refundLater(o), nil
}

// refundLater is how long an undecided refund rests: a twentieth of the time gone by.
func (s *Settlement) refundLater(o order.Order) time.Duration {
	const least, most = 500 * time.Millisecond, 10 * time.Second
	return min(max(least, s.Now().Sub(o.UpdatedAt)/20), most)
}

func (s *Settlement) impatient(o order.Order) bool {
	return s.Now().Sub(o.UpdatedAt) > s.Refunds.Deadline
}

// sign stores the refund's authorization, with which the next step begins. Nothing of an earlier one can
// move money any more, and what is given back is there.
func (s *Settlement) sign(
	ctx context.Context, l *job.Lease, o order.Order, earlier *payment.Refund,
) (order.Order, time.Duration, error) {
	if why := s.Refunds.Unavailable(); why != "" {
		return onward(s.move(ctx, l, o, order.OperatorReview, order.Progress{Reason: "the refund cannot be made: " + why}))
	}
	pay, err := s.payment(ctx, o.ID)
	if err != nil {
		return o, 0, fmt.Errorf("read the payment: %w", err)
	}
	switch arrived, err := s.Chain.Verdict(ctx, pay.Authorization, pay.Since()); {
	case err != nil:
		return o, 0, fmt.Errorf("look for the payment: %w", err)
	case arrived.State == payment.Void:
		return onward(s.move(ctx, l, o, order.OperatorReview,
			order.Progress{Reason: "nothing to refund: the payment was undone: " + arrived.Reason}))
	case arrived.State == payment.Unused, arrived.State == payment.Unknown && s.Now().Sub(pay.CreatedAt) < confirmDeadline:
		// A reorganisation took the payment out; who follows it brings it back. One that is older than that
		// is out of the chain's reach, and final long since.
		return o, s.refundLater(o), nil
	}
	r, err := s.Refunds.Treasury.Refund(pay, earlier, s.Now())
	if err != nil {
		return o, 0, err
	}
	if err := s.Store.SignRefund(ctx, l.Fence(), r, earlier); err != nil {
		return o, 0, fmt.Errorf("store the refund: %w", err)
	}
	faultpoint.Reach("refund.stored")
	return o, 0, nil
}

// bringBack looks at a signed refund, and has it sent while it is unused. Where nobody sends any more, it only looks:
// somebody else still may.
func (s *Settlement) bringBack(ctx context.Context, r payment.Refund) (v payment.Verdict, sent bool, err error) {
	if v, err = s.Chain.Verdict(ctx, r.Authorization, r.Since()); err != nil {
		return payment.Verdict{}, false, fmt.Errorf("look for the refund: %w", err)
	}
	if v.State != payment.Unused || s.Refunds.Collect == nil {
		return v, false, nil
	}
	// The treasury may be short.
	if err := s.Chain.Simulate(ctx, r.Authorization, r.Signature); err != nil {
		s.Log.WarnContext(ctx, "refund waits", slog.String("order", string(r.Order)),
			slog.String("treasury", r.Authorization.From.String()),
			slog.Int64("atomic", int64(r.Authorization.Value)), slog.Any("cause", err))
		return v, false, nil
	}
	return s.Refunds.Collect.Collect(ctx, r.Payment()), true, nil
}

func (s *Settlement) refunded(
	ctx context.Context, l *job.Lease, o order.Order, r payment.Refund, receipt payment.Receipt,
) (order.Order, error) {
	faultpoint.Reach("refund.seen")
	r.Status, r.Receipt = payment.RefundPaid, &receipt
	m := worker(o, order.Refunded, order.Progress{Reason: "refund proven", Evidence: map[string]string{
		"refund": r.ID.String(), "transaction": receipt.Transaction.String(), "amount": receipt.Amount.String(),
	}})
	m.Postings = r.Postings()
	o, err := s.Store.Refunded(ctx, l.Fence(), r, m, refundConfirmJob(r))
	if err != nil {
		return o, fmt.Errorf("record the refund: %w", err)
	}
	s.Metrics.Moved(ctx, string(o.Kind), string(m.From), string(m.To))
	faultpoint.Reach("refund.committed")
	return o, nil
}

func (s *Settlement) giveUp(
	ctx context.Context, l *job.Lease, o order.Order, r payment.Refund, why string,
) (order.Order, error) {
	r.Status = payment.RefundDead
	m := worker(o, order.OperatorReview, order.Progress{Reason: why, Evidence: map[string]string{
		"refund": r.ID.String(), "treasury": r.Authorization.From.String(), "amount": r.Authorization.Value.String(),
	}})
	o, err := s.Store.GiveUpRefund(ctx, l.Fence(), r, m)
	if err != nil {
		return o, fmt.Errorf("give the refund up: %w", err)
	}
	return o, nil
}

var errNoRefund = errors.New("the order has no refund")

func (s *Settlement) refundOf(ctx context.Context, id order.ID) (payment.Refund, error) {
	found, err := s.Store.Refunds(ctx, id)
	if err != nil {
		return payment.Refund{}, fmt.Errorf("read the refund: %w", err)
	}
	r, ok := found[id]
	if !ok {
		return payment.Refund{}, errNoRefund
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
