package chain_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// question is one call of a node.
type question struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

func (q question) has(text string) bool {
	for _, p := range q.Params {
		if bytes.Contains(bytes.ToLower(p), bytes.ToLower([]byte(text))) {
			return true
		}
	}
	return false
}

// lying is a node before the bench's. What lie answers, a member "result" or "error", is its word; an empty one
// passes the call on.
func (b *bench) lying(lie func(question) string) string {
	b.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var q question
		if err != nil || json.Unmarshal(body, &q) != nil {
			b.Errorf("a call that cannot be read: %v", err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if member := lie(q); member != "" {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, q.ID, member)
			return
		}
		res, err := http.Post(b.url, "application/json", bytes.NewReader(body))
		if err != nil {
			return // the bench has ended
		}
		defer res.Body.Close()
		_, _ = io.Copy(w, res.Body) // the caller sees a cut answer
	}))
	b.Cleanup(server.Close)
	return server.URL
}

// answersTo is a node before the bench's that answers one method with a member, "result" or "error", of its own.
func (b *bench) answersTo(method, member string) string {
	b.Helper()
	return b.lying(func(q question) string {
		if q.Method == method {
			return member
		}
		return ""
	})
}

// over is the chain as these nodes show it, the first one preferred.
func (b *bench) over(urls ...string) *chain.Chain {
	b.Helper()
	return b.from(0, urls...)
}

// from is the same, where one node is enough below an amount.
func (b *bench) from(amount money.USDC, urls ...string) *chain.Chain {
	b.Helper()
	config := chain.Config{
		Domain: domain, Finality: chain.Finality{Paid: "latest", Dead: "safe"}, CallTimeout: 10 * time.Second, Now: b.now,
		WitnessFrom: amount,
	}
	for _, u := range urls {
		config.Endpoints = append(config.Endpoints, chain.Endpoint{URL: u})
	}
	c, err := chain.New(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

// shownBlock is a block as a node shows it.
type shownBlock struct {
	Number, Timestamp hexutil.Uint64
	Hash              string
}

// header reads a block by its tag or number.
func (b *bench) header(tag string) (block shownBlock) {
	b.Helper()
	if err := b.node.CallContext(b.Context(), &block, "eth_getBlockByNumber", tag, false); err != nil {
		b.Fatal(err)
	}
	return block
}

const authorizationState = "e94a0102"

// forging makes up the two events of a payment that was never made, in a block that there is.
func (b *bench) forging(p payment.Payment, tag string) func(question) string {
	b.Helper()
	block := b.header(tag)
	number, hash := block.Number.String(), block.Hash
	a := p.Authorization
	event := func(index int, data string, topics ...x402.Hash) string {
		quoted := make([]string, len(topics))
		for i, t := range topics {
			quoted[i] = `"` + t.String() + `"`
		}
		return fmt.Sprintf(`{"address":%q,"topics":[%s],"data":%q,"blockNumber":%q,"blockHash":%q,`+
			`"transactionHash":"0x%064x","logIndex":"0x%x","removed":false}`,
			token.Hex(), strings.Join(quoted, ","), data, number, hash, 0xf0, index)
	}
	used := event(3, "0x", x402.TopicUsed, a.From.Word(), a.Nonce)
	moved := event(4, fmt.Sprintf("0x%064x", a.Value.Big()), x402.TopicTransfer, a.From.Word(), a.To.Word())
	return func(q question) string {
		switch {
		case q.Method == "eth_call" && q.has(authorizationState) && q.has(a.Nonce.String()[2:]):
			return `"result":"0x` + strings.Repeat("0", 63) + `1"`
		case q.Method == "eth_getLogs" && q.has("blockHash"):
			return `"result":[` + moved + `]`
		case q.Method == "eth_getLogs":
			return `"result":[` + used + `]`
		case q.Method == "eth_getTransactionReceipt":
			return fmt.Sprintf(`"result":{"status":"0x1","blockNumber":%q,"blockHash":%q,"logs":[%s,%s]}`, number, hash, used,
				moved)
		}
		return ""
	}
}

// state is what a chain says of a payment; an error says nothing.
func state(t *testing.T, c payment.Chain, p payment.Payment) payment.State {
	t.Helper()
	v, err := c.Verdict(t.Context(), p.Authorization, p.Since())
	if err != nil {
		t.Log(err)
		return payment.Unknown
	}
	return v.State
}

// TestVerdictNeedsTwoNodesToSettle lets a node invent both events of a payment that was never made. Neither at the
// paid nor at the final block it settles by that node alone, whether the other node contradicts it, is silent or lags
// behind.
func TestVerdictNeedsTwoNodesToSettle(t *testing.T) {
	b := newBench(t)
	b.mine(5)
	p := b.claim(buyer(0))
	liar := b.lying(b.forging(p, "safe"))
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	behind := b.lying(func(q question) string {
		if q.Method == "eth_getLogs" || q.Method == "eth_getBlockByHash" || q.has("blockHash") {
			return `"error":{"code":-32000,"message":"header not found"}`
		}
		return ""
	})
	for name, nodes := range map[string][]string{
		"preferred": {liar, b.url}, "second": {b.url, liar}, "the other is silent": {liar, dead.URL},
		"the other lags": {liar, behind},
		"one of three":   {liar, b.url, b.url}, "last of three": {b.url, b.url, liar},
	} {
		t.Run(name, func(t *testing.T) {
			c := b.over(nodes...)
			for range 9 { // each node is asked first some time
				if got := state(t, c, p); got == payment.Settled || got == payment.Void {
					t.Fatalf("at the paid block: state %d", got)
				}
				if got := state(t, c.Final(), p); got == payment.Settled || got == payment.Void {
					t.Fatalf("at the final block: state %d", got)
				}
			}
		})
	}
}

// TestVerdictSettlesByTwoNodesAgainstOne lets one of three nodes lie in every way. The payment settles.
func TestVerdictSettlesByTwoNodesAgainstOne(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	forged := b.forging(p, "latest")
	b.submit(p)
	b.settles(p)
	b.mine(3)
	unused := func(q question) string {
		if q.Method == "eth_call" && q.has(authorizationState) {
			return `"result":"0x` + strings.Repeat("0", 64) + `"`
		}
		return ""
	}
	blind := func(q question) string {
		if q.Method == "eth_getLogs" {
			return `"result":[]`
		}
		return ""
	}
	for name, lie := range map[string]func(question) string{"forges": forged, "denies the use": unused,
		"hides the logs": blind} {
		t.Run(name, func(t *testing.T) {
			c := b.over(b.lying(lie), b.url, b.url)
			b.eventually("the payment is proven", func() bool { return state(t, c, p) == payment.Settled })
			b.eventually("the payment is final", func() bool { return state(t, c.Final(), p) == payment.Settled })
		})
		t.Run(name+", with one other", func(t *testing.T) {
			c := b.over(b.lying(lie), b.url)
			for range 9 {
				if got := state(t, c, p); got == payment.Settled || got == payment.Void {
					t.Fatalf("state %d, want undecided", got)
				}
			}
		})
	}
}

// cancelling makes up that the payer has cancelled a payment, in a block that there is.
func (b *bench) cancelling(p payment.Payment, tag string) func(question) string {
	b.Helper()
	block := b.header(tag)
	number, hash := block.Number.String(), block.Hash
	a := p.Authorization
	return func(q question) string {
		switch {
		case q.Method == "eth_call" && q.has(authorizationState):
			return `"result":"0x` + strings.Repeat("0", 63) + `1"`
		case q.Method == "eth_getLogs":
			return fmt.Sprintf(`"result":[{"address":%q,"topics":[%q,%q,%q],"data":"0x","blockNumber":%q,"blockHash":%q,`+
				`"transactionHash":%q,"logIndex":"0x1"}]`,
				token.Hex(), x402.TopicCanceled, a.From.Word(), a.Nonce, number, hash, hash)
		}
		return ""
	}
}

// member is the bench's own answer.
func (b *bench) member(method string, args ...any) string {
	var raw json.RawMessage
	if err := b.node.CallContext(b.Context(), &raw, method, args...); err != nil {
		return `"error":{"code":-32603,"message":"internal error"}`
	}
	return `"result":` + string(raw)
}

// TestVerdictNeedsTwoNodesToVoid lets one node invent a cancellation, which would have the buyer pay twice, also while
// the other node is silent.
func TestVerdictNeedsTwoNodesToVoid(t *testing.T) {
	b := newBench(t)
	b.mine(5)
	p := b.claim(buyer(0))
	liar := b.lying(b.cancelling(p, "safe"))
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	for name, nodes := range map[string][]string{"contradicted": {liar, b.url}, "alone": {liar, dead.URL},
		"of three": {liar, b.url, b.url}} {
		t.Run(name, func(t *testing.T) {
			c := b.over(nodes...)
			for range 9 {
				if got := state(t, c, p); got == payment.Void {
					t.Fatal("the payment is void on the word of one node")
				}
			}
		})
	}
}

// prunes answers as a node does that keeps neither old states nor old logs.
func prunes(q question) string {
	switch {
	case q.Method == "eth_getLogs":
		return `"error":{"code":4444,"message":"pruned history unavailable"}`
	case q.Method == "eth_call" && q.has("blockHash"):
		return `"error":{"code":-32000,"message":"historical state 0xabc is not available"}`
	}
	return ""
}

// TestVerdictPassesOverPrunedNode prefers a node that has pruned old blocks. The other nodes answer for those, and it
// stays preferred for the rest.
func TestVerdictPassesOverPrunedNode(t *testing.T) {
	b := newBench(t)
	var heads atomic.Int64
	pruned := b.lying(func(q question) string {
		if q.Method == "eth_getBlockByNumber" {
			heads.Add(1)
		}
		return prunes(q)
	})
	p := b.claim(buyer(0))
	b.submit(p)
	b.settles(p)
	c := b.over(pruned, b.url, b.url)
	for range 5 {
		if got := state(t, c, p); got != payment.Settled {
			t.Fatalf("state %d, want settled", got)
		}
	}
	before := heads.Load()
	if err := c.Ready(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if heads.Load() == before {
		t.Error("the pruned node is not asked for what it has")
	}
	if got := state(t, b.over(pruned, b.url), p); got != payment.Unknown {
		t.Errorf("with one other: state %d, want undecided", got)
	}
}
