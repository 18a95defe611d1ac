package chain_test

import (
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/x402"
)

// TestPaymentsSettleOnceUnderFaults lets relayers stop between storing and sending, drops the pool, reorganises blocks
// and lets a stranger submit first. Each payment settles once.
func TestPaymentsSettleOnceUnderFaults(t *testing.T) {
	t.Run("one by one", func(t *testing.T) {
		b := newBench(t)
		b.settlesOnceUnderFaults(b.newRelayer(dyingStore{b.attempts}))
	})
	t.Run("in batches", func(t *testing.T) {
		b := newBench(t)
		on := settler.Own(domain.Contract)
		b.relayer = b.batching(on, b.attempts)
		b.control("evm_setAutomine", false)
		b.control("evm_setIntervalMining", 1)
		b.settlesOnceUnderFaults(b.batching(on, dyingStore{b.attempts}))
	})
}

func (b *bench) settlesOnceUnderFaults(dying *chain.Relayer) {
	const payments, seed = 40, 20260102
	random := rand.New(rand.NewPCG(seed, 0))
	b.mine(3)
	var claimed []payment.Payment
	strangers := 0
	for range payments {
		p := b.claim(buyer(random.IntN(10)))
		claimed = append(claimed, p)
		switch random.IntN(4) {
		case 0:
			_ = dying.Submit(b.Context(), p) // it always dies
		case 1:
			// Of the stranger, too, a reorganisation may have left a gap.
			call := x402.TransferCall(p.Authorization, p.Signature)
			if _, err := b.send(devnet.WalletsOf(devnet.RoleAdmin)[0], token, call); err == nil {
				strangers++
			}
			_ = b.relayer.Submit(b.Context(), p) // the stranger may have been first
		default:
			_ = b.relayer.Submit(b.Context(), p) // a reorganisation may have left a gap
		}
		switch random.IntN(8) {
		case 0:
			b.control("anvil_dropAllTransactions")
		case 1, 2:
			// Only the latest block is undone: the one before counts as final.
			b.control("anvil_reorg", 1, []any{})
		case 3:
			_ = b.relayer.Maintain(b.Context()) // what it cannot do now it does later
		case 4:
			b.ahead.Add(1)
		}
	}
	if strangers == 0 {
		b.Error("no stranger submitted")
	}
	b.eventually("all payments move", func() bool {
		_ = b.relayer.Maintain(b.Context())
		for _, p := range claimed {
			switch v := b.verdict(p); v.State {
			case payment.Settled:
			case payment.Unused:
				_ = b.relayer.Submit(b.Context(), p) // until it takes
				return false
			case payment.Unknown:
				return false
			case payment.Void:
				b.Fatalf("payment void: %s", v.Reason)
			}
		}
		return true
	})
	for _, p := range claimed {
		b.settles(p)
	}
	b.wantPayee(payments * price)
}

func TestCollectorsSettleThroughRelayer(t *testing.T) {
	b := newBench(t)
	collector := payment.NewCollector(payment.CollectorConfig{Chain: b.chain, Settler: b.relayer,
		Timeout: 10 * time.Second, Log: slog.New(slog.DiscardHandler)})
	decide := func(p payment.Payment) payment.Verdict {
		return paymenttest.Decide(t.Context(), collector, p, 20*time.Millisecond, 20*time.Second)
	}
	p, other := b.claim(buyer(0)), b.claim(buyer(1))
	b.cancel(buyer(1), other.Authorization.Nonce)
	b.mine(2)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if v := decide(p); v.State != payment.Settled {
				t.Errorf("%+v, want settled", v)
			}
		})
	}
	group.Go(func() {
		if v := decide(other); v.State != payment.Void || v.Reason != payment.ReasonCancelled {
			t.Errorf("%+v, want void, cancelled", v)
		}
	})
	group.Wait()
	b.wantAttempts(p, payment.TransactionOpen)
	b.wantPayee(price)
}
