package chain_test

import (
	"errors"
	"math/big"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/payment"
)

// refusing is a node that refuses to simulate batches while more is above zero, and takes one from it each time.
func (b *bench) refusing(more *atomic.Int64) string {
	b.Helper()
	return b.lying(func(q question) string {
		if q.Method == "eth_call" && q.has(settler.Address.String()) && more.Add(-1) >= 0 {
			return `"error":{"code":-32000,"message":"execution aborted (timeout = 5s)"}`
		}
		return ""
	})
}

// fill uses up the room, so that payments wait for the next block.
func (b *bench) fill() {
	b.Helper()
	b.control("evm_setAutomine", false)
	for range 2 {
		b.submit(b.claim(buyer(9)))
	}
}

// sizes are how many of the payments each of their open transactions has, the largest first.
func (b *bench) sizes(members []payment.Payment) (sizes []int) {
	b.Helper()
	seen := map[uuid.UUID]bool{}
	for _, p := range members {
		for _, t := range b.attempts.All(p.ID) {
			if t.Status == payment.TransactionOpen && !seen[t.ID] {
				seen[t.ID] = true
				sizes = append(sizes, len(t.Payments))
			}
		}
	}
	slices.SortFunc(sizes, func(a, b int) int { return b - a })
	return sizes
}

// submitAll submits payments that were simulated at an earlier block, as those of buyers are.
func (b *bench) submitAll(members []payment.Payment) {
	b.Helper()
	for _, p := range members {
		if err := chain.AsRelayer(b.chain, b.relayer).Simulate(b.Context(), p.Authorization, p.Signature); err != nil {
			b.Fatal(err)
		}
		b.submit(p)
	}
}

// TestBatchThatCannotBeSimulatedIsHalved has a node refuse the call for a batch, as one does whose limit it exceeds.
// Its members share smaller transactions.
func TestBatchThatCannotBeSimulatedIsHalved(t *testing.T) {
	b := newBench(t)
	var refused atomic.Int64
	refused.Store(1)
	b.relayer = b.batchingAt(b.refusing(&refused), settler.Own(domain.Contract), b.attempts)
	b.fill()
	members := b.claims(8)
	b.submitAll(members)
	b.mine(1)
	b.eventually("all have transactions", func() bool {
		total := 0
		for _, size := range b.sizes(members) {
			total += size
		}
		return total == len(members)
	})
	if got := b.sizes(members); !slices.Equal(got, []int{4, 4}) {
		t.Errorf("batches of %v, want two of 4", got)
	}
	b.waiting(2)
	b.mine(1)
	for _, p := range members {
		b.settles(p)
	}
	b.wantPayee(8*price + others)
}

// TestBatchesGrowBack has a node refuse every batch for a while: each payment goes alone. Once those are final,
// payments share transactions again.
func TestBatchesGrowBack(t *testing.T) {
	b := newBench(t)
	var refused atomic.Int64
	refused.Store(1_000)
	b.relayer = b.batchingAt(b.refusing(&refused), settler.Own(domain.Contract), b.attempts)
	b.fill()
	first := b.claims(4)
	b.submitAll(first)
	b.eventually("each is sent alone", func() bool {
		b.mine(1)
		return !slices.ContainsFunc(first, func(p payment.Payment) bool { return b.verdict(p).State != payment.Settled })
	})
	if got := b.sizes(first); !slices.Equal(got, []int{1, 1, 1, 1}) {
		t.Fatalf("batches of %v, want each alone", got)
	}
	refused.Store(0)
	b.mine(2)
	b.maintain()
	b.fill()
	second := b.claims(4)
	b.submitAll(second)
	b.mine(1)
	b.eventually("there is a transaction", func() bool { return len(b.sizes(second)) > 0 })
	if got := b.sizes(second); !slices.Equal(got, []int{4}) {
		t.Fatalf("batches of %v, want one of 4", got)
	}
	b.waiting(1)
	b.mine(1)
	for _, p := range second {
		b.settles(p)
	}
	b.wantPayee(8*price + 2*others)
}

// TestBatchIsAsLargeAsKeyCanPayFor has a key that cannot pay for what all members may use. The others wait, and go once
// what was not used is there again.
func TestBatchIsAsLargeAsKeyCanPayFor(t *testing.T) {
	const payments = 8
	b := newBench(t)
	on := settler.Own(domain.Contract)
	b.relayer = b.batching(on, b.attempts)
	only := devnet.WalletsOf(devnet.RoleRelayer)[0]
	b.control("evm_setAutomine", false)
	early := []payment.Payment{b.claim(buyer(9)), b.claim(buyer(9))}
	b.submitAll(early)
	members := b.claims(payments)
	b.submitAll(members)
	// The next fee is a little lower, because blocks are nearly empty.
	fee := decode(t, b.attempts.All(early[1].ID)[0].Variants[0]).GasFeeCap()
	// For most of them. What is left must do for the last one, should it go alone.
	balance := new(big.Int).Mul(fee, new(big.Int).SetUint64(on.Gas(payments-2)))
	b.setGas(only, balance)
	b.ahead.Add(6) // a balance is cached for 5 s
	b.mine(1)
	b.eventually("there is a transaction", func() bool { return len(b.sizes(members)) > 0 })
	if got := b.sizes(members); len(got) != 1 || got[0] < 2 || got[0] == payments {
		t.Errorf("batches of %v, want one of some members", got)
	}
	if tx := decode(t, b.attempts.All(members[0].ID)[0].Variants[0]); tx.Cost().Cmp(balance) > 0 {
		t.Errorf("the transaction may cost %s of %s", tx.Cost(), balance)
	}
	b.waiting(1)
	b.eventually("all move", func() bool {
		b.mine(1)
		return !slices.ContainsFunc(members, func(p payment.Payment) bool { return b.verdict(p).State != payment.Settled })
	})
	b.wantPayee(payments*price + others)
}

// TestTwoNodesTellWhichContractThereIs has another node that is silent, lags, or shows other code.
func TestTwoNodesTellWhichContractThereIs(t *testing.T) {
	b := newBench(t)
	own := settler.Own(domain.Contract)
	b.control("anvil_setCode", settler.Address.String(), hexutil.Bytes(settler.Code()))
	if found, err := b.over(b.url, b.answersTo("none", "")).FindSettler(t.Context()); err != nil || found != own {
		t.Errorf("%+v, %v, want the contract", found, err)
	}
	for name, answer := range map[string]string{
		"silent": `"error":{"code":-32603,"message":"out of order"}`, "lagging": `"result":"0x"`, "other": `"result":"0x00"`,
	} {
		another := b.answersTo("eth_getCode", answer)
		if found, err := b.over(b.url, another).FindSettler(t.Context()); err == nil || errors.Is(err, settler.ErrOtherCode) {
			t.Errorf("%s: %+v, %v, want it unknown", name, found, err)
		}
		third := b.answersTo("none", "")
		if found, err := b.over(b.url, another, third).FindSettler(t.Context()); err != nil || found != own {
			t.Errorf("%s, of three: %+v, %v, want the contract", name, found, err)
		}
	}
	b.control("anvil_setCode", settler.Address.String(), "0x00")
	if _, err := b.over(b.url, b.answersTo("none", "")).FindSettler(t.Context()); !errors.Is(err, settler.ErrOtherCode) {
		t.Errorf("both show other code: %v", err)
	}
}

// TestContractMayBeFoundLater: a relayer that begins without one has payments share transactions from then on.
func TestContractMayBeFoundLater(t *testing.T) {
	b := newBench(t)
	own := settler.Own(domain.Contract)
	r := b.batching(own, b.attempts)
	r.Use(settler.Contract{})
	b.relayer = r
	b.fill()
	members := b.claims(4)
	b.submitAll(members)
	r.Use(own)
	b.mine(1)
	b.eventually("there is a transaction of all", func() bool { return len(b.attempts.All(members[3].ID)) > 0 })
	if got := b.sizes(members); !slices.Equal(got, []int{4}) {
		t.Errorf("batches of %v, want one of 4", got)
	}
	b.waiting(1)
	b.mine(1)
	for _, p := range members {
		b.settles(p)
	}
}
