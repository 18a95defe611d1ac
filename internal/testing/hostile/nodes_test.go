package hostile_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// tell makes the proxy lie until the returned function is called.
func (p *proxy) tell(l lie) (recant func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lies = []lie{l}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.lies = nil
	}
}

// nodes are attacks by the first of three nodes, and by what the chain's token does to us.
func nodes() []attack {
	return []attack{
		{
			name: "forged-logs", ref: "A24, I5", by: node, do: forgesLogs,
			aim:     "goods for a payment that one node invents",
			defence: "where there are several nodes, a second one has to show the same log before delivery and before finality",
		},
		{
			name: "huge-account-nonce", by: node, do: countsTooFar,
			aim:     "the relayer signs transactions that can never be mined, and settles nothing any more",
			defence: "a nonce that only one node tells, far from our own books, is not used",
		},
		{
			name: "node-that-lags", by: node, do: lags,
			held:    "chain TestVerdictAsksOtherNodesForMissingLogs",
			aim:     "payments are not seen, and buyers pay again",
			defence: "each question goes to the other nodes before anything is said of what was not found",
		},
		{
			name: "node-that-hangs", by: node, do: hangs,
			held:    "chain TestHangingNodeIsNotWaitedFor",
			aim:     "every look at the chain takes as long as a timeout",
			defence: "a node that does not answer is asked last",
		},
		{
			name: "transactions-swallowed", by: node, do: swallows,
			held:    "chain TestBroadcastSendsToEveryNode",
			aim:     "payments are taken and never settle",
			defence: "transactions are sent to every node",
		},
		{
			name: "token-paused", by: provider, do: pausesTheToken,
			held:    "chain TestUsableNamesTokenIssuer",
			aim:     "buyers sign payments that cannot settle, which reserve what is scarce",
			defence: "readiness reads the token's state: nobody is invited to pay, nothing is claimed",
		},
		{
			name: "our-payee-blacklisted", by: provider, do: blacklistsUs,
			held:    "chain TestUsableNamesTokenIssuer",
			aim:     "the same",
			defence: "the same",
		},
	}
}

// TestHostileNodes attacks a program that asks three nodes, the first of which is the attacker's.
func TestHostileNodes(t *testing.T) {
	w := newWorld(t)
	w.others = []*proxy{w.newProxy(), w.newProxy()}
	w.start("CHAIN__RPC_URL", strings.Join([]string{w.proxy.url, w.others[0].url, w.others[1].url}, ","))
	mount(t, w, nodes())
	t.Run("the-books-hold-after-all-of-it", func(t *testing.T) { w.audit(t) })
}

func text(v any) json.RawMessage {
	b, _ := json.Marshal(v) // what is given here always marshals
	return b
}

// forgesLogs lets the payer and the first node agree on a payment that never happened: the money is gone before our
// transaction, and the node shows the logs that it would have made.
func forgesLogs(r *trial) {
	const transfer, used = "Transfer(address,address,uint256)", "AuthorizationUsed(address,bytes32)"
	before := r.goods()
	p := r.wallet(100)
	body := keyed(uuid.NewString())
	m := p.pays(r, p.terms(r, esimPath, body), brief)
	payer, nonce := hex.EncodeToString(p.address[:]), hex.EncodeToString(m.Nonce[:])
	var at struct{ Number, Hash string }
	var mu sync.Mutex
	invented := "0x" + strings.Repeat("ab", 32)
	log := func(index int, event string, data []byte, topics ...[]byte) map[string]any {
		words := []string{"0x" + hex.EncodeToString(keccak(event))}
		for _, topic := range topics {
			words = append(words, "0x"+hex.EncodeToString(common.LeftPadBytes(topic, 32)))
		}
		return map[string]any{
			"address": r.world.books.USDC, "topics": words, "data": "0x" + hex.EncodeToString(data), "blockNumber": at.Number,
			"blockHash":       at.Hash,
			"transactionHash": invented, "transactionIndex": "0x0", "logIndex": fmt.Sprintf("0x%x", index), "removed": false,
		}
	}
	logs := func() []any {
		mu.Lock()
		defer mu.Unlock()
		if at.Hash == "" {
			return nil
		}
		return []any{log(0, used, nil, p.address[:], m.Nonce[:]),
			log(1, transfer, word(m.Value), p.address[:], common.FromHex(r.world.books.PayTo))}
	}
	recant := r.proxy.tell(func(c nodeCall, forward func() json.RawMessage) (any, bool) {
		mu.Lock()
		begun := at.Hash != ""
		mu.Unlock()
		asked := bytes.ToLower(text(c.Params))
		switch {
		case !begun:
			return nil, false
		case c.Method == "eth_call" && bytes.Contains(asked, []byte(nonce)) &&
			bytes.Contains(asked, []byte(hex.EncodeToString(selector("authorizationState(address,bytes32)")))):
			return "0x" + hex.EncodeToString(word(big.NewInt(1))), true
		case c.Method == "eth_getLogs" && bytes.Contains(asked, []byte("blockhash")) && bytes.Contains(asked, []byte(payer)):
			return logs()[1:], true
		case c.Method == "eth_getLogs" && bytes.Contains(asked, []byte(nonce)):
			return logs()[:1], true
		case c.Method == "eth_getTransactionReceipt":
			var receipt map[string]any
			if json.Unmarshal(forward(), &receipt) != nil || receipt == nil {
				return nil, false
			}
			receipt["status"], receipt["logs"] = "0x1", logs()
			return receipt, true
		}
		return nil, false
	})
	defer recant()
	// The money leaves in the moment before either node gets our transaction.
	left := make(chan struct{})
	gone := sync.OnceFunc(func() {
		defer close(left)
		p.funds(0)
		mu.Lock()
		defer mu.Unlock()
		r.rpc(&at, "eth_getBlockByNumber", "latest", false)
	})
	for _, n := range append(slices.Clone(r.others), r.proxy) {
		n.once("eth_sendRawTransaction", payer, gone)
	}
	ctx, cancel := context.WithCancel(apptest.Context(r))
	defer cancel()
	go func() {
		select {
		case <-left:
			time.Sleep(6 * time.Second) // clock: so long it may believe the node; more time shows no less
			cancel()
		case <-ctx.Done():
		}
	}()
	if a := p.offers(ctx, esimPath, body, m.header(r)); a.status == http.StatusOK {
		r.Errorf("a payment that one node invented: %.300s", a.body)
	}
	mu.Lock()
	sent := at.Hash != ""
	mu.Unlock()
	if !sent {
		r.Fatal("the payment was not sent")
	}
	if now := r.goods(); now != before {
		r.Errorf("the providers made %+v, and had %+v", now, before)
	}
}

// lying serves honest buyers while the first node lies, and then lets one more buy.
func (r *trial) lying(l lie) {
	r.Helper()
	p := r.wallet(100)
	r.besiege(func(ctx context.Context) {
		defer r.proxy.tell(l)()
		<-ctx.Done()
	})
	defer r.proxy.tell(l)()
	p.buys(r, esimPath)
	r.exactly(p, 1)
}

func countsTooFar(r *trial) {
	r.lying(func(c nodeCall, _ func() json.RawMessage) (any, bool) {
		return "0xffffff", c.Method == "eth_getTransactionCount"
	})
}

func lags(r *trial) {
	var head struct{ Number string }
	r.rpc(&head, "eth_getBlockByNumber", "latest", false)
	r.lying(func(c nodeCall, _ func() json.RawMessage) (any, bool) {
		switch c.Method {
		case "eth_blockNumber":
			return head.Number, true
		case "eth_getLogs":
			return []any{}, true
		case "eth_getTransactionReceipt":
			return nil, true
		case "eth_getBlockByNumber":
			if len(c.Params) == 2 && string(c.Params[0]) == `"latest"` {
				var block any
				r.rpc(&block, "eth_getBlockByNumber", head.Number, false)
				return block, true
			}
		}
		return nil, false
	})
}

func hangs(r *trial) {
	r.lying(func(nodeCall, func() json.RawMessage) (any, bool) {
		time.Sleep(3 * time.Second) // clock: what this torture is about
		return nil, false
	})
}

func swallows(r *trial) {
	r.lying(func(c nodeCall, _ func() json.RawMessage) (any, bool) {
		return "0x" + strings.Repeat("cd", 32), c.Method == "eth_sendRawTransaction"
	})
}

// decree lets the token's administrator do something, and undoes it at the end.
func (r *trial) decree(does, undoes []byte) {
	r.Helper()
	admin := common.HexToAddress(devnet.WalletsOf(devnet.RoleAdmin)[0].Address)
	p := r.wallet(100)
	header := p.pays(r, p.terms(r, esimPath, keyed("k"))).header(r)
	if _, worked := r.transact(admin, r.world.books.USDC, does); !worked {
		r.Fatal("the token refused its administrator")
	}
	defer func() {
		r.transact(admin, r.world.books.USDC, undoes)
		r.ready(http.StatusOK)
		r.paysFor(esimPath, http.StatusPaymentRequired)
	}()
	r.ready(http.StatusServiceUnavailable)
	before := r.goods()
	if a := r.caller().send(r.Context(), http.MethodPost, esimPath,
		keyed("k")); a.status != http.StatusServiceUnavailable {
		r.Errorf("the terms: %d %.300s", a.status, a.body)
	}
	if a := p.offers(r.Context(), esimPath, keyed("k"), header); a.status != http.StatusServiceUnavailable &&
		a.status != http.StatusPaymentRequired {
		r.Errorf("a payment: %d %.300s", a.status, a.body)
	}
	r.nothing(before, p)
}

// ready waits for what the service says of itself.
func (r *trial) ready(status int) {
	r.Helper()
	r.await(fmt.Sprintf("/ready is %d", status), func() error {
		if a := r.caller().send(r.Context(), http.MethodGet, "/ready", nil); a.status != status {
			return fmt.Errorf("%d %.300s", a.status, a.body)
		}
		return nil
	})
}

func pausesTheToken(r *trial) { r.decree(selector("pause()"), selector("unpause()")) }

func blacklistsUs(r *trial) {
	payee := common.LeftPadBytes(common.FromHex(r.world.books.PayTo), 32)
	r.decree(append(selector("blacklist(address)"), payee...), append(selector("unBlacklist(address)"), payee...))
}
