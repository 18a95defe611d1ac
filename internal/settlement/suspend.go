package settlement

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// An order that is not paid reserves of a float only as long as the next block can move its payment:
//
//	claimed ─► a block without the transfer ─► would it move now? yes ─► the next block
//	                                               │ no
//	                                               ▼
//	           voided ◄─ the chain is watched ◄─ suspended ─► paid after all ─► reserve again ─► delivered
//	                                                                               │ the float is sold
//	                                                                               ▼
//	                                                                            refunded
//
// So payers who claim and move their money away hold a float for a block, however many they are.

// missed reports whether a payment that is unused has missed a block: its settler says so, or there is a block since
// the claim, and after it the payer cannot pay: the balance is too low, or the account was changed or blocked. What was
// claimed in this process is simulated once for each block.
func (s *Settlement) missed(ctx context.Context, pay payment.Payment, v payment.Verdict, known *claimed) bool {
	if v.Missed {
		return true
	}
	if !pay.Signed() {
		return false
	}
	head, err := s.HeadTime(ctx)
	if err != nil || !head.After(pay.CreatedAt) {
		return false
	}
	if known != nil {
		if head.Equal(known.simulated) {
			return false
		}
		known.simulated = head
	}
	rejection, refused := errors.AsType[*payment.Rejection](s.Chain.Simulate(ctx, pay.Authorization, pay.Signature))
	if !refused {
		return false
	}
	switch rejection.Reason {
	case x402.ReasonBalance, x402.ReasonSignature, x402.ReasonSimulation, payment.ReasonPayerBlocked:
		return true
	}
	return false
}

const leastSuspendedPause, mostSuspendedPause = time.Second, 30 * time.Second

// suspendedPause is the polling interval of a payment that was not moved when it could have been: half its age.
func (s *Settlement) suspendedPause(pay payment.Payment) time.Duration {
	now := s.Now()
	age, left := now.Sub(pay.CreatedAt), time.Unix(int64(pay.Authorization.ValidBefore), 0).Sub(now)
	return max(min(max(age/2, leastSuspendedPause), mostSuspendedPause, left), payment.PollPause(age))
}

// suspend releases an order's reservations of floats. The payment is still polled until it is void, less often.
func (s *Settlement) suspend(ctx context.Context, l *job.Lease, o order.Order) error {
	if err := s.Store.Suspend(ctx, l.Fence(), o.ID); err != nil {
		return fmt.Errorf("release the reservations of floats: %w", err)
	}
	return nil
}

// begin moves a paid order to its delivery. One whose reservations were suspended reserves again first; when others
// have taken the float, it is refunded: nothing was asked of the provider yet.
func (s *Settlement) begin(ctx context.Context, l *job.Lease, o order.Order) (order.Order, error) {
	begins := order.Progress{Reason: "delivery begins"}
	moved, err := s.move(ctx, l, o, order.Provisioning, begins)
	if !errors.Is(err, order.ErrSuspended) {
		return moved, err
	}
	err = s.resume(ctx, l, o)
	if short, ok := errors.AsType[*order.Shortage](err); ok {
		return s.refused(ctx, l, o, order.Progress{
			Reason:   "the payment came late, and the float was sold to others meanwhile",
			Evidence: map[string]string{"resource": short.Reservation.Resource},
		})
	}
	if err != nil {
		return o, err
	}
	return s.move(ctx, l, o, order.Provisioning, begins)
}

// resume makes the suspended reservations of a paid order again.
func (s *Settlement) resume(ctx context.Context, l *job.Lease, o order.Order) error {
	suspended, err := s.Store.Suspended(ctx, o)
	if err != nil {
		return fmt.Errorf("read the suspended reservations: %w", err)
	}
	again := make([]order.Reservation, len(suspended))
	for i, h := range suspended {
		if again[i], err = s.Float(ctx, h.Resource, h.Units); err != nil {
			return fmt.Errorf("read the float: %w", err)
		}
	}
	if err := s.Store.Resume(ctx, l.Fence(), o, again); err != nil {
		return fmt.Errorf("reserve again: %w", err)
	}
	return nil
}
