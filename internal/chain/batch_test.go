package chain_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// batching is a relayer of one key that settles several payments in one transaction.
func (b *bench) batching(on settler.Contract, attempts chain.Transactions, delegates ...x402.Address) *chain.Relayer {
	b.Helper()
	return b.batchingAt(b.url, on, attempts, delegates...)
}

// batchingAt is the same over another node.
func (b *bench) batchingAt(
	node string, on settler.Contract, attempts chain.Transactions, delegates ...x402.Address,
) *chain.Relayer {
	b.Helper()
	if on.IsOwn() {
		b.control("anvil_setCode", settler.Address.String(), hexutil.Bytes(settler.Code()))
	}
	c, err := chain.New(b.Context(), chain.Config{
		Endpoints: []chain.Endpoint{{URL: node}}, Domain: domain, Finality: chain.Finality{Paid: "latest", Dead: "safe"},
		CallTimeout: 10 * time.Second, Delegates: delegates, Now: b.now,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	r, err := chain.NewRelayer(chain.RelayerConfig{
		Chain: c, Transactions: attempts, Keys: []payment.Signer{relayerKey(0)},
		Settler: on, Window: 2, BumpAfter: 10 * time.Second, ResendAfter: time.Nanosecond, Now: b.now,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// batch has payments that share a transaction: the room is used up by two others, which are in a block then.
func (b *bench) batch(r *chain.Relayer, members ...payment.Payment) payment.Transaction {
	b.Helper()
	b.relayer = r
	b.control("evm_setAutomine", false)
	for range 2 {
		b.submit(b.claim(buyer(9)))
	}
	for _, p := range members {
		b.submit(p)
		b.wantAttempts(p)
	}
	b.mine(1)
	b.eventually("there is a transaction of all", func() bool { return len(b.attempts.All(members[0].ID)) > 0 })
	t := b.wantAttempts(members[0], payment.TransactionOpen)[0]
	if len(t.Payments) != len(members) {
		b.Fatalf("%d members, want %d", len(t.Payments), len(members))
	}
	for i, p := range members {
		if t.Payments[i] != p.ID {
			b.Errorf("member %d is another payment", i)
		}
	}
	b.waiting(1)
	return t
}

// others is what the two payments move that make room for a batch.
const others = 2 * price

func (b *bench) claims(n int) []payment.Payment {
	claimed := make([]payment.Payment, n)
	for i := range claimed {
		claimed[i] = b.claim(buyer(i))
	}
	return claimed
}

func contracts(t *testing.T, test func(t *testing.T, on settler.Contract)) {
	for name, on := range map[string]settler.Contract{
		"own": settler.Own(domain.Contract), "multicall": settler.Multicall3(domain.Contract),
	} {
		t.Run(name, func(t *testing.T) { test(t, on) })
	}
}

func TestBatchSettlesEachMemberOnce(t *testing.T) {
	contracts(t, func(t *testing.T, on settler.Contract) {
		b := newBench(t)
		members := b.claims(8)
		tx := b.batch(b.batching(on, b.attempts), members...)
		b.mine(1)
		for _, p := range members {
			if got := b.settles(p).Transaction; got != tx.Variants[0].Hash {
				t.Errorf("settled by %s, want %s", got, tx.Variants[0].Hash)
			}
			b.submit(p)
		}
		b.mine(2)
		b.maintain()
		for _, p := range members {
			b.wantAttempts(p, payment.TransactionClosed)
		}
		b.wantPayee(8*price + others)
	})
}

// TestBadMemberCostsOnlyItself has a payer spend the money elsewhere after the simulation.
func TestBadMemberCostsOnlyItself(t *testing.T) {
	contracts(t, func(t *testing.T, on settler.Contract) {
		b := newBench(t)
		members := b.claims(5)
		poor := members[2]
		b.batch(b.batching(on, b.attempts), members...)
		had := b.balance(poor.Authorization.From)
		b.setBalance(poor.Authorization.From, 1)
		b.mine(1)
		for _, p := range slices.Concat(members[:2], members[3:]) {
			b.settles(p)
		}
		if v := b.verdict(poor); v.State != payment.Unused {
			t.Fatalf("%+v, want unused", v)
		}
		// It is not prepared again while a reorganisation could still move it.
		if err := b.relayer.Submit(t.Context(), poor); !errors.Is(err, payment.ErrMissed) {
			t.Errorf("submitted again: %v", err)
		}
		b.wantAttempts(poor, payment.TransactionOpen)
		b.mine(2)
		b.maintain()
		b.wantAttempts(poor, payment.TransactionClosed)
		lost, err := b.attempts.Lost(t.Context(), poor, b.now().Add(-time.Hour))
		if err != nil || lost.Reverts != 1 || lost.All == 0 {
			t.Errorf("lost %+v, %v, want one member's share", lost, err)
		}
		b.setBalance(poor.Authorization.From, had)
		b.submit(poor)
		b.mine(1)
		b.settles(poor)
		all := b.wantAttempts(poor, payment.TransactionClosed, payment.TransactionOpen)
		if len(all[1].Payments) != 1 {
			t.Errorf("%d members, want it alone", len(all[1].Payments))
		}
		b.wantPayee(5*price + others)
	})
}

// TestRefusedMemberIsLeftOut has a payer spend the money elsewhere while the payment waits for its turn, after it was
// simulated and before.
func TestRefusedMemberIsLeftOut(t *testing.T) {
	for name, simulated := range map[string]bool{"simulated": true, "not simulated": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.relayer = b.batching(settler.Own(domain.Contract), b.attempts)
			b.control("evm_setAutomine", false)
			for range 2 {
				b.submit(b.claim(buyer(9)))
			}
			members := b.claims(4)
			poor := members[1]
			for _, p := range members {
				if simulated {
					if err := chain.AsRelayer(b.chain, b.relayer).Simulate(t.Context(), p.Authorization, p.Signature); err != nil {
						t.Fatal(err)
					}
				}
				b.submit(p)
			}
			b.setBalance(poor.Authorization.From, 1)
			b.mine(1)
			b.eventually("there is a transaction of the others", func() bool { return len(b.attempts.All(members[0].ID)) > 0 })
			if tx := b.wantAttempts(members[0], payment.TransactionOpen)[0]; len(tx.Payments) != 3 {
				t.Errorf("%d members, want the three others", len(tx.Payments))
			}
			b.waiting(1)
			b.mine(1)
			for _, p := range slices.Concat(members[:1], members[2:]) {
				b.settles(p)
			}
			b.wantAttempts(poor)
			b.wantPayee(3*price + others)
		})
	}
}

// TestRevertedBatchIsRetriedOneByOne has a contract that reverts once the batch is stored.
func TestRevertedBatchIsRetriedOneByOne(t *testing.T) {
	b := newBench(t)
	members := b.claims(4)
	b.batch(b.batching(settler.Own(domain.Contract), b.attempts), members...)
	b.control("anvil_setCode", settler.Address.String(), "0x60006000fd")
	b.mine(1)
	b.maintain()
	for _, p := range members {
		b.wantAttempts(p, payment.TransactionReverted)
	}
	b.control("anvil_setCode", settler.Address.String(), hexutil.Bytes(settler.Code()))
	b.eventually("each is sent alone", func() bool {
		for _, p := range members {
			b.submit(p)
		}
		b.mine(1)
		return !slices.ContainsFunc(members, func(p payment.Payment) bool { return b.verdict(p).State != payment.Settled })
	})
	for _, p := range members {
		all := b.wantAttempts(p, payment.TransactionReverted, payment.TransactionOpen)
		if len(all[1].Payments) != 1 {
			t.Errorf("%d members, want each alone", len(all[1].Payments))
		}
	}
	b.wantPayee(4*price + others)
}

func TestHigherFeeKeepsAllMembers(t *testing.T) {
	b := newBench(t)
	members := b.claims(6)
	tx := b.batch(b.batching(settler.Own(domain.Contract), b.attempts), members...)
	b.ahead.Store(11)
	b.maintain()
	variants := b.wantAttempts(members[0], payment.TransactionOpen)[0].Variants
	if len(variants) != 2 {
		t.Fatalf("%d variants, want 2", len(variants))
	}
	before, after := decode(t, tx.Variants[0]), decode(t, variants[1])
	if string(before.Data()) != string(after.Data()) || *before.To() != *after.To() || before.Gas() != after.Gas() {
		t.Error("the transaction with the higher fee is another call")
	}
	b.mine(1)
	for _, p := range members {
		if got := b.settles(p).Transaction; got != variants[1].Hash {
			t.Errorf("settled by %s, want %s", got, variants[1].Hash)
		}
	}
	b.wantPayee(6*price + others)
}

// TestStrangerSettlesMemberFirst: the batch moves the others, and nothing twice.
func TestStrangerSettlesMemberFirst(t *testing.T) {
	b := newBench(t)
	members := b.claims(4)
	b.batch(b.batching(settler.Own(domain.Contract), b.attempts), members...)
	b.control("anvil_dropAllTransactions")
	b.post(devnet.WalletsOf(devnet.RoleAdmin)[0], token,
		x402.TransferCall(members[0].Authorization, members[0].Signature))
	b.mine(1)
	b.settles(members[0])
	b.maintain()
	b.mine(1)
	for _, p := range members {
		b.settles(p)
	}
	b.wantPayee(4*price + others)
}

// TestBatchIsSentAsStored: a process that died between storing and sending has left bytes, which another one sends.
func TestBatchIsSentAsStored(t *testing.T) {
	b := newBench(t)
	on := settler.Own(domain.Contract)
	members := b.claims(4)
	dying := dyingInBatch{b.attempts}
	b.relayer = b.batching(on, dying)
	b.control("evm_setAutomine", false)
	for range 2 {
		b.submit(b.claim(buyer(9)))
	}
	for _, p := range members {
		b.submit(p)
	}
	b.mine(1)
	b.eventually("the batch is stored", func() bool { return len(b.attempts.All(members[0].ID)) > 0 })
	stored := b.wantAttempts(members[0], payment.TransactionOpen)[0]
	b.waiting(0)
	b.relayer = b.batching(on, b.attempts)
	for _, p := range members {
		b.submit(p)
	}
	b.waiting(1)
	b.mine(1)
	for _, p := range members {
		if got := b.settles(p).Transaction; got != stored.Variants[0].Hash {
			t.Errorf("settled by %s, want %s", got, stored.Variants[0].Hash)
		}
		b.wantAttempts(p, payment.TransactionOpen)
	}
	b.wantPayee(4*price + others)
}

// TestReorganisedBatchIsSentAgain: its members are not prepared anew.
func TestReorganisedBatchIsSentAgain(t *testing.T) {
	b := newBench(t)
	members := b.claims(4)
	b.batch(b.batching(settler.Own(domain.Contract), b.attempts), members...)
	b.mine(1)
	b.settles(members[0])
	b.control("anvil_reorg", 1, []any{})
	b.eventually("all move again", func() bool {
		b.maintain()
		for _, p := range members {
			b.submit(p)
		}
		b.mine(1)
		return !slices.ContainsFunc(members, func(p payment.Payment) bool { return b.verdict(p).State != payment.Settled })
	})
	for _, p := range members {
		b.wantAttempts(p, payment.TransactionOpen)
	}
	b.wantPayee(4*price + others)
}

// TestPayerWithCodeGoesAlone: what it does is not bounded as in a transaction of its own.
func TestPayerWithCodeGoesAlone(t *testing.T) {
	b := newBench(t)
	honest := b.delegate(ownSignature)
	b.delegates(buyer(1), honest)
	members := b.claims(4)
	b.relayer = b.batching(settler.Own(domain.Contract), b.attempts, honest)
	b.control("evm_setAutomine", false)
	for range 2 {
		b.submit(b.claim(buyer(9)))
	}
	for _, p := range members {
		b.submit(p)
	}
	b.eventually("all move", func() bool {
		b.mine(1)
		return !slices.ContainsFunc(members, func(p payment.Payment) bool { return b.verdict(p).State != payment.Settled })
	})
	if tx := b.wantAttempts(members[1], payment.TransactionOpen)[0]; len(tx.Payments) != 1 {
		t.Errorf("%d members, want it alone", len(tx.Payments))
	}
	if tx := b.wantAttempts(members[0], payment.TransactionOpen)[0]; len(tx.Payments) != 3 {
		t.Errorf("%d members, want the three others", len(tx.Payments))
	}
	b.wantPayee(4*price + others)
}

// TestProcessesBatchWithoutOverlap has three processes with one key submit the same payments.
func TestProcessesBatchWithoutOverlap(t *testing.T) {
	const payments = 30
	b := newBench(t)
	on := settler.Own(domain.Contract)
	processes := []*chain.Relayer{b.batching(on, b.attempts), b.batching(on, b.attempts), b.batching(on, b.attempts)}
	b.control("evm_setAutomine", false)
	claimed := make([]payment.Payment, payments)
	for i := range claimed {
		claimed[i] = b.claim(buyer(i % 10))
	}
	b.eventually("all move", func() bool {
		var group sync.WaitGroup
		for _, r := range processes {
			for _, p := range claimed {
				group.Go(func() { _ = r.Submit(t.Context(), p) })
			}
		}
		group.Wait()
		b.mine(1)
		return !slices.ContainsFunc(claimed, func(p payment.Payment) bool { return b.verdict(p).State != payment.Settled })
	})
	transactions := map[uuid.UUID]bool{}
	for _, p := range claimed {
		transactions[b.wantAttempts(p, payment.TransactionOpen)[0].ID] = true
	}
	if len(transactions) >= payments {
		t.Errorf("%d transactions for %d payments", len(transactions), payments)
	}
	b.wantPayee(payments * price)
}

// dyingInBatch dies after a batch is stored, and before it is sent.
type dyingInBatch struct{ chain.Transactions }

// Prepare implements payment.Transactions.
func (d dyingInBatch) Prepare(
	ctx context.Context, payments []uuid.UUID, relayer x402.Address, w payment.Window, sign payment.SignBatch,
) ([]payment.Transaction, error) {
	prepared, err := d.Transactions.Prepare(ctx, payments, relayer, w, sign)
	if len(payments) > 1 && err == nil {
		return nil, errors.New("killed")
	}
	return prepared, err
}
