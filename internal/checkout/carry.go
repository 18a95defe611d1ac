package checkout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/mutant"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
)

// Carrying is the kind of the job that stands behind every order.
const Carrying job.Kind = "order_carry"

// CarryArgs names the order to carry.
type CarryArgs struct {
	Order order.ID `json:"order"`
}

// Kind implements job.Args.
func (CarryArgs) Kind() job.Kind { return Carrying }

// CarryJob is the job of one claim of an order.
func CarryJob(id order.ID, claim string) job.New {
	return job.New{Args: CarryArgs{Order: id}, UniqueKey: claim, MaxAttempts: carryAttempts}
}

// carryAttempts is high because a crash or a dead dependency uses attempts up too; products and
// payments have their own patience.
const carryAttempts = 1000

// Carry handles the job of an order: it takes the step that the stored status asks for, and the next,
// until the order is final or has to wait. Steps never call one another.
func (c *Checkout) Carry(ctx context.Context, l *job.Lease) (job.Outcome, error) {
	a, err := job.Decode[CarryArgs](l.Row())
	if err != nil {
		return job.Outcome{}, fmt.Errorf("read the job: %w", err)
	}
	faultpoint.Reach("carry.leased")
	for {
		o, err := c.Store.Find(ctx, a.Order)
		if err != nil {
			return job.Outcome{}, fmt.Errorf("read the order: %w", err)
		}
		wait, err := c.step(ctx, l, o)
		if err != nil {
			return job.Outcome{}, err
		}
		switch {
		case wait < 0:
			faultpoint.Reach("carry.done")
			return job.Done(), nil
		case wait > 0:
			return job.Snooze(wait), nil
		}
	}
}

// Park hands an order whose job has used up its attempts to an operator. An order that is not paid yet
// stays where it is, behind its parked job: the chain may still decide it.
func (c *Checkout) Park(ctx context.Context, l *job.Lease, reason string) error {
	a, err := job.Decode[CarryArgs](l.Row())
	if err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	o, err := c.Store.Find(ctx, a.Order)
	if err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	switch o.Status {
	case order.Settled, order.Provisioning:
		return c.move(ctx, l, o, order.OperatorReview, order.Progress{Reason: reason})
	case order.RefundPending:
		return c.refundAllTheSame(ctx, l, o)
	default:
		return nil
	}
}

// refundAllTheSame goes on with a refund whose job has used up its attempts: money that is promised back
// is not left behind a parked job. The error keeps the job from being parked.
func (c *Checkout) refundAllTheSame(ctx context.Context, l *job.Lease, o order.Order) error {
	if _, err := c.refund(ctx, l, o); err != nil {
		return err
	}
	o, err := c.Store.Find(ctx, o.ID)
	if err == nil && o.Status == order.RefundPending {
		err = errors.New("the refund is not decided yet")
	}
	return err
}

// step takes one step: 0 means look at once for the next, a positive time means later, rest means that
// there is nothing to do.
func (c *Checkout) step(ctx context.Context, l *job.Lease, o order.Order) (time.Duration, error) {
	ctx, span := otel.Tracer("checkout").Start(ctx, "order."+string(o.Status),
		trace.WithAttributes(attribute.String("order.id", string(o.ID)), attribute.String("order.kind", string(o.Kind))))
	defer span.End()
	switch o.Status {
	case order.Settling:
		return c.settle(ctx, l, o)
	case order.Settled:
		return 0, c.move(ctx, l, o, order.Provisioning, order.Progress{Reason: "delivery begins"})
	case order.Provisioning:
		return c.deliver(ctx, l, o)
	case order.RefundPending:
		return c.refund(ctx, l, o)
	case order.PaymentRequired, order.Expired, order.Fulfilled, order.Refunded, order.OperatorReview:
	}
	return rest, nil
}

const rest = time.Duration(-1)

// settle brings the order's payment to a verdict of the chain.
func (c *Checkout) settle(ctx context.Context, l *job.Lease, o order.Order) (time.Duration, error) {
	pay, err := c.payment(ctx, o.ID)
	if err != nil {
		return 0, fmt.Errorf("read the payment: %w", err)
	}
	if held := c.withheld(o); held > 0 {
		return held, nil
	}
	if mutant.DeliverFirst {
		if at, err := c.products[o.Kind].Deliver(ctx, l, o); err != nil || at.State == order.Waiting {
			return settleAgain, err
		}
	}
	verdict := c.Collect.Collect(ctx, pay)
	switch verdict.State {
	case payment.Moved:
		faultpoint.Reach("settle.seen")
		pay.Status, pay.Receipt = payment.Paid, verdict.Receipt
		m := worker(o, order.Settled, order.Progress{
			Reason: "payment proven", Evidence: map[string]string{"transaction": verdict.Receipt.Transaction.String()},
		})
		if err := c.Store.Settle(ctx, l.Fence(), pay, m, confirmJob(pay)); err != nil {
			return 0, fmt.Errorf("record the payment: %w", err)
		}
		c.Metrics.Settled(ctx, string(o.Kind), "paid")
		c.Metrics.Moved(ctx, string(o.Kind), string(m.From), string(m.To))
		faultpoint.Reach("settle.committed")
		return 0, nil
	case payment.Gone:
		pay.Status, pay.DeadReason = payment.Dead, verdict.Reason
		m := worker(o, order.PaymentRequired, order.Progress{Reason: "payment dead: " + verdict.Reason})
		if err := c.Store.Bury(ctx, l.Fence(), pay, m); err != nil {
			return 0, fmt.Errorf("record the dead payment: %w", err)
		}
		c.Metrics.Settled(ctx, string(o.Kind), "dead")
		c.Metrics.Moved(ctx, string(o.Kind), string(m.From), string(m.To))
		faultpoint.Reach("bury.committed")
		return rest, nil
	case payment.Unknown, payment.Unused:
	}
	return settleAgain, nil
}

// settleAgain is how long an undecided payment rests between looks.
const settleAgain = time.Second

// withheld is the sandbox's scenario 004: the payment stays unknown longer than a buyer waits.
func (c *Checkout) withheld(o order.Order) time.Duration {
	if o.Scenario != "004" {
		return 0
	}
	return max(0, o.UpdatedAt.Add(c.Wait+5*time.Second).Sub(c.Now()))
}

// deliver takes one step of the product's delivery.
func (c *Checkout) deliver(ctx context.Context, l *job.Lease, o order.Order) (time.Duration, error) {
	at, err := c.products[o.Kind].Deliver(ctx, l, o)
	if err != nil {
		return 0, fmt.Errorf("deliver the %s: %w", o.Kind, err)
	}
	switch at.State {
	case order.Delivered:
		return 0, c.move(ctx, l, o, order.Fulfilled, at)
	case order.Refused:
		return 0, c.refused(ctx, l, o, at)
	case order.Doubtful:
		// Money is in, and the goods may come or not: a person decides, with the evidence before them.
		return 0, c.move(ctx, l, o, order.OperatorReview, at)
	case order.Waiting:
	}
	return max(at.After, time.Millisecond), nil
}

func (c *Checkout) move(ctx context.Context, l *job.Lease, o order.Order, to order.Status, at order.Progress) error {
	return c.take(ctx, l, o.Kind, worker(o, to, at))
}

func (c *Checkout) take(ctx context.Context, l *job.Lease, kind order.Kind, m order.Move) error {
	if err := c.Store.Move(ctx, l.Fence(), m); err != nil {
		return fmt.Errorf("move the order to %s: %w", m.To, err)
	}
	c.Metrics.Moved(ctx, string(kind), string(m.From), string(m.To))
	faultpoint.Reach("move.committed")
	return nil
}

func worker(o order.Order, to order.Status, at order.Progress) order.Move {
	return order.Move{Order: o.ID, From: o.Status, To: to, Actor: "worker", Reason: at.Reason, Evidence: at.Evidence}
}
