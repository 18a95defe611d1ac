package chain_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

func TestRepeatedSubmitMakesOneTransaction(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	if v := b.verdict(p); v.State != payment.Unused {
		t.Fatalf("before: %+v, want unused", v)
	}
	b.submit(p)
	receipt := b.settles(p)
	b.submit(p)
	b.submit(p)
	attempt := b.wantAttempts(p, payment.TransactionOpen)[0]
	if receipt.Transaction != attempt.Variants[0].Hash {
		t.Errorf("settled by %s, want %s", receipt.Transaction, attempt.Variants[0].Hash)
	}
	b.wantPayee(price)

	b.mine(2)
	b.maintain()
	b.wantAttempts(p, payment.TransactionClosed)
}

// dyingStore stores a transaction and then dies before the caller can send it.
type dyingStore struct{ chain.Transactions }

func (d dyingStore) Prepare(
	ctx context.Context, payments []uuid.UUID, relayer x402.Address, w payment.Window, sign payment.SignBatch,
) ([]payment.Transaction, error) {
	_, err := d.Transactions.Prepare(ctx, payments, relayer, w, sign)
	return nil, errors.Join(err, errors.New("killed"))
}

func TestSubmitAfterCrashSendsStoredBytes(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	if err := b.newRelayer(dyingStore{b.attempts}).Submit(t.Context(), p); err == nil {
		t.Fatal("the dying relayer survived")
	}
	stored := b.wantAttempts(p, payment.TransactionOpen)[0].Variants[0]
	b.wantPayee(0)
	b.submit(p)
	if got := b.settles(p).Transaction; got != stored.Hash {
		t.Errorf("settled by %s, want the stored %s", got, stored.Hash)
	}
	b.wantAttempts(p, payment.TransactionOpen)
}

func TestMaintainAfterCrashSendsStoredBytes(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	_ = b.newRelayer(dyingStore{b.attempts}).Submit(t.Context(), p)
	b.maintain()
	b.settles(p)
	b.wantPayee(price)
}

func TestStrangersTransactionSettlesPayment(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	hash := b.stranger(p.Authorization, p.Signature)
	if got := b.settles(p).Transaction; got != x402.Hash(hash) {
		t.Errorf("settled by %s, want the stranger's %s", got, hash)
	}
	if err := b.relayer.Submit(t.Context(), p); b.reasonOf(err) != x402.ReasonNonceUsed {
		t.Errorf("submit after: %v", err)
	}
	b.wantAttempts(p)
}

func TestFrontRunningLeavesPaymentSettled(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	b.control("evm_setAutomine", false)
	b.submit(p)
	// Ours waits in the pool; the stranger offers a higher tip and comes first in the same block.
	foreign := b.post(devnet.WalletsOf(devnet.RoleAdmin)[0], token, x402.TransferCall(p.Authorization, p.Signature))
	b.waiting(2)
	b.mine(1)
	if got := b.settles(p).Transaction; got != x402.Hash(foreign) {
		t.Errorf("settled by %s, want the stranger's", got)
	}
	b.maintain()
	b.wantAttempts(p, payment.TransactionReverted)
	b.wantPayee(price)
}

func TestNonceSpentElsewhereIsVoidOnceFinal(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	other := p.Authorization
	other.To = x402.Address{19: 0x42}
	b.stranger(other, b.sign(other, buyer(0)))
	if v := b.verdict(p); v.State != payment.Unknown {
		t.Errorf("not final yet: %+v, want unknown", v)
	}
	b.mine(2)
	if v := b.verdict(p); v.State != payment.Void || v.Reason != payment.ReasonUsedElsewhere {
		t.Errorf("%+v, want void, used elsewhere", v)
	}
}

// TestUseWithoutItsTransferDecidesNothing: a node shows that the authorization was used, and hides what it moved. A
// buyer whose payment is void would sign anew.
func TestUseWithoutItsTransferDecidesNothing(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	b.submit(p)
	b.settles(p)
	b.mine(2)
	var hidden atomic.Bool
	c := b.over(b.lying(func(q question) string {
		if hidden.Load() && q.Method == "eth_getLogs" && q.has("blockHash") {
			return `"result":[]`
		}
		return ""
	}))
	for _, tt := range []struct {
		hidden bool
		want   payment.State
	}{{true, payment.Unknown}, {false, payment.Settled}} {
		hidden.Store(tt.hidden)
		v, err := c.Verdict(t.Context(), p.Authorization, p.CreatedAt.Add(-5*time.Minute))
		if err != nil || v.State != tt.want {
			t.Errorf("hidden %t: %+v, %v, want %v", tt.hidden, v, err, tt.want)
		}
	}
}

func TestOneTransferSettlesOneAuthorization(t *testing.T) {
	for name, paidFirst := range map[string]bool{"the payment first": true, "the payment last": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			paid, unpaid := b.claim(buyer(0)), b.claim(buyer(0))
			elsewhere := unpaid.Authorization
			elsewhere.To = x402.Address{19: 0x42}
			calls := [][]byte{
				x402.TransferCall(elsewhere, b.sign(elsewhere, buyer(0))),
				x402.TransferCall(paid.Authorization, paid.Signature),
			}
			if paidFirst {
				slices.Reverse(calls)
			}
			b.multicall(calls...)
			b.mine(2)
			b.settles(paid)
			if v := b.verdict(unpaid); v.State != payment.Void || v.Reason != payment.ReasonUsedElsewhere {
				t.Errorf("%+v, want void, used elsewhere", v)
			}
		})
	}
}

// multicall makes several calls of the token in one transaction.
func (b *bench) multicall(calls ...[]byte) {
	b.Helper()
	parsed, err := abi.JSON(
		strings.NewReader(`[{"type":"function","name":"aggregate3","inputs":[{"name":"calls","type":"tuple[]",
		"components":[{"name":"target","type":"address"},{"name":"allowFailure","type":"bool"},
		{"name":"callData","type":"bytes"}]}]}]`))
	if err != nil {
		b.Fatal(err)
	}
	type call struct {
		Target       common.Address
		AllowFailure bool
		CallData     []byte
	}
	var list []call
	for _, data := range calls {
		list = append(list, call{Target: token, CallData: data})
	}
	data, err := parsed.Pack("aggregate3", list)
	if err != nil {
		b.Fatal(err)
	}
	b.sendAs(
		devnet.WalletsOf(devnet.RoleAdmin)[0], common.HexToAddress("0xcA11bde05977b3631167028862bE2a173976CA11"), data,
	)
}

func TestCancelledAuthorizationIsVoidOnceFinal(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	b.cancel(buyer(0), p.Authorization.Nonce)
	if v := b.verdict(p); v.State != payment.Unknown {
		t.Errorf("not final yet: %+v, want unknown", v)
	}
	b.mine(2)
	if v := b.verdict(p); v.State != payment.Void || v.Reason != payment.ReasonCancelled {
		t.Errorf("%+v, want void, cancelled", v)
	}
}

func TestUnusedAuthorizationIsVoidAfterFinalBlock(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	b.ahead.Store(200)
	if v := b.verdict(p); v.State != payment.Unknown {
		t.Errorf("only our clock is past it: %+v, want unknown", v)
	}
	b.ahead.Store(0)
	b.pass(200)
	if v := b.verdict(p); v.State != payment.Unknown {
		t.Errorf("only the head is past it: %+v, want unknown", v)
	}
	b.mine(2)
	if v := b.verdict(p); v.State != payment.Void || v.Reason != payment.ReasonExpired {
		t.Errorf("%+v, want void, expired", v)
	}
	if err := b.relayer.Submit(t.Context(), p); b.reasonOf(err) != x402.ReasonValidBefore {
		t.Errorf("submit after: %v", err)
	}
}

func TestDrainedPayersPaymentSettlesOnceFundedAgain(t *testing.T) {
	b := newBench(t)
	p, payer := b.claim(buyer(1)), addressOf(buyer(1))
	b.control("evm_setAutomine", false)
	b.submit(p)
	// The payer spends everything in the same block, in front of ours.
	b.post(buyer(1), token, transferCall(addressOf(buyer(2)), b.balance(payer)))
	b.waiting(2)
	b.mine(1)
	b.control("evm_setAutomine", true)
	if v := b.verdict(p); v.State != payment.Unused {
		t.Fatalf("after the revert: %+v, want unused", v)
	}
	for range 2 {
		if err := b.relayer.Submit(t.Context(), p); b.reasonOf(err) != x402.ReasonBalance {
			t.Fatalf("submit of a drained payer: %v", err)
		}
	}
	b.wantAttempts(p, payment.TransactionReverted)
	b.sendAs(buyer(2), token, transferCall(payer, price))
	b.submit(p)
	b.settles(p)
	b.wantAttempts(p, payment.TransactionReverted, payment.TransactionOpen)
}

func TestRelayerSettlesManyPayments(t *testing.T) {
	b := newBench(t)
	const payments = 20
	claimed := make([]payment.Payment, payments)
	for i := range claimed {
		claimed[i] = b.claim(buyer(i % 10))
	}
	var group sync.WaitGroup
	for _, p := range claimed {
		// Two processes want each of them.
		for _, r := range []interface {
			Submit(context.Context, payment.Payment) error
		}{b.relayer, b.newRelayer(b.attempts)} {
			group.Go(func() {
				err := r.Submit(t.Context(), p)
				if rejection, ok := errors.AsType[*payment.Rejection](err); err != nil &&
					(!ok || rejection.Reason != x402.ReasonNonceUsed) {
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
			t.Fatalf("nonces %v, want 0 to %d", nonces, payments-1)
		}
	}
	b.wantPayee(payments * price)
}

func TestSimulateGivesReason(t *testing.T) {
	b := newBench(t)
	simulate := func(change func(*x402.Authorization), signer int) string {
		a := b.claim(buyer(0)).Authorization
		if change != nil {
			change(&a)
		}
		return b.reasonOf(b.chain.Simulate(t.Context(), a, b.sign(a, buyer(signer))))
	}
	seconds := uint64(b.now().Unix())
	tests := []struct {
		name   string
		change func(*x402.Authorization)
		signer int
		want   string
	}{
		{"good", nil, 0, ""},
		{"too much", func(a *x402.Authorization) { a.Value = money.USDC(1e15) }, 0, x402.ReasonBalance},
		{"expired", func(a *x402.Authorization) { a.ValidBefore = seconds - 1 }, 0, x402.ReasonValidBefore},
		{"too early", func(a *x402.Authorization) { a.ValidAfter = seconds + 60 }, 0, x402.ReasonValidAfter},
		{"signed by another", nil, 1, x402.ReasonSignature},
	}
	for _, tt := range tests {
		if got := simulate(tt.change, tt.signer); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	// The head of an idle chain is older than what a client signs a minute later.
	b.ahead.Store(30)
	b.control("evm_increaseTime", "0x1e")
	if got := simulate(func(a *x402.Authorization) { a.ValidAfter = seconds + 20 }, 0); got != "" {
		t.Errorf("valid since a moment on an idle chain: %q", got)
	}
	b.sendAs(devnet.WalletsOf(devnet.RoleAdmin)[0], token, common.FromHex("0x8456cb59"))
	if got := simulate(nil, 0); got != payment.ReasonTokenPaused {
		t.Errorf("paused token: %q", got)
	}
}

func TestSimulateRefusesPayerWithCode(t *testing.T) {
	b := newBench(t)
	codes := map[string]string{
		"EIP-7702 delegation to nothing": "0xef0100" + strings.Repeat("11", 20),
		"contract that says nothing":     "0x00",
		"contract that burns gas":        "0x5b600056",
	}
	for name, code := range codes {
		p := b.claim(buyer(0))
		b.control("anvil_setCode", buyer(0).Address, code)
		// An answer that takes as long as a call may is no refusal.
		reason := b.reasonOf(b.chain.Simulate(t.Context(), p.Authorization, p.Signature))
		if reason != x402.ReasonSignature && reason != x402.ReasonSimulation {
			t.Errorf("%s: reason %q", name, reason)
		}
	}
}
