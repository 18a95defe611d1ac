package settlement

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
)

// Confirming is the kind of the job that watches a payment until it is final. Goods are delivered before that, because
// a block becomes final minutes later.
const Confirming job.Kind = "payment_confirm"

// ConfirmArgs names the order whose payment is watched.
type ConfirmArgs struct {
	Order order.ID `json:"order"`
}

// Kind implements job.Args.
func (ConfirmArgs) Kind() job.Kind { return Confirming }

// ConfirmJob is the job that watches a payment after it is proven.
func ConfirmJob(p payment.Payment) job.New {
	return job.New{Args: ConfirmArgs{Order: p.Order}, UniqueKey: p.ID.String(), MaxAttempts: maxAttempts}
}

const (
	minConfirmPause = 15 * time.Second
	maxConfirmPause = 2 * time.Minute
	// maxFinalPause bounds the pause of a payment whose block is known to be final later.
	maxFinalPause = 5 * time.Minute
	// confirmDeadline is longer than a chain takes to finalize a block.
	confirmDeadline = 24 * time.Hour
)

// Confirm handles the job of a proven payment. A payment that a reorganisation removed is submitted again; when it is
// void, an operator decides.
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
		// The search may miss a transfer that an operator's hint proved, or whose logs the nodes have dropped.
		final, err = s.Evidence.Prove(ctx, pay.Authorization, pay.Receipt.Transaction)
	}
	if err != nil {
		return job.Outcome{}, fmt.Errorf("read the final state of the payment: %w", err)
	}
	switch final.State {
	case payment.Settled:
		faultpoint.Reach("confirm.final")
		return s.confirmed(ctx, l, pay, *final.Receipt)
	case payment.Void:
		return s.paymentVoid(ctx, l, pay, final.Reason)
	case payment.Unknown, payment.Unused:
	}
	if s.overdue(l.Row().CreatedAt, confirmDeadline) {
		return job.Review("the payment never became final"), nil
	}
	if err := s.restore(ctx, pay); err != nil {
		return job.Outcome{}, err
	}
	return job.Snooze(s.untilFinal(ctx, l, pay.Receipt)), nil
}

// untilFinal is the time to the next look at a transfer that is not final.
func (s *Settlement) untilFinal(ctx context.Context, l *job.Lease, shown *payment.Receipt) time.Duration {
	age := s.Now().Sub(l.Row().CreatedAt)
	if s.FinalTime == nil || shown == nil {
		return confirmPause(age, 0)
	}
	final, err := s.FinalTime(ctx)
	if err != nil {
		return confirmPause(age, 0)
	}
	return confirmPause(age, shown.SettledAt.Sub(final))
}

// confirmPause is the polling interval of a transfer that is not final yet, whose block is so far ahead of the final
// one. It grows with age: an old block is rarely reorganised, and many waiting payments must not delay other
// maintenance. After the first pause, in which a reorganisation is likeliest, the final block has to come first.
func confirmPause(age, ahead time.Duration) time.Duration {
	pause := min(max(minConfirmPause, age/4), maxConfirmPause)
	if age < minConfirmPause {
		return pause
	}
	return max(pause, min(ahead, maxFinalPause))
}

// restore submits a payment again when the latest block no longer shows it.
func (s *Settlement) restore(ctx context.Context, pay payment.Payment) error {
	latest, err := s.Chain.Verdict(ctx, pay.Authorization, pay.Since())
	if err != nil {
		return fmt.Errorf("look for the payment: %w", err)
	}
	if latest.State == payment.Unused {
		s.Log.ErrorContext(ctx, "payment removed by a reorganisation", slog.String("order", string(pay.Order)))
		s.Collect.Collect(ctx, pay)
	}
	return nil
}

// confirmed ends the watch. The final transfer may be in another transaction than the one first seen.
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

// paymentVoid stops a delivery that has not ended. Delivered goods stay, and an operator decides.
func (s *Settlement) paymentVoid(
	ctx context.Context, l *job.Lease, pay payment.Payment, reason string,
) (job.Outcome, error) {
	why := "the payment was undone: " + reason
	o, err := s.Store.Find(ctx, pay.Order)
	if err != nil {
		return job.Outcome{}, fmt.Errorf("read the order: %w", err)
	}
	if o.Status.Open() {
		if _, err := s.move(ctx, l, o, order.OperatorReview, order.Progress{Reason: why}); err != nil {
			return job.Outcome{}, err
		}
	}
	return job.Review(why), nil
}
