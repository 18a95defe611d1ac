package checkout_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/provider/sandbox/trigger"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

var payee = x402.Address{0x70, 0x5a, 19: 1}

func domain() x402.Domain {
	asset, err := x402.ParseAddress("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913")
	if err != nil {
		panic(err)
	}
	return x402.Domain{Name: "USD Coin", Version: "2", ChainID: x402.ChainID, Contract: asset}
}

// shop is one deployment: a real store, a chain and an issuer in memory.
type shop struct {
	*checkout.Checkout
	settlement *settlement.Settlement
	store      *store.Store
	chain      *paymenttest.Chain
	issuer     *cardtest.Issuer
	runner     *job.Runner
	cards      *card.Cards
	admin      admin.Admin
	now        *atomic.Int64 // offset from the wall clock
}

// options vary a shop.
type options struct {
	store  *store.Store
	chain  *paymenttest.Chain
	issuer *cardtest.Issuer
	wait   time.Duration
	// look is how long a payment that was refused is looked for on the chain.
	look    time.Duration
	paused  bool
	workers func(context.Context) error
	// payments, when set, says whether payments can be taken.
	payments *availability.Payments
	habits   fulfilment.Traits
	// judge, when set, is what the final block says.
	verdict payment.Chain
	// shown, when set, is what the chain shows of money that arrived.
	shown func(context.Context, payment.Arrived) (payment.Verdict, error)
	// treasury, when set, pays refunds.
	treasury *ecdsa.PrivateKey
	// unsent leaves nobody to send refunds.
	unsent bool
	// limits and mostUnpaid are what callers are held to; nothing by default.
	limits     limit.Rates
	mostUnpaid int
	// dead makes a process that dies once an order is placed: its runner never runs anything.
	dead bool
}

func open(t *testing.T, o options) *shop {
	t.Helper()
	var offset atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	s := &shop{store: o.store, chain: o.chain, issuer: o.issuer, now: &offset}
	if s.store == nil {
		s.store = storetest.New(t)
	}
	if s.chain == nil {
		s.chain = paymenttest.NewChain(domain(), now)
	}
	if s.issuer == nil {
		s.issuer = cardtest.NewIssuer(cardtest.Config{Instant: true, Now: now, Habits: o.habits})
	}
	if o.workers == nil {
		o.workers = func(context.Context) error { return nil }
	}
	if o.wait == 0 {
		o.wait = 10 * time.Second
	}
	s.runner = job.NewRunner(job.Config{Queue: s.store.Jobs(), TTL: time.Second, Poll: 20 * time.Millisecond, Slots: 8})
	s.cards = card.New(card.Config{
		Store: s.store.Cards(), Issuer: s.issuer, Vault: s.issuer, Stock: s.issuer, Traits: s.issuer.Traits(), Now: now,
		Paused: o.paused, Payments: o.payments, Workers: availability.Check{Name: "workers", Run: o.workers},
		Capabilities: s.issuer.Capabilities(), Poll: 10 * time.Millisecond, CallTimeout: 300 * time.Millisecond,
		Deadline: time.Hour,
	})
	terms := payment.Terms{
		Network: x402.NetworkID, Asset: domain().Contract, PayTo: payee, Domain: domain(),
		MaxTimeout: 2 * time.Minute, Margin: payment.MinMargin, MaxValidity: 25 * time.Hour,
	}
	var runner checkout.Runner = s.runner
	if o.dead {
		runner = deadRunner{s.runner}
	}
	collect := payment.NewCollector(payment.CollectorConfig{
		Chain: s.chain, Settler: s.chain, Timeout: 200 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	})
	refunds := settlement.Refunds{Deadline: refundDeadline}
	if o.treasury != nil {
		refunds.Treasury = payment.NewTreasury(o.treasury, domain(), refundWindow)
	}
	if !o.unsent {
		refunds.Collect = collect
	}
	cards := trigger.Product{Sold: s.cards}
	topups := trigger.Product{Sold: topup.Topups{Cards: s.cards, Switches: s.cards.Switches, Payments: s.cards.Payments}}
	s.admin = admin.Admin{
		Records: s.store.Admin(), Switches: s.store.Admin(), Refunds: refunds, Products: []admin.Product{cards, topups},
		Confirm: settlement.ConfirmJob,
	}
	if o.shown == nil {
		o.shown = s.chain.VerifyArrived
	}
	quiet := slog.New(slog.DiscardHandler)
	s.settlement = settlement.New(settlement.Config{
		Store: s.store.Orders(), Products: []settlement.Product{cards, topups}, Chain: s.chain, Final: o.final(s.chain),
		Collect: collect, Refunds: refunds, Log: quiet, Now: now,
	})
	s.Checkout = checkout.New(checkout.Config{
		Store: s.store.Orders(), Products: []checkout.Product{cards, topups}, Terms: terms, Chain: s.chain,
		Settlement: trigger.Settlement{Settler: s.settlement, Wait: o.wait}, Runner: runner,
		Log: quiet, Now: now, QuoteKey: make([]byte, 32), Wait: o.wait,
		Session: signedIn, VerdictTimeout: o.look, VerifyArrived: o.shown, Unexplained: unexplained(s.store, s.issuer),
		Limits: limit.New(o.limits, now), MaxUnpaid: o.mostUnpaid,
	})
	s.runner.Register(settlement.Fulfilling, s.settlement.Fulfill)
	s.runner.Register(settlement.Confirming, s.settlement.Confirm)
	s.runner.Register(settlement.RefundConfirming, s.settlement.ConfirmRefund)
	s.runner.Register(card.FeeJob, s.cards.WithdrawFee)
	if !o.dead {
		run(t, s.runner)
	}
	return s
}

func run(t *testing.T, r *job.Runner) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// deadRunner leaves what it adopts to the lease.
type deadRunner struct{ *job.Runner }

func (deadRunner) Adopt(job.Row, job.Handler) {}

// buyer is a wallet with money.
type buyer struct {
	key     *ecdsa.PrivateKey
	address x402.Address
}

func (s *shop) newBuyer(t *testing.T) buyer {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	b := buyer{key: key, address: x402.Address(crypto.PubkeyToAddress(key.PublicKey))}
	s.chain.Fund(b.address, 1000_000_000)
	return b
}

// purchase is a card purchase of a key, not yet paid.
func purchase(key string) checkout.Purchase {
	return checkout.Purchase{
		Kind: card.Kind, Key: key, Request: json.RawMessage(`{}`),
		Resource: x402.Resource{URL: "https://shop.example/api/card/purchase"},
	}
}

// challenge asks for the terms.
func (s *shop) challenge(t *testing.T, p checkout.Purchase) x402.PaymentRequired {
	t.Helper()
	p.Payment = ""
	_, err := s.Buy(t.Context(), p)
	ch, ok := errors.AsType[*checkout.Challenge](err)
	if !ok {
		t.Fatalf("want a challenge, got %v", err)
	}
	required, err := x402.DecodeRequired(ch.Headers().Get(x402.HeaderRequired))
	if err != nil {
		t.Fatal(err)
	}
	return required
}

// pay signs what a challenge asks for, with a new nonce, and returns the header.
func (b buyer) pay(t *testing.T, required x402.PaymentRequired, change ...func(*x402.Authorization)) string {
	t.Helper()
	r := required.Accepts[0]
	to, err := x402.ParseAddress(r.PayTo)
	if err != nil {
		t.Fatal(err)
	}
	value, err := money.ParseUSDC(r.Amount)
	if err != nil {
		t.Fatal(err)
	}
	a := x402.Authorization{From: b.address, To: to, Value: value,
		ValidBefore: uint64(time.Now().Add(2 * time.Minute).Unix())}
	_, _ = rand.Read(a.Nonce[:])
	for _, f := range change {
		f(&a)
	}
	sig, err := curve.Sign(domain(), a, b.key)
	if err != nil {
		t.Fatal(err)
	}
	header, err := x402.EncodePayment(x402.Payment{Accepted: r, Resource: required.Resource, Authorization: a,
		Signature: sig})
	if err != nil {
		t.Fatal(err)
	}
	return header
}

// paid is a purchase with a fresh payment of the buyer.
func (s *shop) paid(t *testing.T, b buyer, key string) checkout.Purchase {
	t.Helper()
	p := purchase(key)
	p.Payment = b.pay(t, s.challenge(t, p))
	return p
}

func (s *shop) mustBuy(t *testing.T, p checkout.Purchase) checkout.PaidOrder {
	t.Helper()
	sold, err := s.Buy(t.Context(), p)
	if err != nil {
		t.Fatalf("Buy: %v", err)
	}
	return sold
}

// until polls a condition, for at most 15 s.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

func (s *shop) reaches(t *testing.T, id order.ID, want order.Status) {
	t.Helper()
	until(t, string(id)+" "+string(want), func() bool {
		o, err := s.store.Orders().Find(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return o.Status == want
	})
}

func (s *shop) spent(b buyer) money.USDC { return 1000_000_000 - s.chain.Balance(b.address) }

func wantFault(t *testing.T, err error, code fault.Code) *fault.Fault {
	t.Helper()
	f, ok := fault.As(err)
	if !ok || f.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	return f
}

func none(context.Context) error { return fault.New(fault.WorkersUnavailable, "") }

func (o options) final(otherwise payment.Chain) payment.Chain {
	if o.verdict != nil {
		return o.verdict
	}
	return otherwise
}
