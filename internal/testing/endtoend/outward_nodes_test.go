package endtoend_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/x402"
)

// newNodeWorld makes several proxies in front of the shared chain, and a world that knows only them.
func newNodeWorld(t *testing.T, n int, change func(*app.Config)) (*world, []*nodeProxy) {
	t.Helper()
	proxies, urls := make([]*nodeProxy, n), make([]string, n)
	for i := range proxies {
		proxies[i] = newNodeProxy(t, sharedChain(t).RPCURL)
		urls[i] = proxies[i].url
	}
	w := newWorld(t, plan{change: func(c *app.Config) {
		c.RPCURLs = urls
		if change != nil {
			change(c)
		}
	}})
	return w, proxies
}

// newProxyWorld is newNodeWorld with one node.
func newProxyWorld(t *testing.T, change func(*app.Config)) (*world, *nodeProxy) {
	t.Helper()
	w, proxies := newNodeWorld(t, 1, change)
	return w, proxies[0]
}

// TestPurchaseSurvivesLaggingNode lets one of three nodes be behind the others, by a little and by more than is borne.
func TestPurchaseSurvivesLaggingNode(t *testing.T) {
	onlyTorture(t, "chain TestHeadToleratesNodeSlightlyBehind, TestStuckNodeMakesNoOtherLookWrong and simulated nodes")
	t.Parallel()
	for _, lag := range []uint64{1, 4, 15} {
		for at := range 3 {
			t.Run(fmt.Sprint(lag, " blocks, node ", at), func(t *testing.T) {
				t.Parallel()
				w, nodes := newNodeWorld(t, 3, nil)
				b := w.buyer()
				w.awaitBlock(w.blockNumber() + lag + 1) // the node has heard of the buyer's money
				nodes[at].inject(nodeFault{method: "*", mode: behind, lag: lag})
				b.wantSold("lag")
				b.wantPaidOnce("")
				a := w.send(get("/ready"))
				wantStatus(t, "ready", a, http.StatusOK)
				nodes[at].clearFaults()
				w.checkBooks()
				w.wantAllDelivered()
			})
		}
	}
}

func (w *world) awaitBlock(n uint64) {
	w.t.Helper()
	eventually(w.t, func() (bool, string) {
		now := w.blockNumber()
		return now >= n, fmt.Sprint("block ", now, " of ", n)
	})
}

// contradictions are answers of one node that the others do not give.
var contradictions = map[string][]nodeFault{
	"no receipt":              {{method: "eth_getTransactionReceipt", mode: answerNull}},
	"no logs":                 {{method: "eth_getLogs", mode: answerEmpty}},
	"no use in the logs":      {{method: "eth_getLogs", mode: answerEmpty, only: asksForUse}},
	"no transfer in the logs": {{method: "eth_getLogs", mode: answerEmpty, only: asksForTransfer}},
	"logs of another payment": {{method: "eth_getLogs", mode: answerOther}},
	"takes and drops":         {{method: "eth_sendRawTransaction", mode: acceptAndDrop}},
	"old nonces":              {{method: "eth_getTransactionCount", mode: answerOld}},
}

// TestPurchaseSurvivesContradictingNode lets one of three nodes tell something else than the others, for the whole
// of a purchase: the order settles with one transfer, and nobody is asked to pay twice.
func TestPurchaseSurvivesContradictingNode(t *testing.T) {
	onlyTorture(t, "chain TestVerdictSettlesByTwoNodesAgainstOne, TestVerdictAsksOtherNodesForMissingLogs and "+
		"TestMissingReceiptDoesNotEndTransaction")
	t.Parallel()
	for name, faults := range contradictions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, nodes := newNodeWorld(t, 3, nil)
			buyers := w.buyers(4)
			if _, err := buyers[0].buyRetrying("before"); err != nil { // whose answers are the old ones
				t.Fatal(err)
			}
			for at, node := range nodes {
				for _, f := range faults {
					node.inject(f)
				}
				b := buyers[1+at]
				b.wantSold(fmt.Sprint("node ", at))
				b.wantPaidOnce(fmt.Sprintf("node %d", at))
				w.awaitSettled()
				node.clearFaults()
			}
			w.checkBooks()
			w.wantAllDelivered()
		})
	}
}

// TestNoSingleNodeVoidsPayment: the first node says to the end that the authorization is unused. When its time is
// over the others show the transfer; a 402 would make the buyer pay again.
func TestNoSingleNodeVoidsPayment(t *testing.T) {
	onlyTorture(t, "chain TestVerdictNeedsTwoNodesToVoid")
	t.Parallel()
	w, nodes := newNodeWorld(t, 3, func(c *app.Config) { c.Wait = 2 * time.Second })
	b := w.buyer()
	payment := header(t, b.payment(func(p *x402.Payment) { p.Authorization.ValidBefore = uint64(time.Now().Unix()) + 22 }))
	const authorizationState = "e94a0102"
	nodes[0].inject(nodeFault{method: "eth_call", mode: denyUse, only: authorizationState})
	b.wantRetrySold("denied", payment)
	b.wantPaidOnce("")
	nodes[0].clearFaults()
	w.checkBooks()
	w.wantAllDelivered()
}

// TestInventedReceiptDelaysNothing: both nodes lose the transaction, and one shows a receipt of a block that
// the chain does not have. The same bytes go out again.
func TestInventedReceiptDelaysNothing(t *testing.T) {
	onlyTorture(t, "chain TestForgedReceiptKeepsAttemptOpen")
	t.Parallel()
	w, nodes := newNodeWorld(t, 2, nil)
	b := w.buyer()
	for _, node := range nodes {
		node.inject(nodeFault{method: "eth_sendRawTransaction", mode: acceptAndDrop, times: 1})
	}
	nodes[0].inject(nodeFault{method: "eth_getTransactionReceipt", mode: inventBlock})
	b.wantSold("invented")
	b.wantPaidOnce("")
	nodes[0].clearFaults()
	w.checkBooks()
	w.wantAllDelivered()
}

// TestPurchaseSurvivesNodeFailureInFlight: the first node takes the transaction and is gone, before it answers or
// after; later the second is gone, too, and the first is back.
func TestPurchaseSurvivesNodeFailureInFlight(t *testing.T) {
	t.Parallel()
	onlyTorture(t, "chain TestRelayerResendsDroppedTransactionWhileNodeIsDown, and nodes that fail in "+
		"testing/simulation TestSeeds")
	for _, mode := range []nodeMode{hangUp, hangUpAfter, status500, answerJunk} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w, nodes := newNodeWorld(t, 2, nil)
			for at := range nodes {
				first, second := nodes[at], nodes[1-at]
				b := w.buyer()
				first.inject(nodeFault{method: "eth_sendRawTransaction", mode: mode, times: 1, before: func() {
					first.inject(nodeFault{method: "*", mode: mode})
					second.inject(nodeFault{method: "eth_getLogs", mode: hangUp, times: 2, before: first.clearFaults})
				}})
				b.wantSold(fmt.Sprint("in flight ", at))
				b.wantPaidOnce(fmt.Sprintf("node %d", at))
				first.clearFaults()
				second.clearFaults()
			}
			w.checkBooks()
			w.wantAllDelivered()
		})
	}
}

// TestNodeOfAnotherChainIsIgnored: an address may lead elsewhere after an outage.
func TestNodeOfAnotherChainIsIgnored(t *testing.T) {
	onlyTorture(t, "chain TestPoolChecksChainIDAgainAfterFailure and TestPoolRefusesNodeOfAnotherChain")
	t.Parallel()
	w, nodes := newNodeWorld(t, 3, nil)
	b := w.buyer()
	nodes[0].inject(nodeFault{method: "eth_getBlockByNumber", mode: hangUp, times: 1, before: func() {
		nodes[0].inject(nodeFault{method: "eth_chainId", mode: otherChain})
		nodes[0].inject(nodeFault{method: "*", mode: answerJunk})
	}})
	b.wantSold("elsewhere")
	after := nodes[0].callCounts()
	if after["eth_chainId"] < 2 {
		t.Errorf("the chain was asked for its id %d times, want again after the outage", after["eth_chainId"])
	}
	w.buyer().wantSold("elsewhere still")
	if now := nodes[0].callCounts(); now["eth_sendRawTransaction"] != after["eth_sendRawTransaction"] {
		t.Error("a transaction was sent to another chain")
	}
	nodes[0].clearFaults()
	w.checkBooks()
	w.wantAllDelivered()
}
