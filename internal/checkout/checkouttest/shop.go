// Package checkouttest is a shop for tests: the checkout, the settlement and the operators' actions over a store in
// memory or in PostgreSQL, with a chain and an issuer in memory.
package checkouttest

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/provider/sandbox/trigger"
	"github.com/roamcard/roamcard/internal/receipt"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/memory"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	// Price of a card, in millionths of a dollar.
	Price = 25_000_000
	// RefundWindow is how long the authorization of a refund is valid.
	RefundWindow = time.Hour
	// RefundDeadline is how long a refund may take before an operator decides.
	RefundDeadline = 24 * time.Hour
	// callTimeout is that of calls of the issuer and the chain, which answer from memory unless they are told not to.
	callTimeout = time.Second
	// maxTimeout is how long is waited for what has to come. It ends tests that fail.
	maxTimeout = 3 * time.Minute
)

// Payee is who the shop's payments go to.
var Payee = x402.Address{0x70, 0x5a, 19: 1}

// Domain is that of the token which the shop takes.
func Domain() x402.Domain {
	asset, err := x402.ParseAddress("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913")
	if err != nil {
		panic(err)
	}
	return x402.Domain{Name: "USD Coin", Version: "2", ChainID: x402.ChainID, Contract: asset}
}

// Store is what a shop keeps.
type Store struct {
	Orders interface {
		checkout.Store
		checkout.RecoveredStore
		settlement.Store
		Expire(ctx context.Context, limit int) (int, error)
	}
	Jobs     job.Queue
	Cards    card.Store
	Receipts checkout.ReceiptStore
	Explains func(ctx context.Context, kind order.Kind, references []uuid.UUID) (bool, error)
	// Memory and Postgres are what keeps it; one of them is nil. Operators' records are in PostgreSQL only.
	Memory   *memory.Store
	Postgres *store.Store
}

// Postings are those of an order.
func (s Store) Postings(t *testing.T, id order.ID) []ledger.Posting {
	t.Helper()
	if s.Memory != nil {
		return s.Memory.Orders().Posted(id)
	}
	records, err := s.Postgres.Treasury(x402.Address{}, x402.Address{}).OfOrders(t.Context(), []order.ID{id}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return records.Postings
}

// InMemory is a store in memory.
func InMemory(s *memory.Store) Store {
	return Store{
		Orders: s.Orders(), Jobs: s.Jobs(), Cards: s.Cards(), Receipts: s.Receipts(), Explains: s.Explains, Memory: s,
	}
}

// Of is a store in PostgreSQL.
func Of(s *store.Store) Store {
	return Store{
		Orders: s.Orders(), Jobs: s.Jobs(), Cards: s.Cards(), Receipts: s.Receipts(), Explains: s.Explains, Postgres: s,
	}
}

// Run runs a subtest in a bubble of time of its own.
func Run(t *testing.T, name string, tell func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, tell) })
}

// Shop is one deployment: a store, and a chain and an issuer in memory.
type Shop struct {
	*checkout.Checkout
	Store  Store
	Chain  *paymenttest.Chain
	Issuer *cardtest.Issuer
	Runner *job.Runner
	Cards  *card.Cards
	Admin  admin.Admin
	// Offset is added to the wall clock, in nanoseconds, wherever the shop reads the time.
	Offset *atomic.Int64
}

// Options vary a shop. What is nil is made for this shop alone.
type Options struct {
	// Store is a new one in memory when it is zero, or in PostgreSQL, in a package whose tests storetest.Main runs.
	Store    Store
	Postgres bool
	Chain    *paymenttest.Chain
	Issuer   *cardtest.Issuer
	// Wait is how long a request waits for its settlement, by default as long as it takes.
	Wait time.Duration
	// VerdictTimeout is how long a payment that was refused is looked for on the chain.
	VerdictTimeout time.Duration
	// RefundsScreen says to whom nothing is refunded.
	RefundsScreen func(ctx context.Context, wallet x402.Address) error
	// Paused stops the sale of cards.
	Paused bool
	// Workers, when set, checks whether jobs are run.
	Workers func(context.Context) error
	// Payments, when set, says whether payments can be taken.
	Payments *availability.Payments
	// Traits of the issuer.
	Traits fulfilment.Traits
	// Final, when set, answers for the final block instead of the chain.
	Final payment.Chain
	// VerifyArrived, when set, is what the chain shows of money that arrived.
	VerifyArrived func(context.Context, payment.Arrived) (payment.Verdict, error)
	// Treasury, when set, pays refunds.
	Treasury *ecdsa.PrivateKey
	// FormerTreasuries have paid refunds before, and Former are those of them whose key is gone.
	FormerTreasuries []payment.Signer
	Former           []x402.Address
	// RefundsUnsent leaves nobody to send refunds.
	RefundsUnsent bool
	// SmartAccounts may pay, too.
	SmartAccounts bool
	// Limits and MaxUnpaid are what callers are held to; there are none by default.
	Limits    limit.Rates
	MaxUnpaid int
	// Session, when set, says whether a wallet is signed in; nobody is by default.
	Session func(context.Context, x402.Address) bool
	// Preconfirmed, when set, says whether a payment is in a block that is being built.
	Preconfirmed func(context.Context, payment.Payment) bool
	// Signer, when set, signs offers and receipts.
	Signer *receipt.Signer
	// Dead is a process that dies once an order is claimed: its runner never runs anything, and its leases pass at once.
	Dead bool
}

// Open opens a shop, whose jobs run until the test ends.
func Open(t *testing.T, o Options) *Shop {
	t.Helper()
	s := &Shop{Store: o.Store, Chain: o.Chain, Issuer: o.Issuer, Offset: new(atomic.Int64)}
	o = s.withDefaults(t, o)
	// Leases are long, because nobody's are to pass only because the machine is busy.
	s.Runner = job.NewRunner(job.Config{Queue: s.Store.Jobs, TTL: time.Minute, Poll: 200 * time.Millisecond, Slots: 8})
	s.Cards = card.New(card.Config{
		Store: s.Store.Cards, Now: s.now,
		Providers: []card.Provider{{
			Issuer: s.Issuer, Vault: s.Issuer, Stock: s.Issuer, Traits: s.Issuer.Traits(),
			Capabilities: s.Issuer.Capabilities(),
		}},
		Paused: o.Paused, Payments: o.Payments, Workers: availability.Check{Name: "workers", Run: o.Workers},
		Poll: 10 * time.Millisecond, CallTimeout: callTimeout,
		Deadline: time.Hour,
	})
	settled := s.settle(o)
	s.sell(o, settled)
	s.Runner.Register(settlement.Fulfilling, settled.Fulfill)
	s.Runner.Register(settlement.Confirming, settled.Confirm)
	s.Runner.Register(settlement.RefundConfirming, settled.ConfirmRefund)
	s.Runner.Register(card.FeeJob, s.Cards.WithdrawFee)
	if !o.Dead {
		s.Run(t)
	}
	return s
}

// OpenWithTreasury opens a shop that pays refunds from a treasury with so much in it, whose address it returns.
func OpenWithTreasury(t *testing.T, o Options, funds money.USDC) (*Shop, x402.Address) {
	t.Helper()
	treasury := newWallet(t)
	o.Treasury = treasury.Key()
	s := Open(t, o)
	s.Chain.Fund(treasury.Address(), funds)
	return s, treasury.Address()
}

// Run runs the shop's jobs until the test ends. Open has done so already, unless the shop is dead.
func (s *Shop) Run(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Runner.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (s *Shop) now() time.Time { return time.Now().Add(time.Duration(s.Offset.Load())) }

// withDefaults fills in what the options leave out.
func (s *Shop) withDefaults(t *testing.T, o Options) Options {
	t.Helper()
	switch {
	case s.Store.Orders != nil:
	case o.Postgres:
		s.Store = Of(storetest.New(t))
	default:
		s.Store = InMemory(memory.New(nil))
	}
	if s.Chain == nil {
		s.Chain = paymenttest.NewChain(Domain(), s.now)
	}
	if s.Issuer == nil {
		s.Issuer = cardtest.NewIssuer(cardtest.Config{Instant: true, Now: s.now, Traits: o.Traits})
	}
	if o.Workers == nil {
		o.Workers = func(context.Context) error { return nil }
	}
	if o.Wait == 0 {
		o.Wait = maxTimeout / 2 // who waits for longer says so
	}
	if o.Final == nil {
		o.Final = s.Chain
	}
	if o.VerifyArrived == nil {
		o.VerifyArrived = s.Chain.VerifyArrived
	}
	return o
}

// products are what the shop sells, with the sandbox's scenarios.
func (s *Shop) products() (cards, topups trigger.Product) {
	return trigger.Product{Inner: s.Cards}, trigger.Product{
		Inner: topup.Topups{Cards: s.Cards, Switches: s.Cards.Switches, Payments: s.Cards.Payments},
	}
}

// settle makes the job side, and the operators' actions.
func (s *Shop) settle(o Options) *settlement.Settlement {
	collect := payment.NewCollector(payment.CollectorConfig{
		Chain: s.Chain, Settler: s.Chain, Timeout: callTimeout, Log: slog.New(slog.DiscardHandler),
	})
	refunds := settlement.Refunds{Deadline: RefundDeadline, Screen: o.RefundsScreen}
	if o.Treasury != nil {
		refunds.Treasury = payment.NewTreasury(payment.TreasuryConfig{
			Signer: curve.NewLocalSigner(o.Treasury), Retired: o.FormerTreasuries, Former: o.Former, Domain: Domain(),
			Window: RefundWindow, Now: s.now,
		})
	}
	if !o.RefundsUnsent {
		refunds.Collect = collect
	}
	cards, topups := s.products()
	s.Admin = admin.Admin{Refunds: refunds, Products: []admin.Product{cards, topups}, Confirm: settlement.ConfirmJob}
	if kept := s.Store.Postgres; kept != nil {
		s.Admin.Records, s.Admin.Switches = kept.Admin(), kept.Admin()
	}
	return settlement.New(settlement.Config{
		Store: s.Store.Orders, Products: []settlement.Product{cards, topups}, Chain: s.Chain, Final: o.Final,
		Collect: collect, Refunds: refunds, Log: slog.New(slog.DiscardHandler), Now: s.now, Float: s.float,
	})
}

// float is the reservation of so many units of the issuer's float.
func (s *Shop) float(ctx context.Context, resource string, units int64) (order.Reservation, error) {
	r, ok, err := s.Cards.FloatOf(ctx, resource, units)
	if err == nil && !ok {
		err = errors.New("checkouttest: a float of nobody")
	}
	return r, err
}

// sell makes the request side.
func (s *Shop) sell(o Options, settled *settlement.Settlement) {
	var runner checkout.Runner = s.Runner
	if o.Dead {
		runner = deadRunner{s.Runner}
	}
	cards, topups := s.products()
	terms := payment.Terms{
		Network: x402.NetworkID, Asset: Domain().Contract, PayTo: Payee, Domain: Domain(),
		MaxTimeout: 2 * time.Minute, Margin: payment.MinMargin, MaxValidity: 25 * time.Hour,
	}
	if o.SmartAccounts {
		terms.SmartAccounts = s.Chain
	}
	s.Checkout = checkout.New(checkout.Config{
		Store: s.Store.Orders, Products: []checkout.Product{cards, topups}, Chain: s.Chain, Runner: runner,
		Terms:      terms,
		Settlement: trigger.Settlement{Settler: settled, Wait: o.Wait},
		Log:        slog.New(slog.DiscardHandler), Now: s.now, QuoteKey: make([]byte, 32), Wait: o.Wait,
		Session: o.Session, VerdictTimeout: o.VerdictTimeout, VerifyArrived: o.VerifyArrived, Unexplained: s.unexplained,
		Limits: limit.New(o.Limits, s.now), MaxUnpaid: o.MaxUnpaid,
		Preconfirmed: o.Preconfirmed, Recovered: s.Store.Orders,
		Signer: o.Signer, ReceiptStore: s.Store.Receipts,
	})
}

// unexplained compares the shop's books with its issuer's.
func (s *Shop) unexplained(ctx context.Context, _ x402.Address) (bool, error) {
	var made []uuid.UUID
	for _, ref := range s.Issuer.Opened() {
		made = append(made, uuid.UUID(ref))
	}
	explained, err := s.Store.Explains(ctx, card.Kind, made)
	return !explained, err
}

// deadRunner leaves what it adopts to a lease that has passed.
type deadRunner struct{ *job.Runner }

func (d deadRunner) Own(n job.New) job.New {
	n = d.Runner.Own(n)
	n.LeaseTTL = time.Nanosecond
	return n
}

func (deadRunner) Adopt(job.Row, job.Handler) {}

// TakeOver gives the jobs of a dead shop to whoever is alive, as every runner does from time to time.
func (s *Shop) TakeOver(t *testing.T) {
	t.Helper()
	Until(t, "a lease passes", func() bool {
		n, err := s.Store.Jobs.Reap(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		return n > 0
	})
}

// newWallet is a new wallet each time.
func newWallet(t *testing.T) authtest.Wallet {
	t.Helper()
	return authtest.NewWallet(t, rand.Text())
}
