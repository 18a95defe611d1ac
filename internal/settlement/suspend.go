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

// withoutMoney reports that a payment has been waited for, and its payer does not have the money, or not any more, or
// has made their account one that cannot pay. Who pays does so in seconds.
func (s *Settlement) withoutMoney(ctx context.Context, pay payment.Payment) bool {
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

// suspendedPause is between two looks at a payment that its payer cannot make now. Nobody waits for it before it ends.
func (s *Settlement) suspendedPause(pay payment.Payment) time.Duration {
	now := s.Now()
	left := time.Unix(int64(pay.Authorization.ValidBefore), 0).Sub(now)
	return max(min(2*s.SuspendAfter, left), payment.LookAgain(now.Sub(pay.CreatedAt)))
}

// suspend lets others have what an order holds of a float while its payer does not have the money. The payment is
// looked at all the same until it can come no more, though not as often, since nobody waits for it. Should it come, the
// order goes on, and holds its share again. Where the float has become too small for all that are paid, the provider
// refuses the last, who get their money back.
func (s *Settlement) suspend(ctx context.Context, l *job.Lease, o order.Order) error {
	if err := s.Store.Suspend(ctx, l.Fence(), o.ID); err != nil {
		return fmt.Errorf("give the share of the float back: %w", err)
	}
	return nil
}
