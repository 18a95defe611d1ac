package chain_test

import (
	"context"
	"errors"
	"log/slog"
	"math/big"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/x402"
)

// elsewhere is a signer on another machine: its key, and what it does before it signs.
type elsewhere struct {
	key    curve.LocalSigner
	before func() error
	// by signs in place of the key, when it lies.
	by    atomic.Pointer[curve.LocalSigner]
	asked atomic.Int64
}

func (e *elsewhere) Address() x402.Address { return e.key.Address() }
func (e *elsewhere) IsLocal() bool         { return false }

func (e *elsewhere) Sign(ctx context.Context, message []byte) (x402.Signature, error) {
	e.asked.Add(1)
	if e.before != nil {
		if err := e.before(); err != nil {
			return "", err
		}
	}
	if liar := e.by.Load(); liar != nil {
		return liar.Sign(ctx, message)
	}
	return e.key.Sign(ctx, message)
}

// inTransaction is a store that knows when it is inside of Prepare.
type inTransaction struct {
	*paymenttest.Transactions
	depth atomic.Int64
}

func (s *inTransaction) Prepare(
	ctx context.Context, payments []uuid.UUID, relayer x402.Address, w payment.Window, sign payment.SignBatch,
) ([]payment.Transaction, error) {
	s.depth.Add(1)
	defer s.depth.Add(-1)
	return s.Transactions.Prepare(ctx, payments, relayer, w, sign)
}

func (b *bench) relayerBy(attempts chain.Transactions, signers, retired []payment.Signer) *chain.Relayer {
	b.Helper()
	r, err := chain.NewRelayer(chain.RelayerConfig{
		Chain: b.chain, Transactions: attempts, Keys: signers, Retired: retired, MinBalance: big.NewInt(1e15),
		BumpAfter: 10 * time.Second, ResendAfter: time.Nanosecond, Now: b.now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func relayerKey(i int) curve.LocalSigner {
	return curve.NewLocalSigner(keyOf(devnet.WalletsOf(devnet.RoleRelayer)[i]))
}

// TestSignerElsewhereIsNeverAskedInsideATransaction, and several processes with its key settle every payment once.
func TestSignerElsewhereIsNeverAskedInsideATransaction(t *testing.T) {
	b := newBench(t)
	store := &inTransaction{Transactions: b.attempts}
	signer := &elsewhere{key: relayerKey(0)}
	signer.before = func() error {
		if store.depth.Load() != 0 {
			t.Error("asked inside of a transaction of the store")
		}
		return nil
	}
	one := b.relayerBy(store, []payment.Signer{signer}, nil)
	p := b.claim(buyer(0))
	if err := one.Submit(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	b.settles(p)
	signer.before = nil // processes that share a store are in it at once
	other := b.relayerBy(b.attempts, []payment.Signer{signer}, nil)
	var all sync.WaitGroup
	var claimed []payment.Payment
	for i := range 6 {
		claimed = append(claimed, b.claim(buyer(i%3)))
	}
	for i, p := range claimed {
		all.Go(func() {
			if err := []*chain.Relayer{one, other}[i%2].Submit(t.Context(), p); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, p := range claimed {
		b.settles(p)
	}
	b.wantPayee(price * 7)
}

// TestNothingOfALyingSignerIsStoredOrSent: not its transaction, not a higher fee, not the filling of a gap.
func TestNothingOfALyingSignerIsStoredOrSent(t *testing.T) {
	b := newBench(t)
	signer := &elsewhere{key: relayerKey(0)}
	liar := relayerKey(1)
	signer.by.Store(&liar)
	r := b.relayerBy(b.attempts, []payment.Signer{signer}, nil)
	p := b.claim(buyer(0))
	if err := r.Submit(t.Context(), p); !errors.Is(err, payment.ErrOtherSignature) {
		t.Errorf("submit: %v", err)
	}
	b.wantAttempts(p)
	b.waiting(0)
	if err := r.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "no relayer can sign") {
		t.Errorf("ready: %v", err)
	}
	signer.by.Store(nil)
	b.control("evm_setAutomine", false)
	if err := r.Submit(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	signer.by.Store(&liar)
	b.ahead.Add(11) // its fee is to be raised
	if err := r.Maintain(t.Context()); !errors.Is(err, payment.ErrOtherSignature) {
		t.Errorf("maintain: %v", err)
	}
	if stored := b.wantAttempts(p, payment.TransactionOpen); len(stored[0].Variants) != 1 {
		t.Errorf("%d forms are stored", len(stored[0].Variants))
	}
	signer.by.Store(nil)
	b.control("evm_setAutomine", true)
	b.mine(1)
	b.settles(p)
	b.wantPayee(price)
}

// TestPaymentGoesToAKeyThatSigns when the signer of another one is down.
func TestPaymentGoesToAKeyThatSigns(t *testing.T) {
	b := newBench(t)
	down := &elsewhere{key: relayerKey(0), before: func() error { return errors.New("down") }}
	r := b.relayerBy(b.attempts, []payment.Signer{down, relayerKey(1)}, nil)
	if err := r.Ready(t.Context()); err != nil {
		t.Errorf("ready: %v", err)
	}
	for i := range 3 {
		p := b.claim(buyer(i))
		for range 2 { // the first time may find out that a key does not sign
			if err := r.Submit(t.Context(), p); err == nil {
				break
			}
		}
		b.settles(p)
		if by := b.wantAttempts(p, payment.TransactionOpen)[0].Relayer; by != relayerKey(1).Address() {
			t.Errorf("settled by %s", by)
		}
	}
	if n := down.asked.Load(); n > 2 {
		t.Errorf("the key that does not sign was asked %d times", n)
	}
}

// TestRetiredKeyFinishesWhatItBegan: its fee is raised, its bytes are sent again after a reorganisation, and it gets no
// new payment.
func TestRetiredKeyFinishesWhatItBegan(t *testing.T) {
	b := newBench(t)
	was, is := relayerKey(0), relayerKey(1)
	before := b.relayerBy(b.attempts, []payment.Signer{was}, nil)
	b.control("evm_setAutomine", false)
	first := b.claim(buyer(0))
	if err := before.Submit(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	r, later := b.relayerBy(b.attempts, []payment.Signer{is}, []payment.Signer{was}),
		b.relayerBy(b.attempts, []payment.Signer{is}, nil)
	if err := later.CheckKeys(t.Context(), b.attempts); err == nil {
		t.Error("the key of an open transaction may be taken away")
	}
	b.control("anvil_dropAllTransactions")
	b.ahead.Add(11)
	if err := r.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if stored := b.wantAttempts(first, payment.TransactionOpen); len(stored[0].Variants) != 2 {
		t.Errorf("its fee was raised %d times", len(stored[0].Variants)-1)
	}
	b.control("evm_setAutomine", true)
	b.mine(1)
	b.settles(first)
	for i := range 3 {
		p := b.claim(buyer(i))
		if err := r.Submit(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		b.settles(p)
		if by := b.wantAttempts(p, payment.TransactionOpen)[0].Relayer; by != is.Address() {
			t.Errorf("a new payment is sent by %s", by)
		}
	}
	b.mine(2)
	b.eventually("nothing of the retired key is open", func() bool {
		return r.Maintain(t.Context()) == nil && later.CheckKeys(t.Context(), b.attempts) == nil
	})
	only := b.relayerBy(b.attempts, nil, []payment.Signer{was})
	if err := only.Ready(t.Context()); err == nil {
		t.Error("ready without a key to settle with")
	}
	if err := only.Submit(t.Context(), b.claim(buyer(0))); err == nil {
		t.Error("a retired key took a payment")
	}
}
