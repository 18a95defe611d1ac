package settlement

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/testing/faultpoint"
)

// Confirming is the kind of the job that follows a payment until no reorganisation can undo it. Goods are
// delivered before that: a block is final minutes later.
const Confirming job.Kind = "payment_confirm"

// ConfirmArgs names the order whose payment is followed.
type ConfirmArgs struct {
	Order order.ID `json:"order"`
}

// Kind implements job.Args.
func (ConfirmArgs) Kind() job.Kind { return Confirming }

// ConfirmJob is the job that follows a payment once it is proven.
func ConfirmJob(p payment.Payment) job.New {
	return job.New{Args: ConfirmArgs{Order: p.Order}, UniqueKey: p.ID.String(), MaxAttempts: maxAttempts}
}

const (
	confirmAgain   = 15 * time.Second
	confirmAtLeast = 2 * time.Minute
	// confirmDeadline is longer than any chain takes to be final.
	confirmDeadline = 24 * time.Hour
)

// Confirm handles the job of a payment that was seen settled. A payment that a reorganisation undid is
// brought to the chain again; one that can never come back goes to an operator.
func (s *Settlement) Confirm(ctx context.Context, l *job.Lease) (job.Outcome, error) {
	a, err := job.Decode[ConfirmArgs](l.Row())
	if err != nil {
		return job.Outcome{}, fmt.Errorf("read the job: %w", err)
	}
	pay, err := s.payment(ctx, a.Order)
	if err != nil {
		return job.Outcome{}, fmt.Errorf("read the payment: %w", err)
	}
	final, err := s.Final.Verdict(ctx, pay.Authorization, pay.Since())
	if err == nil && final.State == payment.Unknown && pay.Receipt != nil && s.Evidence != nil {
		// What no search finds may still stand where it was proven, by an operator's hint or before the logs were dropped.
		final, err = s.Evidence.Prove(ctx, pay.Authorization, pay.Receipt.Transaction)
	}
	if err != nil {
		return job.Outcome{}, fmt.Errorf("judge the payment: %w", err)
	}
	switch final.State {
	case payment.Settled:
		faultpoint.Reach("confirm.final")
		return s.confirmed(ctx, l, pay, *final.Receipt)
	case payment.Void:
		return s.undone(ctx, l, pay, final.Reason)
	case payment.Unknown, payment.Unused:
	}
	if s.Now().Sub(l.Row().CreatedAt) > confirmDeadline {
		return job.Review("the payment never became final"), nil
	}
	if err := s.restore(ctx, pay); err != nil {
		return job.Outcome{}, err
	}
	return job.Snooze(confirmLater(s.Now().Sub(l.Row().CreatedAt))), nil
}

// confirmLater is how long a payment that is not final yet rests: what stood for minutes is seldom undone, and many
// that wait must not keep the rest of the upkeep waiting.
func confirmLater(age time.Duration) time.Duration {
	return min(max(confirmAgain, age/4), confirmAtLeast)
}

// restore brings a payment back to the chain when the latest block does not show it any more.
func (s *Settlement) restore(ctx context.Context, pay payment.Payment) error {
	latest, err := s.Chain.Verdict(ctx, pay.Authorization, pay.Since())
	if err != nil {
		return fmt.Errorf("look for the payment: %w", err)
	}
	if latest.State == payment.Unused {
		s.Log.ErrorContext(ctx, "payment undone by a reorganisation", slog.String("order", string(pay.Order)))
		s.Collect.Collect(ctx, pay)
	}
	return nil
}

// confirmed ends the watch. The transfer may stand in another transaction than the one first seen.
func (s *Settlement) confirmed(
	ctx context.Context, l *job.Lease, pay payment.Payment, r payment.Receipt,
) (job.Outcome, error) {
	if pay.Receipt == nil || pay.Receipt.Transaction != r.Transaction || pay.Receipt.BlockHash != r.BlockHash {
		pay.Receipt = &r
		if err := s.Store.Reprove(ctx, l.Fence(), pay); err != nil {
			return job.Outcome{}, fmt.Errorf("record the final transfer: %w", err)
		}
	}
	return job.Done(), nil
}

// undone stops a delivery that is still under way; what is delivered stays, and an operator decides.
func (s *Settlement) undone(
	ctx context.Context, l *job.Lease, pay payment.Payment, reason string,
) (job.Outcome, error) {
	why := "the payment was undone: " + reason
	o, err := s.Store.Find(ctx, pay.Order)
	if err != nil {
		return job.Outcome{}, fmt.Errorf("read the order: %w", err)
	}
	if o.Status == order.Settled || o.Status == order.Provisioning {
		if _, err := s.move(ctx, l, o, order.OperatorReview, order.Progress{Reason: why}); err != nil {
			return job.Outcome{}, err
		}
	}
	return job.Review(why), nil
}
