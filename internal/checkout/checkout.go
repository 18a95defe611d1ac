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

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/receipt"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/x402"
)

// Product is a product that checkout sells.
type Product interface {
	Kind() order.Kind
	// Path is the documented URL path of a purchase, for every protocol. Clients derive nonces from it.
	Path() string
	// Availability says whether the product can be sold now, for any request.
	Availability() availability.Product
	// Offer prices a request, or returns a fault when it cannot be sold. With a quoted offer it returns that offer as
	// long as it can be honoured, and terms_changed when it no longer can.
	Offer(ctx context.Context, r order.OfferRequest) (order.Offer, error)
	// Reserve checks the buyer before anything is claimed, and returns what the order reserves. It reserves nothing
	// itself.
	Reserve(ctx context.Context, owner x402.Address, o order.Offer) (order.Claim, error)
}

// ErrUndecided says that a payer has the largest allowed number of undecided payments.
var ErrUndecided = errors.New("too many undecided payments")

// ErrUncovered says that a payer's undecided payments and the one to be claimed are more than ClaimRequest.Funds.
var ErrUncovered = errors.New("the payer's undecided payments may take the money of this one")

// Inviter is a Product that can refuse an order of a known buyer before its terms are sent. Its error is the answer
// instead.
type Inviter interface {
	Invite(ctx context.Context, o order.Order) error
}

// ErrHistoryLost says that the database was not compared with the chain since it was restored, so nothing is claimed.
var ErrHistoryLost = errors.New("the database is not the one that was compared with the chain")

// Store keeps orders and their payments.
type Store interface {
	OrderStore
	ArrivedStore
	// Claimed reports whether any order has ever claimed an authorization.
	Claimed(ctx context.Context, network string, asset x402.Address, a x402.Authorization) (bool, error)
	// Create stores an unpaid order, within the bounds. An existing order of the same kind, owner and key is returned
	// instead; with Bounds.Alone, also an unpaid one of the same kind and owner with any key. A *limit.Refusal when a
	// bound is exceeded; availability.ErrPaused while the product is not sold.
	Create(ctx context.Context, o order.Order, b Bounds) (order.Order, error)
	// Claim stores an order, its payment, its reservations and its job in one transaction. Its errors are ErrUndecided,
	// ErrUncovered, *order.Shortage, *limit.Refusal, and availability.ErrPaused when a kill switch, set by any process, is
	// on.
	Claim(ctx context.Context, p ClaimRequest) (ClaimResult, error)
	ArrivedStore
}

// OrderStore reads orders.
type OrderStore interface {
	// Find finds an order by id; FindByKey by the identity of its purchase. order.ErrNotFound when there is none.
	Find(ctx context.Context, id order.ID) (order.Order, error)
	FindByKey(ctx context.Context, kind order.Kind, owner x402.Address, key string) (order.Order, error)
	// Orders lists an owner's orders, newest first: limit of them, older than before when that is set.
	Orders(ctx context.Context, owner x402.Address, q Query) ([]order.Order, error)
	// Payments finds the payment that decides each order: the paid one, else the one in flight, else
	// the last dead one. An order without a claim is left out.
	Payments(ctx context.Context, ids ...order.ID) (map[order.ID]payment.Payment, error)
	// Refunds finds the refunds of orders; an order without one is left out.
	Refunds(ctx context.Context, ids ...order.ID) (map[order.ID]payment.Refund, error)
	// Watch wakes when one of the orders may have changed. Wake-ups may be missed or spurious: poll as well.
	Watch(ids ...order.ID) (wake <-chan struct{}, stop func())
}

// Bounds limit the creation of unpaid orders.
type Bounds struct {
	// ReuseUnpaid returns an existing unpaid order of the same kind and owner instead.
	ReuseUnpaid bool
	// MaxUnpaid is how many unpaid orders of all kinds an owner may have; zero is unlimited.
	MaxUnpaid int
	// Hits are counted with the order.
	Hits []limit.Hit
}

// Query selects a page of orders.
type Query struct {
	// Active leaves out orders that are final, Ended all that are neither fulfilled nor refunded.
	Active, Ended bool
	// Kind leaves out orders of other kinds; empty leaves out none.
	Kind order.Kind
	// IDs leaves out all other orders; nil leaves out none.
	IDs []order.ID
	// Before is the last order of the previous page.
	Before order.ID
	Limit  int
}

// ClaimRequest is everything that one claim stores.
type ClaimRequest struct {
	Order        order.Order
	Payment      payment.Payment
	Reservations []order.Reservation
	// Provider is over whom the order is sold. Its kill switch fails the claim as the product's does. Empty for none.
	Provider string
	// MaxUndecided is how many payments of the payer may be undecided, including this one; zero is unlimited.
	MaxUndecided int
	// MaxInFlight is how many undecided payments of the payer may have been claimed after InFlightSince, including this
	// one: their requests may still be under way, in any process. Zero is unlimited.
	MaxInFlight   int
	InFlightSince time.Time
	// Funds is what the payer is known to hold, at least. While the payer has undecided payments, the claim fails with
	// ErrUncovered unless it covers those and this one. A payment that is the only undecided one of its payer needs none:
	// its transfer was simulated.
	Funds money.USDC
	// Hits are counted with the claim; exceeding a limit fails the claim with a *limit.Refusal.
	Hits []limit.Hit
	// Job settles the order. It is inserted with a lease of this process.
	Job job.New
	// Goods is the provider's reference of the order's first delivery; zero for none. When a recovery has made an order
	// for these goods meanwhile, the claim is Repeated, and that order has the purchase's key from then on.
	Goods uuid.UUID
	// Existing is set when Order exists unpaid, newly created or with a dead authorization: the payment becomes its
	// next attempt, unless the order has expired. From then on the order does not expire.
	Existing bool
}

// ClaimResult is what Claim did.
type ClaimResult struct {
	Claim ClaimOutcome
	Order order.Order
	// Job is the leased row, for a fresh claim.
	Job job.Row
}

// ClaimOutcome is how a claim ended.
type ClaimOutcome int

// The outcomes. A shortage of something to reserve is an *order.Shortage error instead.
const (
	// Fresh: everything was stored.
	Fresh ClaimOutcome = iota
	// Repeated: the purchase exists; ClaimResult.Order is its order.
	Repeated
	// Reused: the authorization belongs to another order.
	Reused
)

// Settlement settles claimed orders.
type Settlement interface {
	// Job makes the job of one claim of an order.
	Job(id order.ID, claim string) job.New
	// Begin handles the first attempt of that job in the process that has just claimed the order. It sends the decision
	// of the payment, if there is one in this attempt, and closes decided when the attempt ends. decided has capacity
	// 1.
	Begin(o order.Order, pay payment.Payment, decided chan<- payment.Decided) job.Handler
}

// Runner runs jobs that are inserted with a lease of this process.
type Runner interface {
	// Own adds a lease of this process to a job that is inserted next.
	Own(n job.New) job.New
	// Adopt runs such a job after the commit. Its first attempt is handled by h.
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
	// Signer signs offers and receipts; nil signs none. ReceiptStore keeps the receipts.
	Signer       *receipt.Signer
	ReceiptStore ReceiptStore
	// Recovered keeps the orders recreated after data loss; nil when there are none.
	Recovered RecoveredStore
	Log       *slog.Logger
	Now       func() time.Time
	// QuoteKey signs quotes; every process of a deployment has the same. At least 32 bytes.
	QuoteKey []byte
	// FormerQuoteKeys verify quotes and watch tokens, too: what was signed with a key before or after this process knew it
	// as the one that signs.
	FormerQuoteKeys [][]byte
	Metrics         *telemetry.Metrics
	// Limits bounds the purchases of a payer; nil disables the limits.
	Limits *limit.Limiter
	// Screener decides which payers are refused; nil accepts all.
	Screener Screener
	// Session reports whether the call that ctx belongs to has a session of a wallet. Nil: it never has.
	Session func(ctx context.Context, wallet x402.Address) bool
	// OfferSignIn makes what a challenge says of x402's extension sign-in-with-x, for the resource at a URL. Nil offers
	// none.
	OfferSignIn func(url string) auth.RequestOffer
	// Unexplained reports whether a provider has goods that no order of ours explains, and that may be a payer's. Nil
	// disables the check.
	Unexplained func(ctx context.Context, payer x402.Address) (bool, error)
	// MaybeRefunded reports whether a transfer may have been refunded without a record. Nil disables the check.
	MaybeRefunded func(ctx context.Context, a payment.Arrived) (bool, error)
	// BlockTime is the time of a block. Nil assumes that a transfer without a time is a day old.
	BlockTime func(ctx context.Context, number uint64) (time.Time, error)
	// Wait bounds how long Buy waits for a settlement. 20 s.
	Wait time.Duration
	// VerifyArrived decides whether the chain shows a stored transfer: Settled, Void when it was never made or can no
	// longer be made, else Unknown. Nil takes every stored transfer as settled.
	VerifyArrived func(ctx context.Context, a payment.Arrived) (payment.Verdict, error)
	// Preconfirmed reports whether a payment that is not settled is in a block that is being built. It is shown to owners
	// and decides nothing. Nil: it never is.
	Preconfirmed func(ctx context.Context, p payment.Payment) bool
	// VerdictTimeout bounds how long Buy asks the chain for the verdict on a refused payment or a stored transfer. Zero
	// is 4 s.
	VerdictTimeout time.Duration
	// PayableFor is how long a created order can be paid. Zero is 30 min.
	PayableFor time.Duration
	// MaxUnpaid is how many unpaid orders an owner may have at once; zero is unlimited.
	MaxUnpaid int
}

// Screener decides which payers are refused.
type Screener interface {
	// Known fails with a fault when a payer is refused by what is known here. It asks nobody outside, so that strangers
	// may name payers who have nothing.
	Known(ctx context.Context, payer x402.Address) error
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
	c.PayableFor, c.Terms = cmp.Or(c.PayableFor, defaultPayableFor), c.Terms.Remembering()
	co := &Checkout{
		Config: c, products: map[order.Kind]Product{},
		quotes: quotes{key: c.QuoteKey, former: c.FormerQuoteKeys, now: c.Now},
	}
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
	// Extensions are part of the challenge in addition to the terms, the same for the same Resource.
	Extensions map[string]any
	// Payment is the PAYMENT-SIGNATURE header, or x402.PaymentV1; empty when the caller has not paid.
	Payment string
	// SignIn is a wallet's sign-in for this request; nil without. It counts only where nothing is paid.
	SignIn   SignIn
	Resource x402.Resource
	// of is the order to pay, when the request names it by id instead of by key.
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
	// Refund is set when the payment was or is being refunded.
	Refund   *payment.Refund
	Replayed bool
	// Preconfirmed says that the payment of an order that is settling is in a block that is being built. For display.
	Preconfirmed bool
	// Receipt is the signed receipt of an order that has ended; nil for all others, and where receipts are not asked for.
	Receipt *SignedReceipt
	// ProvenCaller says that the caller may see the order's secrets: it has proven to be the payer by more than what is
	// public on the chain.
	ProvenCaller bool
}

// Receipt is the content of PAYMENT-RESPONSE for a payment, without extensions: the same at every repeat.
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
