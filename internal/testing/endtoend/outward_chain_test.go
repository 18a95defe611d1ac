package endtoend_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// nodeModes are the ways in which a call to the node goes wrong.
var nodeModes = []nodeMode{hangUp, hangUpAfter, failBefore, failAfter, status500, status429, answerNull, answerOld,
	answerJunk, answerSlow}

// TestPurchaseSurvivesNodeFaults injects each mode of fault into calls of each method, once and four times
// in a row: one transfer, one card.
func TestPurchaseSurvivesNodeFaults(t *testing.T) {
	t.Parallel()
	onlyTorture(t, "chain TestPaymentsSettleOnceUnderFaults, and nodes that fail in testing/simulation TestSeeds")
	only := map[string]string{"of the use": asksForUse, "of the transfer": asksForTransfer}
	for _, name := range []string{
		"eth_sendRawTransaction", "eth_getLogs", "eth_getLogs of the use", "eth_getLogs of the transfer", "eth_call",
		"eth_getBlockByNumber",
		"eth_getBlockByHash", "eth_getTransactionReceipt", "eth_getTransactionCount", "eth_maxPriorityFeePerGas",
	} {
		t.Run(name, func(t *testing.T) {
			modes := nodeModes
			if !torture() {
				if name != "eth_sendRawTransaction" && name != "eth_getLogs" {
					t.Skip("in make torture: chain TestPaymentsSettleOnceUnderFaults, settlement TestChainFaultsLeaveOnePayment")
				}
				modes = []nodeMode{hangUpAfter, answerNull}
			}
			t.Parallel()
			w, node := newProxyWorld(t, nil)
			method, part, _ := strings.Cut(name, " ")
			switch method {
			case "eth_sendRawTransaction":
				modes = append(modes[:len(modes):len(modes)], acceptAndDrop)
			case "eth_getLogs":
				modes = append(modes[:len(modes):len(modes)], answerEmpty, answerOther)
			}
			// A node that answers from before must not be asked about a buyer who had no money then.
			buyers := make([]*buyer, 1+2*len(modes))
			for i := range buyers {
				buyers[i] = w.buyer()
			}
			next := func() *buyer { b := buyers[0]; buyers = buyers[1:]; return b }
			if _, err := next().buyRetrying("before"); err != nil {
				t.Fatal(err)
			}
			for _, mode := range modes {
				for _, times := range []int{1, 4} {
					if times > 1 && (!torture() || mode == answerSlow || method == "eth_getTransactionReceipt") {
						continue // it would only take longer
					}
					if method == "eth_getTransactionReceipt" {
						// Receipts are looked at when a transaction does not show.
						node.inject(nodeFault{method: "eth_sendRawTransaction", mode: acceptAndDrop, times: 1})
					}
					node.inject(nodeFault{method: method, mode: mode, only: only[part], times: times, delay: 2500 * time.Millisecond})
					b := next()
					b.wantSold(fmt.Sprint(mode, times))
					node.clearFaults()
					b.wantPaidOnce(fmt.Sprintf("%s, %d times", mode, times))
				}
			}
			w.checkBooks()
			w.wantAllDelivered()
		})
	}
}

// wantAllDelivered checks that every order ended with a card and its fee withdrawn.
func (w *world) wantAllDelivered() {
	w.t.Helper()
	for _, e := range w.orders() {
		if (outcome{e.status, e.fee}) != delivered {
			w.t.Errorf("order %+v, want %+v", e, delivered)
		}
	}
}

// wantPaidOnce checks on the chain that the buyer paid exactly once; what, if any, names the case.
func (b *buyer) wantPaidOnce(what string) {
	b.w.t.Helper()
	if n := b.w.transferCount(b); n != 1 {
		b.w.t.Errorf("%s: %d transfers from the buyer, want 1", what, n)
	}
}

func (w *world) transferCount(b *buyer) int {
	w.t.Helper()
	return len(w.transfersFrom(b.address))
}

// TestMissingLogDoesNotVoidPayment hides each of the two events of a settlement, and shows those of another, until
// well after the block is final: no answer of a node may pass for a payment that went elsewhere.
func TestMissingLogDoesNotVoidPayment(t *testing.T) {
	onlyTorture(t, "chain TestMissingLogIsFoundLater and TestVerdictAsksOtherNodesForMissingLogs")
	t.Parallel()
	w, node := newProxyWorld(t, nil)
	if _, err := w.buyer().buyRetrying("before"); err != nil { // whose logs are the old ones
		t.Fatal(err)
	}
	for event, asks := range map[string]string{"use": asksForUse, "transfer": asksForTransfer} {
		for _, mode := range []nodeMode{answerEmpty, answerOther, answerNull} {
			// Whoever asks has seen the authorization used, so the block of that is final after these.
			final := sync.OnceFunc(func() { w.mine(3) })
			node.inject(nodeFault{method: "eth_getLogs", mode: mode, only: asks, times: 10, before: final})
			b := w.buyer()
			b.wantSold(event + string(mode))
			if left := node.faultsLeft(); left > 0 {
				t.Errorf("%s, %s: sold without %d of the calls that were to fail", event, mode, left)
			}
			node.clearFaults()
			b.wantPaidOnce(fmt.Sprintf("%s, %s", event, mode))
		}
	}
	w.checkBooks()
	w.wantAllDelivered()
}

// TestTwoNodesReplaceTheThird keeps selling while one node is dead, lies about nothing but silence, and comes
// back: a payment needs two.
func TestTwoNodesReplaceTheThird(t *testing.T) {
	t.Parallel()
	w, nodes := newNodeWorld(t, 3, nil)
	first, second := nodes[0], nodes[1]
	modes := []nodeMode{hangUp, status500, answerNull, answerJunk, answerSlow}
	if !torture() {
		modes = modes[:1] // chain TestVerdictNeedsTwoNodesToSettle and TestPoolRetriesNodeErrorsOnly have the others
	}
	for _, mode := range modes {
		first.inject(nodeFault{method: "*", mode: mode, delay: 2500 * time.Millisecond})
		w.buyer().wantSold("first " + string(mode))
		first.clearFaults()
		second.inject(nodeFault{method: "*", mode: mode, delay: 2500 * time.Millisecond})
		w.buyer().wantSold("second " + string(mode))
		second.clearFaults()
	}
	w.checkBooks()
	w.wantAllDelivered()
}

// TestThirdPartyMaySettleFirst is A20: somebody takes the authorization out of the mempool and submits it;
// ours reverts, and the money has arrived anyway.
func TestThirdPartyMaySettleFirst(t *testing.T) {
	onlyTorture(t, "chain TestStrangersTransactionSettlesPayment")
	t.Parallel()
	w, node := newProxyWorld(t, nil)
	stranger := w.buyer()
	w.giveGas(stranger.address)
	for n := range 3 {
		b := w.buyer()
		p := b.payment()
		node.inject(nodeFault{method: "eth_sendRawTransaction", mode: passOn, times: 1, before: func() {
			stranger.transact(uint64(n), x402.TransferCall(p.Authorization, p.Signature))
		}})
		var o paidOrder
		w.send(purchase("preempted", header(t, p))).into(t, 200, &o)
		b.wantPaidOnce("")
		var tx struct{ From common.Address }
		w.rpc(&tx, "eth_getTransactionByHash", o.Payment.Transaction)
		if x402.Address(tx.From) != stranger.address {
			t.Errorf("settled by %s, want the stranger's transaction", tx.From)
		}
	}
	w.checkBooks()
	w.wantAllDelivered()
}

// transact sends a transaction of the wallet's own to the token, and it is in a block when this returns.
func (b *buyer) transact(nonce uint64, data []byte) {
	b.w.t.Helper()
	to := common.Address(usdc())
	tx, err := types.SignNewTx(b.key, types.LatestSignerForChainID(moneyOf(x402.ChainID).Big()), &types.DynamicFeeTx{
		ChainID: moneyOf(x402.ChainID).Big(), Nonce: nonce, GasTipCap: moneyOf(1e9).Big(), GasFeeCap: moneyOf(100e9).Big(),
		Gas: 200_000, To: &to, Data: data,
	})
	if err != nil {
		b.w.t.Errorf("sign: %v", err)
		return
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		b.w.t.Errorf("encode: %v", err)
		return
	}
	if err := b.w.node.CallContext(b.w.t.Context(), nil, "eth_sendRawTransaction", hexutil.Encode(raw)); err != nil {
		b.w.t.Errorf("send: %v", err)
	}
}

// cancelCall is the call data of cancelAuthorization, signed by the payer.
func (b *buyer) cancelCall(nonce x402.Hash) []byte {
	b.w.t.Helper()
	typeHash := crypto.Keccak256([]byte("CancelAuthorization(address authorizer,bytes32 nonce)"))
	word := b.address.Word()
	structHash := crypto.Keccak256(typeHash, word[:], nonce[:])
	separator := domain().Separator()
	sig, err := crypto.Sign(crypto.Keccak256([]byte{0x19, 1}, separator[:], structHash), b.key)
	if err != nil {
		b.w.t.Fatal(err)
	}
	data := crypto.Keccak256([]byte("cancelAuthorization(address,bytes32,uint8,bytes32,bytes32)"))[:4]
	data = append(append(data, word[:]...), nonce[:]...)
	data = binary.BigEndian.AppendUint64(append(data, make([]byte, 24)...), uint64(sig[64])+27)
	return append(data, sig[:64]...)
}

// TestCancelledPaymentDeliversNothingAndMayBeReplaced is A21: the authorization is cancelled while ours is on
// its way. Nothing is delivered, the 402 comes only once it is proven dead, and the key stays good.
func TestCancelledPaymentDeliversNothingAndMayBeReplaced(t *testing.T) {
	onlyTorture(t, "chain TestCancelledAuthorizationIsVoidOnceFinal, checkout TestDeadPaymentMayBeReplaced")
	t.Parallel()
	w, node := newProxyWorld(t, nil)
	b := w.buyer()
	w.giveGas(b.address)
	p := b.payment()
	node.inject(nodeFault{method: "eth_sendRawTransaction", mode: passOn, times: 1, before: func() {
		b.transact(0, b.cancelCall(p.Authorization.Nonce))
	}})
	a := w.send(purchase("cancelled", header(t, p))).settled()
	if a.status != 402 || !a.is(fault.PaymentRejected) || a.header.Get(x402.HeaderRequired) == "" ||
		a.header.Get(x402.HeaderResponse) == "" {
		t.Fatalf("%d %s", a.status, clipped(a.body))
	}
	if len(w.transfers()) != 0 || len(w.issuer.books().Cards) != 0 {
		t.Error("something was moved or delivered")
	}
	// The dead one stays dead, whatever key it comes with.
	wantStatus(t, "the dead payment again", w.send(purchase("cancelled", header(t, p))), 402)
	var o paidOrder
	w.send(purchase("cancelled", header(t, b.payment()))).into(t, 200, &o)
	if o.OrderID != a.problem.OrderID {
		t.Errorf("paid again: order %s, want the same %s", o.OrderID, a.problem.OrderID)
	}
	w.checkBooks()
	w.wantAllDelivered()
}

// TestEmptiedWalletLeavesPaymentUndecided is the other half of A21, and A29: the balance goes while ours is on its
// way. The authorization may still be used, so the answer is unknown, and few transactions are spent on it.
func TestEmptiedWalletLeavesPaymentUndecided(t *testing.T) {
	onlyTorture(t, "chain TestDrainedPayersPaymentSettlesOnceFundedAgain")
	t.Parallel()
	w, node := newProxyWorld(t, func(c *app.Config) { c.Wait = 3 * time.Second })
	b := w.buyer()
	payment := header(t, b.payment())
	node.inject(nodeFault{method: "eth_sendRawTransaction", mode: passOn, times: 1,
		before: sync.OnceFunc(func() { w.fund(b.address, 0) })})
	a := w.send(purchase("emptied", payment))
	if a.status != 503 || !a.is(fault.SettlementUnknown) || a.problem.OrderID == "" ||
		a.header.Get("Retry-After") == "" || a.header.Get(x402.HeaderRequired) != "" {
		t.Fatalf("%d %s", a.status, clipped(a.body))
	}
	signedAnew := w.send(purchase("emptied", header(t, b.payment())))
	wantProblem(t, "signed anew meanwhile", signedAnew, 503, fault.SettlementUnknown)
	var sent hexutil.Uint64
	w.rpc(&sent, "eth_getTransactionCount", w.relayer.String(), "latest")
	if sent > 1 {
		t.Errorf("%d transactions were spent on a payer without money", sent)
	}
	if len(w.issuer.books().Cards) != 0 {
		t.Error("something was delivered")
	}
	w.fund(b.address, 1_000_000_000)
	if got, err := b.retry("emptied", payment); err != nil || got.OrderID != a.problem.OrderID {
		t.Errorf("after the money came back: %+v, %v", got, err)
	}
	w.checkBooks()
	w.wantAllDelivered()
}

// TestAuthorizationExpiredInFlightIsVoid is A19: the chain takes nothing until the authorization is
// over. Only a safe block beyond its time makes the 402, and the key can be paid again.
func TestAuthorizationExpiredInFlightIsVoid(t *testing.T) {
	onlyTorture(t, "chain TestUnusedAuthorizationIsVoidAfterFinalBlock, checkout TestDeadPaymentMayBeReplaced")
	t.Parallel()
	w, node := newProxyWorld(t, func(c *app.Config) { c.Wait = 2 * time.Second })
	b := w.buyer()
	node.inject(nodeFault{method: "eth_sendRawTransaction", mode: acceptAndDrop})
	p := b.payment(func(p *x402.Payment) { p.Authorization.ValidBefore = uint64(time.Now().Unix()) + 22 })
	payment := header(t, p)
	var last answer
	eventually(t, func() (bool, string) {
		last = w.send(purchase("expired", payment))
		if last.status == 402 && uint64(time.Now().Unix()) < p.Authorization.ValidBefore {
			t.Error("402 while the authorization could still be used")
		}
		return last.status == 402 || last.status != 503, fmt.Sprint(last.status, string(last.body))
	})
	if last.status != 402 {
		t.Fatalf("%d %s", last.status, clipped(last.body))
	}
	if w.transferCount(b) != 0 || len(w.issuer.books().Cards) != 0 {
		t.Error("something was moved or delivered")
	}
	node.clearFaults()
	b.wantSold("expired")
	w.checkBooks()
	w.wantAllDelivered()
}

// TestReorganisedSettlementIsSentAgain undoes the block of a settlement, and four more before it.
func TestReorganisedSettlementIsSentAgain(t *testing.T) {
	t.Parallel()
	onlyTorture(t, "chain TestRelayerResendsAfterReorganisation, testing/simulation/node "+
		"TestPaymentSettlesAgainAfterReorganisation")
	for _, depth := range []int{1, 5} {
		t.Run(fmt.Sprint("depth ", depth), func(t *testing.T) {
			t.Parallel()
			chain := ownChain(t)
			w := newWorld(t, plan{chain: chain})
			b := w.buyer()
			w.mine(10) // the buyer's money is older than what is undone
			// Blocks are made of transactions alone meanwhile: the settlement must not become final before it is undone.
			w.rpc(nil, "evm_setIntervalMining", 0)
			w.rpc(nil, "evm_setAutomine", true)
			var o paidOrder
			b.buy("undone").into(t, 200, &o)
			w.rpc(nil, "anvil_reorg", depth, []any{})
			w.resumeMining()
			eventually(t, func() (bool, string) {
				n := w.transferCount(b)
				return n == 1, fmt.Sprint(n, " transfers after the reorganisation")
			})
			w.checkBooks()
			w.wantAllDelivered()
			wantStatus(t, "the purchase again", b.buy("undone"), 200)
		})
	}
}

// TestStalledChainLeavesPaymentsUndecided buys while no block is made.
func TestStalledChainLeavesPaymentsUndecided(t *testing.T) {
	onlyTorture(t, "chain TestRelayerResendsDroppedTransaction, checkout TestUnknownSettlementIsNeverAChallenge")
	t.Parallel()
	chain, err := devnet.StartChain(t.Context(), devnet.ChainConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { chain.Close() })
	w := newWorld(t, plan{chain: chain, change: func(c *app.Config) { c.Wait = 3 * time.Second }})
	buyers := []*buyer{w.buyer(), w.buyer(), w.buyer()}
	w.rpc(nil, "evm_setAutomine", false)
	var payments []string
	for _, b := range buyers {
		payments = append(payments, header(t, b.payment()))
		a := w.send(purchase("still", payments[len(payments)-1]))
		if a.status != 503 || !a.is(fault.SettlementUnknown) || a.problem.OrderID == "" {
			t.Fatalf("%d %s", a.status, clipped(a.body))
		}
	}
	// What was sent is dropped by the node; it has to be sent again.
	w.rpc(nil, "anvil_dropAllTransactions")
	w.rpc(nil, "evm_setAutomine", true)
	for i, b := range buyers {
		b.wantRetrySold("still", payments[i])
	}
	w.mine(3)
	w.checkBooks()
	w.wantAllDelivered()
}
