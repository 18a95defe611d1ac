package settlement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
)

// Fulfilling is the kind of the job of every claimed order.
const Fulfilling job.Kind = "order_fulfill"

// FulfillArgs names the order to fulfill.
type FulfillArgs struct {
	Order order.ID `json:"order"`
}

// Kind implements job.Args.
func (FulfillArgs) Kind() job.Kind { return Fulfilling }

// Job makes the job of one claim of an order.
func (s *Settlement) Job(id order.ID, claim string) job.New { return FulfillJob(id, claim) }

// FulfillJob is the job of one claim of an order.
func FulfillJob(id order.ID, claim string) job.New {
	return job.New{Args: FulfillArgs{Order: id}, UniqueKey: claim, MaxAttempts: maxAttempts, Class: job.Settle}
}

// maxAttempts is more than a day's: while the chain is away, each look at it fails. Products and payments have
// deadlines of their own.
const maxAttempts = 1000

// Fulfill handles the job of an order: it takes one step after the other, each chosen by the stored status, until the
// order is final or has to wait. Steps never call one another.
func (s *Settlement) Fulfill(ctx context.Context, l *job.Lease) (job.Outcome, error) {
	a, err := job.Decode[FulfillArgs](l.Row())
	if err != nil {
		return job.Outcome{}, fmt.Errorf("read the job: %w", err)
	}
	o, err := s.Store.Find(ctx, a.Order)
	if err != nil {
		return job.Outcome{}, fmt.Errorf("read the order: %w", err)
	}
	return s.advance(ctx, l, o, nil)
}

// Begin handles the first attempt of the job of an order that this process has just claimed. It continues from the
// order and payment given, without reading them, and sends the decision of the payment to decided, which must have
// capacity. It closes decided when the attempt ends.
func (s *Settlement) Begin(o order.Order, pay payment.Payment, decided chan<- payment.Decided) job.Handler {
	return func(ctx context.Context, l *job.Lease) (job.Outcome, error) {
		defer close(decided)
		return s.advance(ctx, l, o, &claimed{payment: pay, decided: decided})
	}
}

// claimed is the payment of an order that was just claimed, and the channel for its decision.
type claimed struct {
	payment payment.Payment
	decided chan<- payment.Decided
	// simulated is the time of the block after which the payment was last simulated.
	simulated time.Time
}

// advance takes steps of an order, each on the order as the step before has stored it.
func (s *Settlement) advance(ctx context.Context, l *job.Lease, o order.Order, known *claimed) (job.Outcome, error) {
	faultpoint.Reach("fulfill.leased")
	for {
		if o.Status != order.Settling && !o.Status.Final() && !l.Enter(job.Deliver) {
			return job.HandOver(job.Deliver), nil
		}
		next, wait, err := s.step(ctx, l, o, known)
		if err != nil {
			return job.Outcome{}, err
		}
		switch {
		case wait < 0:
			faultpoint.Reach("fulfill.done")
			return job.Done(), nil
		case wait > 0 && next.Status == order.Settling && s.waitsInPlace(known, wait) && l.Wait(ctx, wait):
		case wait > 0:
			return job.Snooze(wait), nil
		}
		o = next
	}
}

// inPlace is the age up to which a payment is looked at in the attempt of the process that claimed it. Ordinary
// payments are decided by then, and their buyers wait for that in the same process.
const inPlace = 20 * time.Second

// waitsInPlace reports whether a payment was claimed here and will still be young after a wait.
func (s *Settlement) waitsInPlace(known *claimed, wait time.Duration) bool {
	return known != nil && s.Now().Add(wait).Sub(known.payment.CreatedAt) < inPlace
}

// Park hands an order whose job has used up its attempts to an operator. An order whose payment or refund is undecided
// is not parked: the chain decides it, and until then it keeps its reservations.
func (s *Settlement) Park(ctx context.Context, l *job.Lease, reason string) error {
	a, err := job.Decode[FulfillArgs](l.Row())
	if err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	o, err := s.Store.Find(ctx, a.Order)
	if err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	if o.Status == order.Settling {
		if o, err = s.retrySettle(ctx, l, o); err != nil {
			return err
		}
	}
	switch o.Status {
	case order.Settled, order.Provisioning:
		_, err := s.move(ctx, l, o, order.OperatorReview, order.Progress{Reason: reason})
		return err
	case order.RefundPending:
		return s.retryRefund(ctx, l, o)
	default:
		return nil
	}
}

// retryRefund continues a refund whose job has used up its attempts. The error keeps the job from being parked, so
// that no promised refund is left behind.
func (s *Settlement) retryRefund(ctx context.Context, l *job.Lease, o order.Order) error {
	o, _, err := s.refund(ctx, l, o)
	if err == nil && o.Status == order.RefundPending {
		err = errors.New("the refund is not decided yet")
	}
	return err
}

// retrySettle collects a payment whose job has used up its attempts. The error keeps the job from being parked while
// the payment is undecided.
func (s *Settlement) retrySettle(ctx context.Context, l *job.Lease, o order.Order) (order.Order, error) {
	o, _, err := s.settle(ctx, l, o, nil)
	if err == nil && o.Status == order.Settling {
		err = errors.New("the payment is not decided yet")
	}
	return o, err
}

// step takes one step and returns the order as the step stored it, with the wait before the next step: 0 for at once, a
// positive duration for later, done when there is none.
func (s *Settlement) step(
	ctx context.Context, l *job.Lease, o order.Order, known *claimed,
) (order.Order, time.Duration, error) {
	ctx, span := otel.Tracer("settlement").Start(ctx, "order."+string(o.Status),
		trace.WithAttributes(attribute.String("order.id", string(o.ID)), attribute.String("order.kind", string(o.Kind))))
	defer span.End()
	switch o.Status {
	case order.Settling:
		return s.settle(ctx, l, o, known)
	case order.Settled:
		if o.RefundReason != "" {
			return proceed(s.refused(ctx, l, o, order.Progress{Reason: o.RefundReason}))
		}
		return proceed(s.begin(ctx, l, o))
	case order.Provisioning:
		return s.deliver(ctx, l, o)
	case order.RefundPending:
		return s.refund(ctx, l, o)
	case order.PaymentRequired, order.Expired, order.Fulfilled, order.Refunded, order.OperatorReview:
	}
	return o, done, nil
}

// proceed is the result of a step that the next one follows at once.
func proceed(o order.Order, err error) (order.Order, time.Duration, error) { return o, 0, err }

const done = time.Duration(-1)

// settle collects the order's payment once, and moves the order when the chain has decided.
func (s *Settlement) settle(
	ctx context.Context, l *job.Lease, o order.Order, known *claimed,
) (order.Order, time.Duration, error) {
	var pay payment.Payment
	if known != nil {
		pay = known.payment
	} else {
		var err error
		if pay, err = s.payment(ctx, o.ID); err != nil {
			return o, 0, fmt.Errorf("read the payment: %w", err)
		}
	}
	verdict := s.Collect.Collect(ctx, pay)
	l.Because(verdict.Held)
	var wait time.Duration
	var err error
	switch verdict.State {
	case payment.Settled:
		o, pay, err = s.recordPaid(ctx, l, o, pay, verdict.Receipt)
	case payment.Void:
		o, pay, err = s.recordDead(ctx, l, o, pay, verdict.Reason)
		wait = done
	case payment.Unknown, payment.Unused:
		faultpoint.Reach("settle.undecided")
		if verdict.State == payment.Unused && s.missed(ctx, pay, verdict, known) {
			return o, s.suspendedPause(pay), s.suspend(ctx, l, o)
		}
		return o, payment.PollPause(s.Now().Sub(pay.CreatedAt)), nil
	}
	if err == nil && known != nil {
		known.decided <- payment.Decided{Order: o, Payment: pay}
	}
	return o, wait, err
}

// recordPaid records that a payment is proven.
func (s *Settlement) recordPaid(
	ctx context.Context, l *job.Lease, o order.Order, pay payment.Payment, proof *payment.Receipt,
) (order.Order, payment.Payment, error) {
	faultpoint.Reach("settle.seen")
	pay.Status, pay.Receipt = payment.Paid, proof
	m := workerMove(o, order.Settled, order.Progress{
		Reason: "payment proven", Evidence: map[string]string{"transaction": proof.Transaction.String()},
	})
	m.Postings = pay.Postings()
	o, err := s.Store.Settle(ctx, l.Fence(), pay, m, ConfirmJob(pay))
	if err != nil {
		return o, pay, fmt.Errorf("record the payment: %w", err)
	}
	s.Metrics.Settled(ctx, string(o.Kind), "paid")
	s.Metrics.Proven(ctx, string(o.Kind), max(0, s.Now().Sub(pay.CreatedAt)))
	s.Metrics.Moved(ctx, string(o.Kind), string(m.From), string(m.To))
	faultpoint.Reach("settle.committed")
	return o, pay, nil
}

// recordDead records that a payment can never arrive.
func (s *Settlement) recordDead(
	ctx context.Context, l *job.Lease, o order.Order, pay payment.Payment, reason string,
) (order.Order, payment.Payment, error) {
	pay.Status, pay.DeadReason = payment.Dead, reason
	m := workerMove(o, order.PaymentRequired, order.Progress{Reason: "payment dead: " + reason})
	o, err := s.Store.MarkDead(ctx, l.Fence(), pay, m)
	if err != nil {
		return o, pay, fmt.Errorf("record the dead payment: %w", err)
	}
	s.Metrics.Settled(ctx, string(o.Kind), "dead")
	s.Metrics.Moved(ctx, string(o.Kind), string(m.From), string(m.To))
	faultpoint.Reach("void.committed")
	return o, pay, nil
}

// deliver takes one step of the product's delivery.
func (s *Settlement) deliver(ctx context.Context, l *job.Lease, o order.Order) (order.Order, time.Duration, error) {
	l.Because("") // the payment is waited for no longer
	at, err := s.products[o.Kind].Deliver(ctx, l, o)
	if err != nil {
		return o, 0, fmt.Errorf("deliver the %s: %w", o.Kind, err)
	}
	switch at.State {
	case order.Delivered:
		return proceed(s.fulfilled(ctx, l, o, at))
	case order.Refused:
		return proceed(s.refused(ctx, l, o, at))
	case order.Doubtful:
		// The payment arrived and the delivery is uncertain: an operator decides by the evidence.
		if why := l.Reason(); why != "" {
			said := map[string]string{"last": why}
			maps.Copy(said, at.Evidence)
			at.Evidence = said
		}
		return proceed(s.move(ctx, l, o, order.OperatorReview, at))
	case order.Waiting:
	}
	return o, max(at.After, time.Millisecond), nil
}

// fulfilled ends a delivery, with its postings.
func (s *Settlement) fulfilled(
	ctx context.Context, l *job.Lease, o order.Order, at order.Progress,
) (order.Order, error) {
	m := workerMove(o, order.Fulfilled, at)
	var err error
	if m.Postings, err = s.products[o.Kind].Postings(o); err != nil {
		return o, fmt.Errorf("post the %s: %w", o.Kind, err)
	}
	return s.apply(ctx, l, m)
}

// ended records how long an order took from its claim, which made the job, to its end or to an operator.
func (s *Settlement) ended(ctx context.Context, l *job.Lease, o order.Order) {
	claimed := l.Row().CreatedAt
	if l.Row().Kind == Fulfilling && (o.Status.Final() || o.Status == order.OperatorReview) && !claimed.IsZero() {
		s.Metrics.Ended(ctx, string(o.Kind), string(o.Status), max(0, s.Now().Sub(claimed)))
	}
}

func (s *Settlement) move(
	ctx context.Context, l *job.Lease, o order.Order, to order.Status, at order.Progress,
) (order.Order, error) {
	return s.apply(ctx, l, workerMove(o, to, at))
}

func (s *Settlement) apply(ctx context.Context, l *job.Lease, m order.Move) (order.Order, error) {
	o, err := s.Store.Move(ctx, l.Fence(), m)
	if err != nil {
		return o, fmt.Errorf("move the order to %s: %w", m.To, err)
	}
	s.Metrics.Moved(ctx, string(o.Kind), string(m.From), string(m.To))
	s.ended(ctx, l, o)
	faultpoint.Reach("move.committed")
	return o, nil
}

func workerMove(o order.Order, to order.Status, at order.Progress) order.Move {
	return order.Move{
		Order: o.ID, Owner: o.Owner, From: o.Status, To: to, Actor: order.Worker, Reason: at.Reason, Evidence: at.Evidence,
	}
}
