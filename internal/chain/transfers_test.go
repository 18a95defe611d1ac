package chain_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/x402"
)

// TestTransfersAreReadWithTheirAuthorizations reads the same blocks in one range and in many small ones.
func TestTransfersAreReadWithTheirAuthorizations(t *testing.T) {
	b := newBench(t)
	var want []reconcile.Transfer
	pays := func(i int) {
		p := b.claim(buyer(i))
		b.submit(p)
		r := b.settles(p)
		want = append(want, reconcile.Transfer{
			Transaction: r.Transaction, LogIndex: r.LogIndex, Block: r.Block, From: p.Authorization.From, Value: price, Nonce: p.Authorization.Nonce,
		})
	}
	gives := func(i int, amount money.USDC) {
		hash := b.sendAs(buyer(i), token, transferCall(b.payee, amount))
		var receipt struct{ BlockNumber string }
		if err := b.node.CallContext(t.Context(), &receipt, "eth_getTransactionReceipt", hash); err != nil {
			t.Fatal(err)
		}
		want = append(want, reconcile.Transfer{Transaction: x402.Hash(hash), From: addressOf(buyer(i)), Value: amount, Block: number(t, receipt.BlockNumber)})
	}
	pays(0)
	gives(0, 7)
	b.mine(5)
	pays(1)
	pays(0)
	// Not ours: to somebody else, and of nothing.
	b.sendAs(buyer(1), token, transferCall(addressOf(buyer(0)), 9))
	b.sendAs(buyer(1), token, transferCall(b.payee, 0))
	b.mine(3)

	safe, err := b.chain.Safe(t.Context())
	if err != nil || safe < want[3].Block {
		t.Fatalf("the safe block is %d, %v", safe, err)
	}
	small, err := chain.New(t.Context(), chain.Config{
		Endpoints: []chain.Endpoint{{URL: b.url}}, Domain: domain, CallTimeout: 10 * time.Second, LogRange: 2, Now: b.now,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(small.Close)
	for name, c := range map[string]*chain.Chain{"one range": b.chain, "many ranges": small} {
		got, err := c.Transfers(t.Context(), b.payee, 0, safe)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: transfers differ (-want +got):\n%s", name, diff)
		}
		part, err := c.Transfers(t.Context(), b.payee, want[1].Block, want[2].Block)
		if err != nil || !slices.Equal(part, want[1:3]) {
			t.Errorf("%s: blocks %d to %d: %v, %v", name, want[1].Block, want[2].Block, part, err)
		}
	}
}

// TestWhatIsNotSafeIsNotReadYet keeps a transfer that can still be undone out of the books.
func TestWhatIsNotSafeIsNotReadYet(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	b.submit(p)
	r := b.settles(p)
	if safe, err := b.chain.Safe(t.Context()); err != nil || safe >= r.Block {
		t.Errorf("the safe block is %d at once after block %d, %v", safe, r.Block, err)
	}
	if v := b.judge(p); v.State != payment.Moved {
		t.Errorf("the payment is %+v", v)
	}
}
