package chain_test

import (
	"encoding/json"
	"math/big"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

func TestRelayerReplacesStuckTransaction(t *testing.T) {
	b := newBench(t)
	first, second := b.claim(buyer(0)), b.claim(buyer(1))
	b.control("evm_setAutomine", false)
	b.submit(first)
	b.submit(second)
	b.maintain()
	if n := len(b.wantAttempts(first, payment.TransactionOpen)[0].Variants); n != 1 {
		t.Fatalf("%d variants at once, want 1", n)
	}
	b.ahead.Store(11)
	b.maintain()
	variants := b.wantAttempts(first, payment.TransactionOpen)[0].Variants
	if len(variants) != 2 {
		t.Fatalf("%d variants after the wait, want 2", len(variants))
	}
	before, after := decode(t, variants[0]), decode(t, variants[1])
	if after.Nonce() != before.Nonce() || string(after.Data()) != string(before.Data()) {
		t.Error("the bumped transaction is another call")
	}
	for name, pair := range map[string][2]*big.Int{"tip": {before.GasTipCap(), after.GasTipCap()},
		"cap": {before.GasFeeCap(), after.GasFeeCap()}} {
		// after >= 5/4 before
		if new(big.Int).Mul(pair[1], big.NewInt(4)).Cmp(new(big.Int).Mul(pair[0], big.NewInt(5))) < 0 {
			t.Errorf("%s went from %s to %s, want a quarter more", name, pair[0], pair[1])
		}
	}
	if n := len(b.wantAttempts(second, payment.TransactionOpen)[0].Variants); n != 1 {
		t.Errorf("the second in line has %d variants, want 1", n)
	}
	b.mine(1)
	if got := b.settles(first).Transaction; got != variants[1].Hash {
		t.Errorf("settled by %s, want the bumped %s", got, variants[1].Hash)
	}
	b.settles(second)
	b.mine(2)
	b.maintain()
	b.wantAttempts(first, payment.TransactionClosed)
	b.wantAttempts(second, payment.TransactionClosed)
	b.wantPayee(2 * price)
}

func TestRelayerResendsDroppedTransaction(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	b.control("evm_setAutomine", false)
	b.submit(p)
	b.control("anvil_dropAllTransactions")
	b.mine(1)
	if v := b.verdict(p); v.State != payment.Unused {
		t.Fatalf("dropped: %+v, want unused", v)
	}
	b.maintain()
	b.mine(1)
	b.settles(p)
	if n := len(b.wantAttempts(p, payment.TransactionOpen)[0].Variants); n != 1 {
		t.Errorf("%d variants, want the same bytes", n)
	}
}

func TestRelayerResendsAfterReorganisation(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	b.mine(3)
	b.submit(p)
	before := b.settles(p)
	b.control("anvil_reorg", 1, []any{})
	if v := b.verdict(p); v.State != payment.Unused {
		t.Fatalf("undone: %+v, want unused", v)
	}
	b.maintain()
	after := b.settles(p)
	if after.Transaction != before.Transaction || after.BlockHash == before.BlockHash {
		t.Errorf("settled by %s in %s, want the same transaction in another block", after.Transaction, after.BlockHash)
	}
	b.wantPayee(price)
}

func TestRelayerFillsNonceGap(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	// Three nonces were handed out to attempts that are closed, on a chain that does not have them.
	relayer := addressOf(devnet.WalletsOf(devnet.RoleRelayer)[0])
	for range 3 {
		lost := b.claim(buyer(1))
		a, err := b.attempts.Prepare(
			t.Context(), []uuid.UUID{lost.ID}, relayer, payment.Window{Size: 16},
			func(uint64, []uuid.UUID) (payment.Variant, error) { return payment.Variant{}, nil },
		)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.attempts.Close(t.Context(), a[0].ID, payment.TransactionReverted, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	b.submit(p)
	if nonce := b.wantAttempts(p, payment.TransactionOpen)[0].Nonce; nonce != 3 {
		t.Fatalf("nonce %d, want 3", nonce)
	}
	b.maintain()
	b.settles(p)
}

func TestRelayerClosesAttemptWhoseNonceIsTaken(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	b.control("evm_setAutomine", false)
	b.submit(p)
	b.control("anvil_dropAllTransactions")
	b.control("evm_setAutomine", true)
	b.sendAs(devnet.WalletsOf(devnet.RoleRelayer)[0], [20]byte{0: 9}, nil)
	b.maintain()
	b.wantAttempts(p, payment.TransactionOpen)
	b.mine(2)
	for range 2 { // a node may lack the receipt for a while
		b.maintain()
		b.wantAttempts(p, payment.TransactionOpen)
	}
	b.maintain()
	b.wantAttempts(p, payment.TransactionReverted)
	b.submit(p)
	b.settles(p)
}

// TestMissingReceiptDoesNotEndTransaction lets the only node lack the receipt of a payment that has moved, once its
// block is final.
func TestMissingReceiptDoesNotEndTransaction(t *testing.T) {
	b := newBench(t)
	var lacks atomic.Bool
	b.chain = b.over(b.lying(func(q question) string {
		if lacks.Load() {
			return without(q)
		}
		return ""
	}))
	b.relayer = b.newRelayer(b.attempts)
	p := b.claim(buyer(0))
	b.submit(p)
	b.settles(p)
	b.mine(2)
	lacks.Store(true)
	b.maintain()
	b.wantAttempts(p, payment.TransactionOpen)
	lacks.Store(false)
	b.maintain()
	b.wantAttempts(p, payment.TransactionClosed)
}

// TestFinalBlockNeedsTwoNodes lets one node call the latest block final. A transaction that would be closed by that is
// not sent again when its block is replaced, and its account nonce would be a gap.
func TestFinalBlockNeedsTwoNodes(t *testing.T) {
	for others := 1; others <= 2; others++ {
		b := newBench(t)
		nodes := []string{b.lying(func(q question) string {
			var latest json.RawMessage
			if q.Method != "eth_getBlockByNumber" || !q.has(`"safe"`) {
				return ""
			}
			if err := b.node.CallContext(t.Context(), &latest, q.Method, "latest", false); err != nil {
				t.Error(err)
			}
			return `"result":` + string(latest)
		})}
		for range others {
			nodes = append(nodes, b.url)
		}
		b.chain = b.over(nodes...)
		b.relayer = b.newRelayer(b.attempts)
		p := b.claim(buyer(0))
		b.submit(p)
		b.settles(p)
		b.maintain()
		b.wantAttempts(p, payment.TransactionOpen)
		b.mine(2)
		b.maintain()
		b.wantAttempts(p, payment.TransactionClosed)
	}
}

func TestRelayerReadyNamesCause(t *testing.T) {
	b := newBench(t)
	if err := b.relayer.Ready(t.Context()); err != nil {
		t.Fatalf("ready: %v", err)
	}
	b.control("anvil_setBalance", devnet.WalletsOf(devnet.RoleRelayer)[0].Address, "0x1")
	if err := b.relayer.Ready(t.Context()); err == nil {
		t.Error("ready without gas")
	}
}

func decode(t *testing.T, v payment.Variant) *types.Transaction {
	t.Helper()
	var tx types.Transaction
	if err := tx.UnmarshalBinary(v.Raw); err != nil {
		t.Fatal(err)
	}
	if x402.Hash(tx.Hash()) != v.Hash {
		t.Errorf("stored hash %s, want %s", v.Hash, tx.Hash())
	}
	return &tx
}
