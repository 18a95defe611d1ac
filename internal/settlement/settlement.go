// Package settlement settles claimed orders: it collects the payment, delivers the goods, or refunds the money.
//
//	Fulfill:  settling ─ collect ─► settled ─► provisioning ─ deliver ─► fulfilled
//	             │ void                            │ refused
//	             ▼                                 ▼
//	          payment_required                 refund_pending ─ refund ─► refunded
//
//	Confirm, ConfirmRefund: seen on chain ─► final, or brought to the chain again
//
// All of it runs in jobs. The stored status of an order alone decides its next step, so that any process can go on
// where another one has stopped.
package settlement

import (
	"cmp"
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

// Product delivers what its orders were paid for.
type Product interface {
	Kind() order.Kind
	// Deliver takes one step. It is called again until it says Delivered, Refused or Doubtful, also
	// after a crash at any point of it.
	Deliver(ctx context.Context, l *job.Lease, o order.Order) (order.Progress, error)
	// Postings are what the ledger gets when an order is fulfilled, by its delivery or by hand. What a delivery posted
	// on its way is not among them.
	Postings(o order.Order) ([]ledger.Posting, error)
}

// Store keeps orders and their payments. A write carries the fence of its job and does nothing, with
// job.ErrLeaseLost, once another worker has the job. Whatever moves an order posts what the move says, in the same
// transaction, and returns the order as it is stored then.
type Store interface {
	// Find finds an order; order.ErrNotFound when there is none.
	Find(ctx context.Context, id order.ID) (order.Order, error)
	// Payments finds the payment that decides each order: the paid one, else the one in flight, else
	// the last dead one. An order without a claim is left out.
	Payments(ctx context.Context, ids ...order.ID) (map[order.ID]payment.Payment, error)
	// Settle records a proven payment, moves its order to settled, and enqueues the job that follows the
	// payment until it is final.
	Settle(ctx context.Context, f job.Fence, p payment.Payment, m order.Move, follow job.New) (order.Order, error)
	// Reprove records where a paid payment's transfer stands for good.
	Reprove(ctx context.Context, f job.Fence, p payment.Payment) error
	// MarkDead records that a payment can never arrive, releases its order's reservations, and makes the order
	// payable again.
	MarkDead(ctx context.Context, f job.Fence, p payment.Payment, m order.Move) (order.Order, error)
	// Suspend releases what an unpaid order reserves of floats until Settle, which reserves it again.
	Suspend(ctx context.Context, f job.Fence, id order.ID) error
	// Move takes a step of an order. When it ends the order, its reservations are released.
	Move(ctx context.Context, f job.Fence, m order.Move) (order.Order, error)
	RefundStore
}

// RefundStore keeps refunds, as Store keeps payments.
type RefundStore interface {
	// Refunds finds the refunds of orders; an order without one is left out.
	Refunds(ctx context.Context, ids ...order.ID) (map[order.ID]payment.Refund, error)
	// SignRefund keeps a refund before anything of it is sent: a new one, or a new window of earlier, which
	// must be as it was read.
	SignRefund(ctx context.Context, f job.Fence, r payment.Refund, earlier *payment.Refund) error
	// Refunded records a proven refund, moves its order to refunded, and enqueues the job that follows the
	// refund until it is final.
	Refunded(ctx context.Context, f job.Fence, r payment.Refund, m order.Move, follow job.New) (order.Order, error)
	// GiveUpRefund records that a signed refund can never move its money, and moves its order.
	GiveUpRefund(ctx context.Context, f job.Fence, r payment.Refund, m order.Move) (order.Order, error)
	// ReproveRefund records where a paid refund's transfer stands for good.
	ReproveRefund(ctx context.Context, f job.Fence, r payment.Refund) error
}

// Collector brings a claimed payment to a verdict.
type Collector interface {
	// Collect looks once. It never fails: while the chain does not decide, or does not answer, the verdict is
	// Unknown or Unused.
	Collect(ctx context.Context, p payment.Payment) payment.Verdict
}

// Evidence looks into a transaction that is named.
type Evidence interface {
	// Prove is Settled when the transaction made exactly this payment, and Unknown when it did not or cannot be told.
	Prove(ctx context.Context, a x402.Authorization, transaction x402.Hash) (payment.Verdict, error)
}

// Config is what a Settlement is made of.
type Config struct {
	Store    Store
	Products []Product
	Chain    payment.Chain
	// Final is the same chain, read at a block that nothing can undo.
	Final payment.Chain
	// Evidence looks into a transaction at that block, too. Nil does not.
	Evidence Evidence
	Collect  Collector
	Refunds  Refunds
	Log      *slog.Logger
	Now      func() time.Time
	Metrics  *telemetry.Metrics
	// SuspendAfter is how old an unpaid claim is at least when its payer is found not to have the money, and it gives
	// its share of a float back. Zero is 15 s.
	SuspendAfter time.Duration
}

// Settlement runs the jobs of claimed orders.
type Settlement struct {
	Config
	products map[order.Kind]Product
}

// defaultSuspendAfter is the default of Config.SuspendAfter.
const defaultSuspendAfter = 15 * time.Second

// New makes a Settlement.
func New(c Config) *Settlement {
	c.SuspendAfter = cmp.Or(c.SuspendAfter, defaultSuspendAfter)
	s := &Settlement{Config: c, products: map[order.Kind]Product{}}
	for _, p := range c.Products {
		s.products[p.Kind()] = p
	}
	return s
}

// payment is the one that decides an order.
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
