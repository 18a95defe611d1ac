// Package checkout sells: it quotes, claims an order with its payment, and answers once the payment is decided.
//
//	Create: offer ─► reserve ─► an unpaid order, payable for a while
//	Pay:    Buy for an order that was created, by its owner
//	Buy:    known key? answer from the record
//	        offer ─► verify ─► reserve ─► claim ─► await
//
// Buy never moves money itself. It claims order, payment, reservations and job in one transaction. This process already
// holds the job, which settles the order (see Settlement), here or, after a crash, in any other process. The stored
// status joins the two.
package checkout

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/x402"
)

// Product is one thing checkout sells.
type Product interface {
	Kind() order.Kind
	// Path is the documented one that names a purchase, whatever the protocol. Clients derive nonces from it.
	Path() string
	// Availability says whether it can be sold now, whatever is asked for.
	Availability() availability.Product
	// Offer prices a request while it can be sold, or refuses with a fault what is asked for. With a quoted offer it
	// returns that offer as long as it can be honoured, and terms_changed when it no longer can.
	Offer(ctx context.Context, r order.OfferRequest) (order.Offer, error)
	// Reserve judges the buyer, once known, before anything is claimed, and says what the order is claimed with.
	Reserve(ctx context.Context, owner x402.Address, o order.Offer) (order.Claim, error)
}

// ErrUndecided says that a payer has as many undecided payments as it may have.
var ErrUndecided = errors.New("too many undecided payments")

// Inviter is a Product that can say, before the terms are told to a known buyer, that no payment would be taken.
type Inviter interface {
	Invite(ctx context.Context, owner x402.Address) error
}

// ErrHistoryLost says that nothing is claimed in a database that was not compared with the chain.
var ErrHistoryLost = errors.New("the database is not the one that was compared with the chain")

// Store keeps orders and their payments.
type Store interface {
	// Find finds an order by id; FindByKey by the identity of its purchase. order.ErrNotFound when there is none.
	Find(ctx context.Context, id order.ID) (order.Order, error)
	FindByKey(ctx context.Context, kind order.Kind, owner x402.Address, key string) (order.Order, error)
	// Claimed reports whether an order has claimed an authorization, whatever became of it.
	Claimed(ctx context.Context, network string, asset x402.Address, a x402.Authorization) (bool, error)
	// Orders lists an owner's orders, newest first: limit of them, older than before when that is set.
	Orders(ctx context.Context, owner x402.Address, q Query) ([]order.Order, error)
	// Payments finds the payment that decides each order: the paid one, else the one in flight, else
	// the last dead one. An order without a claim is left out.
	Payments(ctx context.Context, ids ...order.ID) (map[order.ID]payment.Payment, error)
	// Create stores an unpaid order, within the bounds. When one of its kind, owner and key exists, that one comes
	// back; when alone, also an open one of its kind and owner with any key. One too many is a *limit.Refusal;
	// availability.ErrPaused while the product is not sold.
	Create(ctx context.Context, o order.Order, b Bounds) (order.Order, error)
	// Claim claims an order, its payment, its holds and its job, in one transaction or not at all. ErrUndecided, an
	// *order.Shortage or a *limit.Refusal says why not, and availability.ErrPaused that a switch, which any process
	// may have set, closes the sale.
	Claim(ctx context.Context, p ClaimRequest) (ClaimResult, error)
	// Refunds finds the refunds of orders; an order without one is left out.
	Refunds(ctx context.Context, ids ...order.ID) (map[order.ID]payment.Refund, error)
	ArrivedStore
	// Watch wakes when an order may have changed. Wake-ups may be missed or idle: look again anyway.
	Watch(id order.ID) (wake <-chan struct{}, stop func())
}

// Bounds are what an order has to fit into to be opened.
type Bounds struct {
	// Alone gives back an open order of the same kind and owner instead.
	Alone bool
	// MostUnpaid is how many unpaid orders of all kinds an owner may have open; zero does not limit.
	MostUnpaid int
	// Turns are counted with the order.
	Turns []limit.Turn
}

// Query asks for a page of orders.
type Query struct {
	// Active leaves out orders that are final.
	Active bool
	// Before is the last order of the page before.
	Before order.ID
	Limit  int
}

// ClaimRequest is everything that is claimed at once.
type ClaimRequest struct {
	Order        order.Order
	Payment      payment.Payment
	Reservations []order.Reservation
	// Undecided is how many payments of the payer may be undecided, this one included; zero is any number.
	Undecided int
	// Turns are counted with the claim; one too many undoes it with a *limit.Refusal.
	Turns []limit.Turn
	// Job settles the order; it is born leased to this process.
	Job job.New
	// Again is set when Order exists unpaid, opened or with a dead authorization: the payment becomes its
	// next attempt, unless its time is over. From then on it does not expire.
	Again bool
}

// ClaimResult is what Place did.
type ClaimResult struct {
	Claim ClaimOutcome
	Order order.Order
	// Job is the leased row, for a fresh claim.
	Job job.Row
}

// ClaimOutcome is how a claim ended.
type ClaimOutcome int

// The claims. A shortage of something held is an *order.Shortage error instead.
const (
	// Fresh: all of it is ours.
	Fresh ClaimOutcome = iota
	// Repeated: the purchase exists; Placed.Order is it.
	Repeated
	// Reused: the authorization belongs to another order.
	Reused
)

// Settlement settles claimed orders.
type Settlement interface {
	// Job makes the job of one claim of an order.
	Job(id order.ID, claim string) job.New
	// Begin handles the first attempt of that job in the process that has just claimed the order. It sends how the
	// payment was decided, if it is decided in this attempt, and closes decided when the attempt ends. decided has room
	// for one.
	Begin(o order.Order, pay payment.Payment, decided chan<- payment.Decided) job.Handler
}

// Runner runs jobs that are born in the hands of this process.
type Runner interface {
	// Own makes a job to be born leased to this process.
	Own(n job.New) job.New
	// Adopt runs such a job once it is committed, this once by the handler given.
	Adopt(row job.Row, h job.Handler)
}

// Config is what Checkout is made of.
type Config struct {
	Store    Store
	Products []Product
	Terms    payment.Terms
	Chain    payment.Chain
	// Settlement settles what is claimed, in jobs that Runner runs.
	Settlement Settlement
	Runner     Runner
	// Adopted knows the orders of a recovery; nil when there are none.
	Adopted AdoptedStore
	Log     *slog.Logger
	Now     func() time.Time
	// QuoteKey signs quotes; every process of a deployment has the same. At least 32 bytes.
	QuoteKey []byte
	Metrics  *telemetry.Metrics
	// Limits counts new purchases of a payer; nil does not limit.
	Limits *limit.Limiter
	// Screener says which payers are not served; nil serves all.
	Screener Screener
	// Session reports whether a session of a wallet came with the call that ctx belongs to. Nil knows none.
	Session func(ctx context.Context, wallet x402.Address) bool
	// Unexplained reports whether a provider has made something that our books cannot explain. Nil never finds anything.
	Unexplained func(ctx context.Context) (bool, error)
	// Returned reports whether money that arrived may have been sent back without our books knowing. Nil says that none
	// was.
	Returned func(ctx context.Context, a payment.Arrived) (bool, error)
	// BlockTime is when a block was made. Nil takes money that was read for the books for a day old.
	BlockTime func(ctx context.Context, number uint64) (time.Time, error)
	// Wait bounds how long Buy waits for a settlement. 20 s.
	Wait time.Duration
	// Shown says whether the chain shows money that arrived: Moved, Gone when it was never there or cannot come, else
	// Unknown. Nil takes it for moved.
	Shown func(ctx context.Context, a payment.Arrived) (payment.Verdict, error)
	// Look bounds how long Buy looks for what became of a payment that was refused, or that arrived. Zero is 4 s.
	Look time.Duration
	// PayableFor is how long an order that was opened can be paid. Zero is half an hour.
	PayableFor time.Duration
	// MostUnpaid is how many unpaid orders an owner may have open at once; zero does not limit.
	MostUnpaid int
}

// Screener says which payers are not served.
type Screener interface {
	// Screen fails with a fault when a payer is refused, or while that cannot be known.
	Screen(ctx context.Context, payer x402.Address) error
}

// Checkout sells products.
type Checkout struct {
	Config
	products map[order.Kind]Product
	quotes   quotes
	unpaid   challenges
}

// defaultPayableFor is the default of Config.PayableFor.
const defaultPayableFor = 30 * time.Minute

// New makes a Checkout.
func New(c Config) *Checkout {
	c.PayableFor = cmp.Or(c.PayableFor, defaultPayableFor)
	co := &Checkout{Config: c, products: map[order.Kind]Product{}, quotes: quotes{key: c.QuoteKey, now: c.Now}}
	for _, p := range c.Products {
		co.products[p.Kind()] = p
	}
	return co
}

// Purchase is a request to buy.
type Purchase struct {
	Kind order.Kind
	// Key is the caller's idempotency key; empty for a preview.
	Key string
	// Request is the product's part of the request in canonical JSON: a marshalled struct.
	Request json.RawMessage
	// Extensions are what the challenge carries beside the terms, the same for the same Resource.
	Extensions map[string]any
	// Payment is the PAYMENT-SIGNATURE header, or x402.PaymentV1; empty when the caller has not paid.
	Payment  string
	Resource x402.Resource
	// of is the order that is paid, when it was named instead of its key and request.
	of *order.Order
}

func (p Purchase) fingerprint() order.Fingerprint {
	if p.of != nil {
		return p.of.Fingerprint
	}
	return order.FingerprintOf(p.Kind, p.Request)
}

// PaidOrder is an order with a proven payment.
type PaidOrder struct {
	Order   order.Order
	Payment payment.Payment
	// Refund is set when the money was or is to be brought back.
	Refund   *payment.Refund
	Replayed bool
	// ProvenCaller says that the caller may see the order's secrets: it showed more than what anyone can read
	// off the chain.
	ProvenCaller bool
}

// Receipt is the content of PAYMENT-RESPONSE for a payment: the same at every repeat.
func Receipt(p payment.Payment) x402.Settlement {
	s := x402.Settlement{
		Network: p.Network, Payer: p.Authorization.From.String(), Amount: p.Authorization.Value.String(),
		Success: p.Receipt != nil,
	}
	if p.Receipt != nil {
		s.Transaction = p.Receipt.Transaction.String()
	} else {
		s.ErrorReason = p.DeadReason
	}
	return s
}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }
