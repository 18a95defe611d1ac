package chain_test

import (
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// narrow is another process with a small window.
func (b *bench) narrow(window uint64) *chain.Relayer {
	b.Helper()
	r, err := chain.NewRelayer(chain.RelayerConfig{
		Chain: b.chain, Transactions: b.attempts, Keys: []payment.Signer{relayerKey(0)},
		Window: window, Now: b.now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// TestPaymentsBeyondWindowWait submits more payments than a node's pool takes. The others wait without a transaction,
// and get one as blocks make room, each sent once.
func TestPaymentsBeyondWindowWait(t *testing.T) {
	const payments, slots = 40, 16
	b := newBench(t)
	b.relayer = b.narrow(slots)
	b.control("evm_setAutomine", false)
	claimed := make([]payment.Payment, payments)
	for i := range claimed {
		claimed[i] = b.claim(buyer(i % 10))
		b.submit(claimed[i])
	}
	made := func() (n int) {
		for _, p := range claimed {
			n += len(b.attempts.All(p.ID))
		}
		return n
	}
	for _, want := range []int{slots, 2 * slots, payments} {
		b.eventually("there are transactions for all the room", func() bool { return made() == want })
		b.waiting(uint64(want - b.included()))
		b.mine(1)
	}
	for i, p := range claimed {
		b.settles(p)
		if a := b.wantAttempts(p, payment.TransactionOpen)[0]; a.Nonce != uint64(i) {
			t.Errorf("payment %d has nonce %d: it was not its turn", i, a.Nonce)
		}
	}
	b.wantPayee(payments * price)
	if sent := b.dev.Calls()["eth_sendRawTransaction"]; sent != payments {
		t.Errorf("%d transactions sent for %d payments", sent, payments)
	}
}

// included is the relayer's count.
func (b *bench) included() int {
	b.Helper()
	var n hexutil.Uint64
	relayer := devnet.WalletsOf(devnet.RoleRelayer)[0].Address
	if err := b.node.CallContext(b.Context(), &n, "eth_getTransactionCount", relayer, "latest"); err != nil {
		b.Fatal(err)
	}
	return int(n)
}

// TestOldestPaymentIsSentFirst has the later of two payments submitted first.
func TestOldestPaymentIsSentFirst(t *testing.T) {
	b := newBench(t)
	b.relayer = b.narrow(1)
	b.control("evm_setAutomine", false)
	first := b.claim(buyer(0))
	early := b.claim(buyer(1))
	late := b.claim(buyer(2))
	late.CreatedAt = early.CreatedAt.Add(time.Second)
	b.submit(first)
	b.submit(late)
	b.submit(early)
	b.mine(1)
	b.eventually("the early payment has its turn", func() bool { return len(b.attempts.All(early.ID)) == 1 })
	b.wantAttempts(late)
	b.waiting(1)
	b.mine(1)
	b.eventually("the late payment has its turn", func() bool { return len(b.attempts.All(late.ID)) == 1 })
	b.waiting(1)
	b.mine(1)
	b.settles(late)
	b.wantPayee(3 * price)
}

// TestPaymentThatExpiresBeforeItsTurnIsNotSent keeps a payment waiting until it is too late.
func TestPaymentThatExpiresBeforeItsTurnIsNotSent(t *testing.T) {
	b := newBench(t)
	b.relayer = b.narrow(1)
	b.control("evm_setAutomine", false)
	first, brief, last := b.claim(buyer(0)), b.claim(buyer(1)), b.claim(buyer(2))
	brief.Authorization.ValidBefore = uint64(b.now().Unix()) + 60
	brief.Signature = b.sign(brief.Authorization, buyer(1))
	b.submit(first)
	b.submit(brief)
	b.submit(last)
	b.ahead.Add(61)
	b.control("evm_increaseTime", "0x3d")
	b.mine(1)
	b.eventually("the one behind it has its turn", func() bool { return len(b.attempts.All(last.ID)) == 1 })
	b.wantAttempts(brief)
	b.waiting(1)
	b.mine(3)
	b.settles(last)
	if v := b.verdict(brief); v.State != payment.Void || v.Reason != payment.ReasonExpired {
		t.Errorf("%+v, want void, expired", v)
	}
	b.wantPayee(2 * price)
}

// TestProcessesShareKeyWithoutGaps has three processes with one key settle payments of their own, on a node that
// refuses what comes before an earlier transaction, and what is more than its pool takes.
func TestProcessesShareKeyWithoutGaps(t *testing.T) {
	const each, processes = 14, 3
	b := newBench(t)
	b.control("evm_setIntervalMining", 1)
	var group sync.WaitGroup
	var mu sync.Mutex
	var claimed []payment.Payment
	for i := range processes {
		r := b.newRelayer(b.attempts)
		for j := range each {
			p := b.claim(buyer((i + j) % 10))
			claimed = append(claimed, p)
			group.Go(func() {
				if err := r.Submit(t.Context(), p); err != nil {
					mu.Lock()
					defer mu.Unlock()
					t.Errorf("submit: %v", err)
				}
			})
		}
	}
	group.Wait()
	var nonces []uint64
	for _, p := range claimed {
		b.settles(p)
		nonces = append(nonces, b.wantAttempts(p, payment.TransactionOpen)[0].Nonce)
	}
	slices.Sort(nonces)
	for i, nonce := range nonces {
		if nonce != uint64(i) {
			t.Fatalf("nonces %v, want 0 to %d", nonces, len(claimed)-1)
		}
	}
	b.wantPayee(each * processes * price)
}

// TestUnsentTransactionOfAnotherProcessIsSentFirst has a process store a transaction and die before it sends it. The
// next payment's transaction, by another process, is refused until the earlier one is sent.
func TestUnsentTransactionOfAnotherProcessIsSentFirst(t *testing.T) {
	b := newBench(t)
	unsent, next := b.claim(buyer(0)), b.claim(buyer(1))
	_ = b.newRelayer(dyingStore{b.attempts}).Submit(t.Context(), unsent)
	b.wantAttempts(unsent, payment.TransactionOpen)
	b.submit(next)
	b.settles(unsent)
	b.settles(next)
	b.wantPayee(2 * price)
}

// TestGapWiderThanWindowIsFilled has a chain that is far behind the store, with no open attempt: a restored one.
func TestGapWiderThanWindowIsFilled(t *testing.T) {
	const lost = 20
	b := newBench(t)
	relayer := addressOf(devnet.WalletsOf(devnet.RoleRelayer)[0])
	for range lost {
		p := b.claim(buyer(1))
		a, err := b.attempts.Prepare(t.Context(), []uuid.UUID{p.ID}, relayer, payment.Window{Size: lost},
			func(uint64, []uuid.UUID) (payment.Variant, error) { return payment.Variant{Hash: x402.Hash{1}}, nil })
		if err != nil {
			t.Fatal(err)
		}
		if err := b.attempts.Close(t.Context(), a[0].ID, payment.TransactionClosed, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	p := b.claim(buyer(0))
	b.submit(p)
	b.wantAttempts(p)
	b.eventually("there is room", func() bool { b.maintain(); return len(b.attempts.All(p.ID)) == 1 })
	b.settles(p)
	if nonce := b.wantAttempts(p, payment.TransactionOpen)[0].Nonce; nonce != lost {
		t.Errorf("nonce %d, want %d", nonce, lost)
	}
}
