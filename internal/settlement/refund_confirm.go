package settlement

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
)

// RefundConfirming is the kind of the job that watches a refund until it is final.
const RefundConfirming job.Kind = "refund_confirm"

// RefundConfirmArgs names the order whose refund is watched.
type RefundConfirmArgs struct {
	Order order.ID `json:"order"`
}

// Kind implements job.Args.
func (RefundConfirmArgs) Kind() job.Kind { return RefundConfirming }

func refundConfirmJob(r payment.Refund) job.New {
	return job.New{Args: RefundConfirmArgs{Order: r.Order}, UniqueKey: r.ID.String(), MaxAttempts: maxAttempts}
}

// ConfirmRefund handles the job of a paid refund. A refund that a reorganisation removed is submitted again; when its
// window has passed, it is signed again with the same nonce.
func (s *Settlement) ConfirmRefund(ctx context.Context, l *job.Lease) (job.Outcome, error) {
	a, err := job.Decode[RefundConfirmArgs](l.Row())
	if err != nil {
		return job.Outcome{}, fmt.Errorf("read the job: %w", err)
	}
	r, err := s.refundOf(ctx, a.Order)
	if err != nil {
		return job.Outcome{}, err
	}
	final, err := s.Final.Verdict(ctx, r.Authorization, r.Since())
	if err != nil {
		return job.Outcome{}, fmt.Errorf("read the final state of the refund: %w", err)
	}
	switch final.State {
	case payment.Settled:
		faultpoint.Reach("refund.final")
		if err := s.refundFinal(ctx, l, r, *final.Receipt); err != nil {
			return job.Outcome{}, err
		}
		return job.Done(), nil
	case payment.Void:
		if final.Reason != payment.ReasonExpired || s.Refunds.Unavailable() != "" {
			return job.Review("the refund was undone: " + final.Reason), nil
		}
		if r, err = s.renewRefund(ctx, l, r); err != nil {
			return job.Outcome{}, err
		}
	case payment.Unknown, payment.Unused:
	}
	if s.overdue(l.Row().CreatedAt, confirmDeadline) {
		return job.Review("the refund never became final"), nil
	}
	if err := s.restoreRefund(ctx, r); err != nil {
		return job.Outcome{}, err
	}
	return job.Snooze(s.untilFinal(ctx, l, r.Receipt)), nil
}

// restoreRefund submits a refund again when the latest block no longer shows it.
func (s *Settlement) restoreRefund(ctx context.Context, r payment.Refund) error {
	latest, _, err := s.sendRefund(ctx, r)
	if err == nil && latest.State == payment.Unused {
		s.Log.ErrorContext(ctx, "refund removed by a reorganisation", slog.String("order", string(r.Order)))
	}
	return err
}

func (s *Settlement) renewRefund(ctx context.Context, l *job.Lease, earlier payment.Refund) (payment.Refund, error) {
	pay, err := s.payment(ctx, earlier.Order)
	if err != nil {
		return earlier, fmt.Errorf("read the payment: %w", err)
	}
	r, why, err := s.newRefund(ctx, pay, &earlier)
	switch {
	case err != nil:
		return earlier, err
	case why != "":
		return earlier, errors.New("the refund cannot be made again: " + why)
	}
	if err := s.Store.SignRefund(ctx, l.Fence(), r, &earlier); err != nil {
		return earlier, fmt.Errorf("store the refund: %w", err)
	}
	return r, nil
}

// refundFinal records the final transfer, which may be in another transaction than the one first seen.
func (s *Settlement) refundFinal(ctx context.Context, l *job.Lease, r payment.Refund, final payment.Receipt) error {
	if r.Receipt != nil && r.Receipt.Transaction == final.Transaction && r.Receipt.BlockHash == final.BlockHash {
		return nil
	}
	r.Receipt = &final
	if err := s.Store.ReproveRefund(ctx, l.Fence(), r); err != nil {
		return fmt.Errorf("record the final transfer: %w", err)
	}
	return nil
}
