package endtoend_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// forgedEvent is the answer to a question for events: one of the token's that was never logged.
func forgedEvent(at, index, data string, topics ...x402.Hash) string {
	words := make([]string, len(topics))
	for i, t := range topics {
		words[i] = t.String()
	}
	quoted, _ := json.Marshal(words) // strings always marshal
	return fmt.Sprintf(`"result":[{"address":%q,"topics":%s,"data":%q,%s,"transactionHash":"0x%s","logIndex":%q}]`,
		usdc(), quoted, data, at, strings.Repeat("f0", 32), index)
}

// forgeSettlement makes a node show both events of a payment that was never made, in a block that there is.
func (w *world) forgeSettlement(node *nodeProxy, p x402.Payment, tag string) {
	w.t.Helper()
	a := p.Authorization
	const authorizationState = "e94a0102"
	node.inject(nodeFault{method: "*", mode: forge, lie: func(c nodeCall) string {
		asked := strings.ToLower(c.question())
		var block struct{ Number, Hash string }
		if c.Method == "eth_getLogs" &&
			w.node.CallContext(context.WithoutCancel(w.t.Context()), &block, "eth_getBlockByNumber", tag, false) != nil {
			return ""
		}
		at := fmt.Sprintf(`"blockNumber":%q,"blockHash":%q`, block.Number, block.Hash)
		switch {
		case c.Method == "eth_call" &&
			strings.Contains(asked, authorizationState+strings.Repeat("0", 24)+a.From.Lower()[2:]+a.Nonce.String()[2:]):
			return `"result":"0x` + strings.Repeat("0", 63) + `1"`
		case c.Method == "eth_getLogs" && strings.Contains(asked, "fromblock") && strings.Contains(asked, a.Nonce.String()):
			return forgedEvent(at, "0x3", "0x", x402.TopicUsed, a.From.Word(), a.Nonce)
		case c.Method == "eth_getLogs" && strings.Contains(asked, "blockhash"):
			return forgedEvent(at, "0x4", fmt.Sprintf("0x%064x", a.Value.Big()), x402.TopicTransfer, a.From.Word(), a.To.Word())
		}
		return ""
	}})
}

// inventTransfer makes a node show a transfer by a payer to the payee that was never made, in the block that is the
// latest now. A thorough node shows it in the answer to every question that would find it.
func (w *world) inventTransfer(node *nodeProxy, a x402.Authorization, thorough bool) {
	w.t.Helper()
	const authorizationState = "e94a0102"
	var block struct{ Number, Hash string }
	w.rpc(&block, "eth_getBlockByNumber", "latest", false)
	at := fmt.Sprintf(`"blockNumber":%q,"blockHash":%q`, block.Number, block.Hash)
	used := forgedEvent(at, "0x3", "0x", x402.TopicUsed, a.From.Word(), a.Nonce)
	moved := forgedEvent(at, "0x4", fmt.Sprintf("0x%064x", a.Value.Big()), x402.TopicTransfer, a.From.Word(), a.To.Word())
	node.inject(nodeFault{method: "*", mode: forge, lie: func(c nodeCall) string {
		asked := strings.ToLower(c.question())
		about := func(what fmt.Stringer) bool { return strings.Contains(asked, strings.ToLower(what.String())) }
		switch {
		case c.Method == "eth_call":
			if !thorough || !strings.Contains(asked, authorizationState) || !strings.Contains(asked, a.Nonce.String()[2:]) {
				return ""
			}
			return fmt.Sprintf(`"result":"0x%064x"`, 1)
		case c.Method != "eth_getLogs" || !about(a.From.Word()):
			return ""
		case strings.Contains(asked, "blockhash"):
			if thorough {
				return moved
			}
			return ""
		case about(x402.TopicCanceled):
			if thorough && about(a.Nonce) {
				return used
			}
			return ""
		case about(x402.TopicUsed):
			return used
		case about(x402.TopicTransfer) && about(a.To.Word()):
			return moved
		}
		return ""
	}})
}

// TestInventedTransferStopsNoPayer: one of two nodes shows that a payer has paid before. While it shows the
// transfer wherever it is looked for, it is not known whether it is there, so nothing is claimed, and nothing sent. As
// soon as it does not, the payer buys with the payment at hand.
func TestInventedTransferStopsNoPayer(t *testing.T) {
	onlyTorture(t, "chain TestShownVoidsInventedTransfer, checkout TestCheckoutInventedArrivalPaysForNothing")
	t.Parallel()
	for name, place := range map[string]int{"first": 0, "second": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, nodes := newNodeWorld(t, 2, func(c *app.Config) { c.Wait = 2 * time.Second })
			w.awaitBlock(w.blockNumber() + 1) // which no catch-up has read
			careless, thorough := w.buyer(), w.buyer()
			w.inventTransfer(nodes[place], careless.payment().Authorization, false)
			careless.wantSold("k")
			nodes[place].clearFaults()
			w.awaitSettled()

			before := w.footprint()
			w.inventTransfer(nodes[place], thorough.payment().Authorization, true)
			payment := header(t, thorough.payment())
			for range 2 {
				if a := w.send(purchase("k", payment)); a.status != 503 || !a.is(fault.SettlementUnknown) ||
					a.problem.NextAction != string(fault.RetrySameRequest) {
					t.Errorf("while it lies: %d %s", a.status, clipped(a.body))
				}
			}
			w.wantFootprint("a trace is left", before)
			nodes[place].clearFaults()
			thorough.wantRetrySold("k", payment)
			for _, b := range []*buyer{careless, thorough} {
				b.wantPaidOnce("")
			}
			w.checkBooks()
			w.wantAllDelivered()
		})
	}
}

// TestOneLyingNodeCausesNoDelivery: a node shows both events of a payment as soon as it is signed, at the paid and at
// the final block. Nothing is delivered on its word, whether it is preferred or not and whatever the other does; the
// buyer is told that the payment is undecided, and it is decided when a second node can.
func TestOneLyingNodeCausesNoDelivery(t *testing.T) {
	t.Parallel()
	onlyTorture(t, "chain TestVerdictNeedsTwoNodesToSettle, and false nodes in testing/simulation TestSeeds")
	for name, tt := range map[string]struct {
		liar  int
		other func(*nodeProxy)
	}{
		"preferred":           {0, func(*nodeProxy) {}},
		"second":              {1, func(*nodeProxy) {}},
		"the other is silent": {0, func(p *nodeProxy) { p.inject(nodeFault{method: "*", mode: hangUp}) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, nodes := newNodeWorld(t, 2, func(c *app.Config) { c.Wait = 2 * time.Second })
			b := w.buyer()
			p := b.payment()
			liar, other := nodes[tt.liar], nodes[1-tt.liar]
			for _, node := range nodes { // the money cannot move
				node.inject(nodeFault{method: "eth_sendRawTransaction", mode: acceptAndDrop})
			}
			w.forgeSettlement(liar, p, "safe")
			// The other one goes away once the payment is claimed.
			claimed := w.send(purchase("forged", header(t, p)))
			tt.other(other)
			for range 4 {
				if claimed.status != 503 || !claimed.is(fault.SettlementUnknown) {
					t.Fatalf("%d %s, want 503 settlement_unknown", claimed.status, clipped(claimed.body))
				}
				if len(w.issuer.books().Cards) != 0 || w.transferCount(b) != 0 {
					t.Fatal("a card was given away")
				}
				claimed = w.send(purchase("forged", header(t, p)))
			}
			liar.clearFaults()
			other.clearFaults()
			b.wantRetrySold("forged", header(t, p))
			b.wantPaidOnce("")
			w.checkBooks()
			w.wantAllDelivered()
		})
	}
}

// TestOneLyingNodeOfThreeDelaysNothing: two others settle in time what it forges.
func TestOneLyingNodeOfThreeDelaysNothing(t *testing.T) {
	onlyTorture(t, "chain TestVerdictSettlesByTwoNodesAgainstOne")
	t.Parallel()
	w, nodes := newNodeWorld(t, 3, nil)
	for at, node := range nodes {
		b := w.buyer()
		p := b.payment()
		w.forgeSettlement(node, p, "latest")
		b.wantRetrySold(fmt.Sprint("forged ", at), header(t, p))
		b.wantPaidOnce("")
		node.clearFaults()
	}
	w.checkBooks()
	w.wantAllDelivered()
}

// TestSecondNodeIsRequiredFromAmount: below it one node is enough to sell while the other is away; without one nobody
// is asked to pay, nothing is claimed, and the same payment does when the node is back.
func TestSecondNodeIsRequiredFromAmount(t *testing.T) {
	t.Parallel()
	w, nodes := newNodeWorld(t, 2, func(c *app.Config) { c.ChainWatch = 200 * time.Millisecond })
	nodes[1].inject(nodeFault{method: "*", mode: hangUp})
	w.awaitNotReady("chain")
	before, b := w.footprint(), w.buyer()
	if a := w.send(purchase("alone", "")); a.status != 503 || a.header.Get(x402.HeaderRequired) != "" {
		t.Errorf("unpaid: %d %s", a.status, clipped(a.body))
	}
	payment := header(t, b.payment())
	if a := w.send(purchase("alone", payment)); a.status != 503 || !a.is(fault.DependencyDown) ||
		a.problem.NextAction != string(fault.RetrySameRequest) {
		t.Errorf("paid: %d %s", a.status, clipped(a.body))
	}
	w.wantFootprint("a trace is left", before)
	nodes[1].clearFaults()
	b.wantRetrySold("alone", payment)
	w.checkBooks()

	w, nodes = newNodeWorld(t, 2, func(c *app.Config) { c.WitnessFrom = 2501 })
	nodes[1].inject(nodeFault{method: "*", mode: hangUp})
	w.awaitReady(w.instances[0])
	w.buyer().wantSold("small")
	nodes[1].clearFaults()
	w.checkBooks()
	w.wantAllDelivered()
}

// awaitNotReady waits until /ready is 503 and names a check.
func (w *world) awaitNotReady(check string) {
	w.t.Helper()
	eventually(w.t, func() (bool, string) {
		a := w.send(get("/ready"))
		return a.status == 503 && strings.Contains(a.problem.Detail, check), fmt.Sprint(a.status, string(a.body))
	})
}

// TestOperatorProvesPaymentByTransaction: the node has dropped its logs, so that no search finds the transfer. What the
// operator says is verified: another transaction proves nothing; the right one delivers, once for a key, and is
// audited.
func TestOperatorProvesPaymentByTransaction(t *testing.T) {
	t.Parallel()
	onlyTorture(t, "admin TestNamedTransactionIsBelievedOnlyAsTheChainShowsIt")
	node := newNodeProxy(t, sharedChain(t).RPCURL)
	w := newAdminWorld(t, -1, plan{change: func(c *app.Config) { c.RPCURLs, c.Wait = []string{node.url}, 2*time.Second }})
	earlier, err := w.buyer().buyRetrying("earlier")
	if err != nil {
		t.Fatal(err)
	}
	node.inject(nodeFault{method: "eth_getLogs", mode: answerEmpty})
	b := w.buyer()
	a := b.buy("lost")
	if a.status != 503 || !a.is(fault.SettlementUnknown) {
		t.Fatalf("%d %s", a.status, clipped(a.body))
	}
	id, transaction := a.problem.OrderID, b.awaitTransfer()

	for name, hash := range map[string]string{
		"of another payment": earlier.Payment.Transaction,
		"of nothing":         "0x" + strings.Repeat("ab", 32),
	} {
		wantProblem(t, name, w.provePayment(id, hash, name), 409, fault.TransferUnproven)
	}
	if len(w.issuer.books().Cards) != 1 {
		t.Fatal("a wrong transaction delivered")
	}
	w.provePayment(id, transaction, "the key").into(t, 200, nil)
	w.provePayment(id, transaction, "the key").into(t, 200, nil)
	for name, tt := range map[string]struct {
		order, hash, key string
		code             fault.Code
	}{
		"proven already": {id, transaction, "another key", fault.OrderNotPayable},
		"another action": {id, earlier.Payment.Transaction, "the key", fault.IdempotencyKeyReused},
		"no such order":  {"ord_none", transaction, "k", fault.OrderNotFound},
	} {
		if a := w.provePayment(tt.order, tt.hash, tt.key); !a.is(tt.code) {
			t.Errorf("%s: %d %s, want %s", name, a.status, clipped(a.body), tt.code)
		}
	}
	b.signIn()
	b.awaitStatus(id, "fulfilled")
	// It becomes final though its logs are never found.
	eventually(t, func() (bool, string) {
		n := w.count("SELECT count(*) FROM jobs WHERE kind = 'payment_confirm' AND status <> 'succeeded'")
		return n == 0, fmt.Sprint(n, " payments are not final")
	})
	if n := w.count(`SELECT count(*) FROM audit WHERE action = 'order.prove_payment' AND actor = 'ann' AND subject = $1
		AND reason <> ''`, id); n != 1 {
		t.Errorf("%d audit rows", n)
	}
	node.clearFaults()
	w.checkBooks()
	w.wantAllDelivered()
}

// awaitTransfer waits for the buyer's transfer to the payee, and returns its transaction.
func (b *buyer) awaitTransfer() (transaction string) {
	b.w.t.Helper()
	eventually(b.w.t, func() (bool, string) {
		all := b.w.transfersFrom(b.address)
		if len(all) != 1 {
			return false, fmt.Sprint(all)
		}
		transaction = all[0].transaction
		return true, ""
	})
	return transaction
}

// provePayment names the transaction that paid an order, as the operator.
func (w *world) provePayment(order, transaction, key string) answer {
	w.t.Helper()
	body := fmt.Sprintf(`{"transaction":%q,"reason":"the node's logs are gone"}`, transaction)
	return w.operatorCall("POST", "/api/admin/orders/"+order+"/payment", body, key)
}
