package chain_test

import (
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// following is the bench with a chain that reads the latest block once per headFor of its clock.
func following(t *testing.T, headFor time.Duration, nodes ...string) *bench {
	t.Helper()
	b := newBench(t)
	if len(nodes) == 0 {
		nodes = []string{b.url}
	}
	b.follows(headFor, nodes...)
	return b
}

// follows replaces the chain and its relayer.
func (b *bench) follows(headFor time.Duration, nodes ...string) {
	b.Helper()
	config := chain.Config{
		Domain: domain, Finality: chain.Finality{Paid: "latest", Dead: "safe"}, CallTimeout: 10 * time.Second, Now: b.now,
		HeadFor: headFor,
	}
	for _, url := range nodes {
		config.Endpoints = append(config.Endpoints, chain.Endpoint{URL: url})
	}
	on, err := chain.New(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(on.Close)
	b.chain = on.Following()
	b.fresh = on
	b.relayer = b.newRelayer(b.attempts)
}

// calls counts what is asked of the node meanwhile, by method.
func (b *bench) calls(do func()) map[string]int {
	b.Helper()
	before := b.dev.Calls()
	do()
	after := maps.Clone(b.dev.Calls())
	for method, n := range before {
		if after[method] -= n; after[method] == 0 {
			delete(after, method)
		}
	}
	return after
}

// TestWaitingPaymentsShareReadingOfBlocks has payments that wait for the same block cost the calls of one.
func TestWaitingPaymentsShareReadingOfBlocks(t *testing.T) {
	const payments = 10
	b := following(t, 30*time.Second) // the head is read again when the clock passes that
	b.control("evm_setAutomine", false)
	claimed := make([]payment.Payment, payments)
	for i := range claimed {
		claimed[i] = b.claim(buyer(i))
		b.submit(claimed[i])
	}
	all := func(want payment.State) {
		t.Helper()
		for _, p := range claimed {
			if v := b.verdict(p); v.State != want {
				t.Fatalf("%+v, want state %d", v, want)
			}
		}
	}
	if calls := b.calls(func() { all(payment.Unused); all(payment.Unused) }); len(calls) != 0 {
		t.Errorf("calls %v while no block comes", calls)
	}
	b.mine(1)
	b.ahead.Add(31)
	all(payment.Settled)
}

// TestSettledBlockIsReadOnce has many payments settled by one block.
func TestSettledBlockIsReadOnce(t *testing.T) {
	const payments = 10
	b := following(t, time.Nanosecond)
	b.control("evm_setAutomine", false)
	claimed := make([]payment.Payment, payments)
	for i := range claimed {
		claimed[i] = b.claim(buyer(i))
		b.submit(claimed[i])
	}
	b.mine(1)
	calls := b.calls(func() {
		for _, p := range claimed {
			if v := b.verdict(p); v.State != payment.Settled {
				t.Fatalf("%+v, want settled", v)
			}
		}
	})
	delete(calls, "eth_getBlockByNumber") // the head, each time
	if calls["eth_getLogs"] != 2 || len(calls) != 1 {
		t.Errorf("calls %v, want the block's uses and transfers, read once", calls)
	}
	for _, p := range claimed {
		b.settles(p)
	}
}

// TestFollowedVerdictEqualsFullSearch compares what the blocks tell with what a search without them finds.
func TestFollowedVerdictEqualsFullSearch(t *testing.T) {
	b := following(t, time.Nanosecond)
	settled, foreign, cancelled, elsewhere := b.claim(buyer(0)), b.claim(buyer(1)), b.claim(buyer(2)), b.claim(buyer(3))
	all := []payment.Payment{settled, foreign, cancelled, elsewhere}
	for _, p := range all {
		if v := b.verdict(p); v.State != payment.Unused {
			t.Fatalf("%+v, want unused", v)
		}
	}
	b.submit(settled)
	b.settles(settled)
	b.stranger(foreign.Authorization, foreign.Signature)
	b.cancel(buyer(2), cancelled.Authorization.Nonce)
	// The same block has a transfer that looks like the one whose nonce was used elsewhere.
	other, alike := elsewhere.Authorization, b.claim(buyer(3))
	other.To = addressOf(buyer(9))
	b.control("evm_setAutomine", false)
	admin := devnet.WalletsOf(devnet.RoleAdmin)[0]
	b.post(admin, token, x402.TransferCall(other, b.sign(other, buyer(3))))
	b.post(admin, token, x402.TransferCall(alike.Authorization, alike.Signature))
	b.mine(3)
	followed := make([]payment.Verdict, len(all))
	for i, p := range all {
		followed[i] = b.verdict(p)
	}
	b.chain = b.over(b.url)
	for i, p := range all {
		searched := b.verdict(p)
		if followed[i].State != searched.State || followed[i].Reason != searched.Reason {
			t.Errorf("payment %d: followed %+v, searched %+v", i, followed[i], searched)
		}
		if searched.Receipt != nil && *followed[i].Receipt != *searched.Receipt {
			t.Errorf("payment %d: followed %+v, searched %+v", i, *followed[i].Receipt, *searched.Receipt)
		}
	}
}

// TestFollowedBlockIsForgottenAfterReorganisation removes the block that settled a payment.
func TestFollowedBlockIsForgottenAfterReorganisation(t *testing.T) {
	b := following(t, time.Nanosecond)
	p := b.claim(buyer(0))
	b.mine(3)
	if v := b.verdict(p); v.State != payment.Unused {
		t.Fatalf("%+v, want unused", v)
	}
	b.submit(p)
	before := b.settles(p)
	b.control("anvil_reorg", 1, []any{})
	if v := b.verdict(p); v.State != payment.Unused {
		t.Fatalf("undone: %+v, want unused", v)
	}
	b.maintain()
	if after := b.settles(p); after.BlockHash == before.BlockHash {
		t.Error("settled by the block that was removed")
	}
	b.wantPayee(price)
}

// TestMissingLogIsFoundLater has a node that lacks the logs of a block when it is read first.
func TestMissingLogIsFoundLater(t *testing.T) {
	b := newBench(t)
	var silent atomic.Bool
	proxy := b.lying(func(q question) string {
		if silent.Load() && q.Method == "eth_getLogs" {
			return `"result":[]`
		}
		return ""
	})
	b.follows(time.Nanosecond, proxy)
	p := b.claim(buyer(0))
	if v := b.verdict(p); v.State != payment.Unused {
		t.Fatalf("%+v, want unused", v)
	}
	silent.Store(true)
	b.control("evm_setAutomine", false) // by itself, the node counts a transaction before it shows the block
	b.submit(p)
	b.mine(1)
	if v := b.verdict(p); v.State == payment.Settled {
		t.Fatal("settled without a log")
	}
	silent.Store(false)
	b.ahead.Add(21)
	if v := b.verdict(p); v.State != payment.Settled {
		t.Errorf("%+v after a while, want settled", v)
	}
}

// TestPayerFundedInNewestBlockIsNotRefused has money arrive in a block that is newer than the head read for all.
func TestPayerFundedInNewestBlockIsNotRefused(t *testing.T) {
	b := following(t, 30*time.Second)
	payer := addressOf(buyer(0))
	b.sendAs(buyer(0), token, transferCall(addressOf(buyer(1)), b.balance(payer)))
	p := b.claim(buyer(0))
	on := chain.AsRelayer(b.chain, b.relayer)
	simulate := func() error { return on.Simulate(t.Context(), p.Authorization, p.Signature) }
	if reason := b.reasonOf(simulate()); reason != x402.ReasonBalance {
		t.Fatalf("reason %q, want the balance", reason)
	}
	b.sendAs(buyer(1), token, transferCall(payer, price))
	if err := simulate(); err != nil {
		t.Errorf("simulate: %v", err)
	}
}

// TestSettledPaymentCostsFewCalls counts what payments that are verified, sent, settled and made final cost, where they
// share the blocks.
func TestSettledPaymentCostsFewCalls(t *testing.T) {
	const payments, each, shared = 16, 5, 20
	b := following(t, 30*time.Second)
	b.control("evm_setAutomine", false)
	on := chain.AsRelayer(b.fresh, b.relayer)
	tick := func(blocks int) {
		b.mine(blocks)
		b.ahead.Add(31)
	}
	total := 0
	for method, n := range b.calls(func() {
		var claimed []payment.Payment
		for i := range payments {
			p := b.claim(buyer(i))
			if err := on.Simulate(t.Context(), p.Authorization, p.Signature); err != nil {
				t.Fatal(err)
			}
			b.submit(p)
			claimed = append(claimed, p)
		}
		tick(1)
		for _, p := range claimed {
			if v := b.verdict(p); v.State != payment.Settled {
				t.Fatalf("%+v, want settled", v)
			}
		}
		b.maintain()
		tick(2)
		b.maintain()
		for _, p := range claimed {
			b.wantAttempts(p, payment.TransactionClosed)
			v, err := b.chain.Final().Verdict(t.Context(), p.Authorization, p.Since())
			if err != nil || v.State != payment.Settled {
				t.Fatalf("final: %+v, %v", v, err)
			}
		}
	}) {
		if method[:4] == "eth_" {
			total += n
		}
		t.Logf("%s: %d", method, n)
	}
	if most := payments*each + shared; total > most {
		t.Errorf("%d calls for %d payments, want at most %d", total, payments, most)
	}
}

// TestFollowedTransferNeedsTwoNodes has one of two nodes lack the logs of the block that settles a payment.
func TestFollowedTransferNeedsTwoNodes(t *testing.T) {
	b := newBench(t)
	var silent atomic.Bool
	proxy := b.lying(func(q question) string {
		if silent.Load() && q.Method == "eth_getLogs" {
			return `"result":[]`
		}
		return ""
	})
	b.follows(time.Nanosecond, b.url, proxy)
	first, second := b.claim(buyer(0)), b.claim(buyer(1))
	for _, p := range []payment.Payment{first, second} {
		if v := b.verdict(p); v.State != payment.Unused {
			t.Fatalf("%+v, want unused", v)
		}
	}
	b.submit(first)
	b.settles(first)
	silent.Store(true)
	b.control("evm_setAutomine", false) // by itself, the node counts a transaction before it shows the block
	b.submit(second)
	b.mine(1)
	if v := b.verdict(second); v.State == payment.Settled {
		t.Fatal("settled by one node")
	}
	silent.Store(false)
	b.ahead.Add(21)
	b.settles(second)
}
