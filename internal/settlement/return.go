package settlement

import (
	"context"
	"errors"
	"fmt"

	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
)

// Return takes one step in paying an amount back to the payer of a delivered order. The caller calls it again until the
// progress is Delivered or Doubtful, also after a crash at any point. A return that is Doubtful is dead or was never
// signed: it may be begun again.
func (s *Settlement) Return(ctx context.Context, l *job.Lease, of payment.Return) (order.Progress, error) {
	r, err := s.refundOf(ctx, of.Order)
	switch {
	case errors.Is(err, errNoRefund):
		return s.signReturn(ctx, l, of, nil)
	case err != nil:
		return order.Progress{}, err
	case r.Authorization.Value != of.Amount:
		return doubtful("the order has a refund of another amount"), nil
	case r.Status == payment.RefundPaid:
		return order.Progress{State: order.Delivered}, nil
	case r.Status == payment.RefundDead:
		return s.signReturn(ctx, l, of, &r)
	}
	verdict, sent, err := s.sendRefund(ctx, r)
	if err != nil {
		return order.Progress{}, err
	}
	switch verdict.State {
	case payment.Settled:
		return s.returned(ctx, l, of, r, *verdict.Receipt)
	case payment.Void:
		if verdict.Reason == payment.ReasonExpired && s.Refunds.Unavailable() == "" &&
			!s.overdue(r.CreatedAt, s.Refunds.Deadline) {
			return s.signReturn(ctx, l, of, &r)
		}
		return s.returnDead(ctx, l, r, "the refund did not go through: its authorization is "+verdict.Reason)
	case payment.Unknown, payment.Unused:
	}
	pause := refundPause(s.Now().Sub(r.SignedAt))
	if sent {
		pause = min(pause, sentPause) // the next block may include it
	}
	return order.Progress{State: order.Waiting, After: pause}, nil
}

func doubtful(why string) order.Progress { return order.Progress{State: order.Doubtful, Reason: why} }

// returnDead records that nothing can pay an authorization any more.
func (s *Settlement) returnDead(
	ctx context.Context, l *job.Lease, r payment.Refund, why string,
) (order.Progress, error) {
	r.Status = payment.RefundDead
	if err := s.Store.MarkReturnDead(ctx, l.Fence(), r); err != nil {
		return order.Progress{}, fmt.Errorf("mark the refund dead: %w", err)
	}
	return doubtful(why), nil
}

// signReturn stores the authorization, which the next step sends. The order is delivered and stays so: no refund of it
// is made in addition to this one.
func (s *Settlement) signReturn(
	ctx context.Context, l *job.Lease, of payment.Return, earlier *payment.Refund,
) (order.Progress, error) {
	if why := s.Refunds.Unavailable(); why != "" {
		return doubtful("the refund cannot be made: " + why), nil
	}
	o, err := s.Store.Find(ctx, of.Order)
	switch {
	case err != nil:
		return order.Progress{}, fmt.Errorf("read the order: %w", err)
	case o.Status != order.Fulfilled:
		return doubtful("the order is " + string(o.Status)), nil
	}
	pay, err := s.payment(ctx, of.Order)
	if err != nil {
		return order.Progress{}, fmt.Errorf("read the payment: %w", err)
	}
	switch wait, undone, err := s.arrived(ctx, pay); {
	case err != nil:
		return order.Progress{}, err
	case undone != "":
		return doubtful("nothing to refund: the payment was undone: " + undone), nil
	case wait:
		return order.Progress{State: order.Waiting, After: mostRefundPause}, nil
	}
	pay.Authorization.Value = of.Amount
	r, why, err := s.newRefund(ctx, pay, earlier)
	switch {
	case err != nil:
		return order.Progress{}, err
	case why != "" && earlier != nil && earlier.Status == payment.RefundSigned:
		return s.returnDead(ctx, l, *earlier, "the refund cannot be made: "+why)
	case why != "":
		return doubtful("the refund cannot be made: " + why), nil
	}
	if err := s.Store.SignRefund(ctx, l.Fence(), r, earlier); err != nil {
		return order.Progress{}, fmt.Errorf("store the refund: %w", err)
	}
	faultpoint.Reach("return.stored")
	return order.Progress{State: order.Waiting}, nil
}

func (s *Settlement) returned(
	ctx context.Context, l *job.Lease, of payment.Return, r payment.Refund, receipt payment.Receipt,
) (order.Progress, error) {
	faultpoint.Reach("return.seen")
	r.Status, r.Receipt = payment.RefundPaid, &receipt
	if err := s.Store.Returned(ctx, l.Fence(), r, of, refundConfirmJob(r)); err != nil {
		return order.Progress{}, fmt.Errorf("record the refund: %w", err)
	}
	faultpoint.Reach("return.committed")
	return order.Progress{State: order.Delivered}, nil
}
