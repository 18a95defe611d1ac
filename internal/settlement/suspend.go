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

// cannotPay reports whether a payment is older than SuspendAfter and its payer cannot pay: the balance is too low, or
// the account was changed or blocked. Ordinary payments settle in seconds.
func (s *Settlement) cannotPay(ctx context.Context, pay payment.Payment) bool {
	if s.Now().Sub(pay.CreatedAt) < s.SuspendAfter || !pay.Signed() {
		return false
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

// suspendedPause is the polling interval of a payment that its payer cannot make now.
func (s *Settlement) suspendedPause(pay payment.Payment) time.Duration {
	now := s.Now()
	left := time.Unix(int64(pay.Authorization.ValidBefore), 0).Sub(now)
	return max(min(2*s.SuspendAfter, left), payment.PollPause(now.Sub(pay.CreatedAt)))
}

// suspend releases an order's reservations of floats while its payer cannot pay. The payment is still polled until it
// is void, at a longer interval. If it arrives, the order continues and reserves again. If the float has become too
// small for all paid orders, the provider refuses the last ones, which are refunded.
func (s *Settlement) suspend(ctx context.Context, l *job.Lease, o order.Order) error {
	if err := s.Store.Suspend(ctx, l.Fence(), o.ID); err != nil {
		return fmt.Errorf("release the reservations of floats: %w", err)
	}
	return nil
}
