package settlement

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Refunds configures refunds. Without a treasury and a collector, operators have to refund by hand.
type Refunds struct {
	// Treasury signs; nil when no key is configured.
	Treasury *payment.Treasury
	// Collect submits refunds to the chain; nil when no relayer is configured for them.
	Collect Collector
	// Screen fails with a fault when a wallet is not served, or while that cannot be known; nil serves all.
	Screen func(ctx context.Context, wallet x402.Address) error
	// Deadline is how long a refund may stay undecided before an operator reviews it.
	Deadline time.Duration
}

// barred is why nothing may be sent to a wallet, or empty. An error says that this is not known.
func (r Refunds) barred(ctx context.Context, wallet x402.Address) (why string, err error) {
	if r.Screen == nil {
		return "", nil
	}
	switch err := r.Screen(ctx, wallet); {
	case fault.Of(err) == fault.PayerNotAccepted:
		return "the payer is not served: what becomes of the money is decided outside of the service", nil
	case err != nil:
		return "", fmt.Errorf("screen the payer: %w", err)
	}
	return "", nil
}

// Unavailable is the reason why nothing can be refunded, or empty.
func (r Refunds) Unavailable() string {
	switch {
	case r.Treasury == nil:
		return "no treasury key is configured"
	case r.Collect == nil:
		return "no relayer is configured to send refunds"
	}
	return ""
}

// refused moves an order whose provider proved that it will never deliver: to refund_pending, or to operator_review
// when refunds are unavailable.
func (s *Settlement) refused(ctx context.Context, l *job.Lease, o order.Order, at order.Progress) (order.Order, error) {
	to := order.RefundPending
	if why := s.Refunds.Unavailable(); why != "" {
		to = order.OperatorReview
		at.Evidence = withEntry(at.Evidence, "not_refunded", why)
	}
	m := workerMove(o, to, at)
	m.Refused = true
	return s.apply(ctx, l, m)
}

// refund takes one step of an order's refund. The order leaves refund_pending only when the refund is paid, or when no
// authorization is left that could pay it. So a later delivery or refund never adds to this one.
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
	verdict, sent, err := s.sendRefund(ctx, r)
	if err != nil {
		return o, 0, err
	}
	switch verdict.State {
	case payment.Settled:
		return proceed(s.refunded(ctx, l, o, r, *verdict.Receipt))
	case payment.Void:
		late := s.overdue(o.UpdatedAt, s.Refunds.Deadline)
		if verdict.Reason == payment.ReasonExpired && s.Refunds.Unavailable() == "" && !late {
			return s.sign(ctx, l, o, &r)
		}
		return proceed(s.markRefundDead(ctx, l, o, r, "the refund did not go through: its authorization is "+verdict.Reason))
	case payment.Unknown, payment.Unused:
	}
	if sent {
		return o, min(s.refundPause(o), sentPause), nil // the next block may include it
	}
	return o, s.refundPause(o), nil
}

const (
	sentPause                         = time.Second
	leastRefundPause, mostRefundPause = 500 * time.Millisecond, 10 * time.Second
)

func (s *Settlement) refundPause(o order.Order) time.Duration {
	return refundPause(s.Now().Sub(o.UpdatedAt))
}

// refundPause is the polling interval of an undecided refund: a twentieth of its age.
func refundPause(age time.Duration) time.Duration {
	return min(max(leastRefundPause, age/20), mostRefundPause)
}

// sign stores the refund's authorization, which the next step sends. Before it, any earlier authorization is dead and
// the payment is on the chain.
func (s *Settlement) sign(
	ctx context.Context, l *job.Lease, o order.Order, earlier *payment.Refund,
) (order.Order, time.Duration, error) {
	if why := s.Refunds.Unavailable(); why != "" {
		return proceed(s.move(ctx, l, o, order.OperatorReview, order.Progress{Reason: "the refund cannot be made: " + why}))
	}
	pay, err := s.payment(ctx, o.ID)
	if err != nil {
		return o, 0, fmt.Errorf("read the payment: %w", err)
	}
	switch wait, undone, err := s.arrived(ctx, pay); {
	case err != nil:
		return o, 0, err
	case undone != "":
		return proceed(s.move(ctx, l, o, order.OperatorReview,
			order.Progress{Reason: "nothing to refund: the payment was undone: " + undone}))
	case wait:
		return o, s.refundPause(o), nil
	}
	r, why, err := s.newRefund(ctx, pay, earlier)
	switch {
	case err != nil:
		return o, 0, err
	case why != "" && earlier != nil && earlier.Status == payment.RefundSigned:
		return proceed(s.markRefundDead(ctx, l, o, *earlier, "the refund cannot be made: "+why))
	case why != "":
		return proceed(s.move(ctx, l, o, order.OperatorReview, order.Progress{Reason: "the refund cannot be made: " + why}))
	}
	if err := s.Store.SignRefund(ctx, l.Fence(), r, earlier); err != nil {
		return o, 0, fmt.Errorf("store the refund: %w", err)
	}
	faultpoint.Reach("refund.stored")
	return o, 0, nil
}

// newRefund makes the refund of a payment, which is stored before it is sent. One that one of our treasuries has paid
// already is found on the chain and recorded as it is: a database that was put back may not know it, however long ago
// it was paid, and the token would let another treasury pay it once more, because a nonce is one payer's. why says why
// an operator has to decide.
func (s *Settlement) newRefund(
	ctx context.Context, pay payment.Payment, earlier *payment.Refund,
) (r payment.Refund, why string, err error) {
	t, now, since := s.Refunds.Treasury, s.Now(), pay.Since()
	from, accounts := t.Address(), t.Accounts()
	if earlier != nil {
		by := earlier.Authorization.From
		if since = earlier.Since(); t.Signs(by) {
			from = by
		}
		if !slices.Contains(accounts, by) {
			accounts = append(accounts, by)
		}
	}
	for _, of := range accounts {
		found := t.Unsigned(of, pay, earlier, now)
		v, err := s.Chain.Verdict(ctx, found.Authorization, since)
		switch {
		case err != nil:
			return r, "", fmt.Errorf("look for a refund by the treasury %s: %w", of, err)
		case v.State == payment.Settled:
			found.SignedAt = v.Receipt.SettledAt
			return found, "", nil
		case v.State == payment.Void && v.Reason != payment.ReasonExpired:
			return r, "the treasury " + of.String() + " has used its nonce: see whether it has paid", nil
		case v.State == payment.Unknown:
			return r, "", fmt.Errorf("it is not known yet what the treasury %s has paid", of)
		}
	}
	if why, err := s.Refunds.barred(ctx, pay.Authorization.From); why != "" || err != nil {
		return r, why, err
	}
	r, err = t.Refund(ctx, from, pay, earlier, now)
	return r, "", err
}

// arrived reports whether a payment is on the chain: if it is undone, why, and whether to look again later.
func (s *Settlement) arrived(ctx context.Context, pay payment.Payment) (wait bool, undone string, err error) {
	v, err := s.Chain.Verdict(ctx, pay.Authorization, pay.Since())
	switch {
	case err != nil:
		return false, "", fmt.Errorf("look for the payment: %w", err)
	case v.State == payment.Void:
		return false, v.Reason, nil
	}
	// A reorganisation removed the payment; its watching job submits it again. An unknown payment older than that is
	// final, and the chain no longer finds it.
	return v.State == payment.Unused ||
		v.State == payment.Unknown && s.Now().Sub(pay.CreatedAt) < confirmDeadline, "", nil
}

// sendRefund reads the verdict on a refund, and submits it while it is unused and its payer is served. Without a
// collector or a signature it only reads.
func (s *Settlement) sendRefund(ctx context.Context, r payment.Refund) (v payment.Verdict, sent bool, err error) {
	if v, err = s.Chain.Verdict(ctx, r.Authorization, r.Since()); err != nil {
		return payment.Verdict{}, false, fmt.Errorf("look for the refund: %w", err)
	}
	if v.State != payment.Unused || s.Refunds.Collect == nil || r.Found() {
		return v, false, nil
	}
	// It was signed for a wallet that may have been listed since: what is not sent ends with its authorization.
	switch why, err := s.Refunds.barred(ctx, r.Authorization.To); {
	case err != nil:
		return v, false, err
	case why != "":
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
	m := workerMove(o, order.Refunded, order.Progress{Reason: "refund proven", Evidence: map[string]string{
		"refund": r.ID.String(), "transaction": receipt.Transaction.String(), "amount": receipt.Amount.String(),
	}})
	m.Postings = r.Postings()
	o, err := s.Store.Refunded(ctx, l.Fence(), r, m, refundConfirmJob(r))
	if err != nil {
		return o, fmt.Errorf("record the refund: %w", err)
	}
	s.Metrics.Moved(ctx, string(o.Kind), string(m.From), string(m.To))
	s.ended(ctx, l, o)
	faultpoint.Reach("refund.committed")
	return o, nil
}

func (s *Settlement) markRefundDead(
	ctx context.Context, l *job.Lease, o order.Order, r payment.Refund, why string,
) (order.Order, error) {
	r.Status = payment.RefundDead
	m := workerMove(o, order.OperatorReview, order.Progress{Reason: why, Evidence: map[string]string{
		"refund": r.ID.String(), "treasury": r.Authorization.From.String(), "amount": r.Authorization.Value.String(),
	}})
	o, err := s.Store.MarkRefundDead(ctx, l.Fence(), r, m)
	if err != nil {
		return o, fmt.Errorf("mark the refund dead: %w", err)
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

// withEntry is a copy of evidence with one more entry.
func withEntry(evidence map[string]string, name, value string) map[string]string {
	more := map[string]string{name: value}
	for k, v := range evidence {
		more[k] = v
	}
	return more
}
