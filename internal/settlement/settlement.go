// Package settlement settles claimed orders: it collects the payment, delivers the goods, or refunds the payment.
//
//	Fulfill:  settling ─ collect ─► settled ─► provisioning ─ deliver ─► fulfilled
//	             │ void                            │ refused
//	             ▼                                 ▼
//	          payment_required                 refund_pending ─ refund ─► refunded
//
//	Return: a part of what a delivered order cost goes back to its payer
//
//	Confirm, ConfirmRefund: on the chain ─► final, or submitted again
//
// All of it runs in jobs. Only the stored status of an order decides its next step, so that any process can continue
// where another one has stopped.
package settlement

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/x402"
)

// Product delivers the goods of paid orders.
type Product interface {
	Kind() order.Kind
	// Deliver takes one step. It is called again until it returns Delivered, Refused or Doubtful, also after a crash at
	// any point.
	Deliver(ctx context.Context, l *job.Lease, o order.Order) (order.Progress, error)
	// Postings are the ledger postings of a fulfilled order, delivered by Deliver or by hand. Postings that Deliver
	// made itself are not among them.
	Postings(o order.Order) ([]ledger.Posting, error)
}

// Store keeps orders and their payments. A write has the fence of its job, and fails with job.ErrLeaseLost once another
// worker has the job. A method that moves an order posts the move's postings in the same transaction, and returns the
// order as it is stored then.
type Store interface {
	SuspendedStore
	RefundStore
	// Find finds an order; order.ErrNotFound when there is none.
	Find(ctx context.Context, id order.ID) (order.Order, error)
	// Payments finds the payment that decides each order: the paid one, else the one in flight, else
	// the last dead one. An order without a claim is left out.
	Payments(ctx context.Context, ids ...order.ID) (map[order.ID]payment.Payment, error)
	// Settle records a proven payment, moves its order to settled, and enqueues the job that watches the payment until
	// it is final.
	Settle(ctx context.Context, f job.Fence, p payment.Payment, m order.Move, watch job.New) (order.Order, error)
	// Reprove records the final place of a paid payment's transfer.
	Reprove(ctx context.Context, f job.Fence, p payment.Payment) error
	// MarkDead records that a payment can never arrive, releases its order's reservations, and makes the order
	// payable again.
	MarkDead(ctx context.Context, f job.Fence, p payment.Payment, m order.Move) (order.Order, error)
	// Move changes the status of an order. A final status releases its reservations. order.ErrSuspended keeps an order
	// with suspended reservations from Provisioning.
	Move(ctx context.Context, f job.Fence, m order.Move) (order.Order, error)
	RefundStore
}

// SuspendedStore keeps what orders had reserved that are not paid in time.
type SuspendedStore interface {
	// Suspend releases an unpaid order's reservations of floats.
	Suspend(ctx context.Context, f job.Fence, id order.ID) error
	// Suspended lists what of an order's reservations was released by Suspend: Resource and Units.
	Suspended(ctx context.Context, o order.Order) ([]order.Reservation, error)
	// Resume makes suspended reservations of a paid order again, all or none. An *order.Shortage says that one does not
	// fit any more.
	Resume(ctx context.Context, f job.Fence, o order.Order, again []order.Reservation) error
}

// RefundStore keeps refunds, as Store keeps payments.
type RefundStore interface {
	// Refunds finds the refunds of orders; an order without one is left out.
	Refunds(ctx context.Context, ids ...order.ID) (map[order.ID]payment.Refund, error)
	// SignRefund stores a refund before it is sent: a new one, or a new window of earlier, which must not have changed
	// since it was read.
	SignRefund(ctx context.Context, f job.Fence, r payment.Refund, earlier *payment.Refund) error
	// Refunded records a proven refund, moves its order to refunded, and enqueues the job that watches the refund until
	// it is final.
	Refunded(ctx context.Context, f job.Fence, r payment.Refund, m order.Move, watch job.New) (order.Order, error)
	// MarkRefundDead marks a signed refund dead, and moves its order.
	MarkRefundDead(ctx context.Context, f job.Fence, r payment.Refund, m order.Move) (order.Order, error)
	// Returned records a proven return with the next arguments of its job and its postings, and enqueues the job that
	// watches it until it is final.
	Returned(ctx context.Context, f job.Fence, r payment.Refund, of payment.Return, watch job.New) error
	// MarkReturnDead marks a signed return dead.
	MarkReturnDead(ctx context.Context, f job.Fence, r payment.Refund) error
	// ReproveRefund records the final place of a paid refund's transfer.
	ReproveRefund(ctx context.Context, f job.Fence, r payment.Refund) error
}

// Collector submits a claimed payment and reads its verdict.
type Collector interface {
	// Collect asks the chain once. It never fails: while the payment is undecided, or the chain does not answer, the
	// verdict is Unknown or Unused.
	Collect(ctx context.Context, p payment.Payment) payment.Verdict
}

// Evidence reads a named transaction.
type Evidence interface {
	// Prove is Settled when the transaction made exactly this payment, else Unknown.
	Prove(ctx context.Context, a x402.Authorization, transaction x402.Hash) (payment.Verdict, error)
}

// Config is what a Settlement is made of.
type Config struct {
	Store    Store
	Products []Product
	Chain    payment.Chain
	// Final is the same chain, read at the final block.
	Final payment.Chain
	// FinalTime is the time of the final block. It decides only when transfers are looked at again; nil takes their age.
	FinalTime func(ctx context.Context) (time.Time, error)
	// Evidence reads transactions at the final block; nil disables it.
	Evidence Evidence
	Collect  Collector
	Refunds  Refunds
	Log      *slog.Logger
	Now      func() time.Time
	Metrics  *telemetry.Metrics
	// HeadTime is the time of the block at which Collect looks; nil takes Now, as for a chain with a block at each moment.
	HeadTime func(ctx context.Context) (time.Time, error)
	// Working is since when jobs are claimed without an interruption, see job.Runner; nil is always.
	Working func() time.Time
	// Float is the reservation of so many units of a float, as known now.
	Float func(ctx context.Context, resource string, units int64) (order.Reservation, error)
}

// Settlement runs the jobs of claimed orders.
type Settlement struct {
	Config
	products map[order.Kind]Product
}

// New makes a Settlement.
func New(c Config) *Settlement {
	if c.HeadTime == nil {
		c.HeadTime = func(context.Context) (time.Time, error) { return c.Now(), nil }
	}
	s := &Settlement{Config: c, products: map[order.Kind]Product{}}
	for _, p := range c.Products {
		s.products[p.Kind()] = p
	}
	return s
}

// overdue reports whether what is awaited since a time goes to an operator.
func (s *Settlement) overdue(since time.Time, deadline time.Duration) bool {
	var working time.Time
	if s.Working != nil {
		working = s.Working()
	}
	return job.Overdue(s.Now(), since, working, deadline)
}

// payment reads the payment that decides an order.
func (s *Settlement) payment(ctx context.Context, id order.ID) (payment.Payment, error) {
	found, err := s.Store.Payments(ctx, id)
	if err != nil {
		return payment.Payment{}, err
	}
	p, ok := found[id]
	if !ok {
		return payment.Payment{}, fmt.Errorf("order %s: its payment: %w", id, order.ErrNotFound)
	}
	return p, nil
}
