package chain_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/reconcile"
)

// TestTransfersNeedTwoNodes lets one of two nodes be silent, or return no logs. The other one might hide a transfer,
// so the payee's transfers are read only when both answer, unless one node is enough for small payments.
func TestTransfersNeedTwoNodes(t *testing.T) {
	b := newBench(t)
	paid := b.claim(buyer(0))
	b.submit(paid)
	b.settles(paid)
	b.mine(3)
	payer, head := paid.Authorization.From, uint64(b.header("latest").Number)
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	closed := b.answersTo("eth_getLogs", `"error":{"code":-32000,"message":"leveldb: closed"}`)
	otherwise := b.lying(func(q question) string {
		if q.Method == "eth_getLogs" {
			return `"result":[` + b.unrelated() + `]`
		}
		return ""
	})
	readings := func(c *chain.Chain) map[string]error {
		all, err1 := c.Transfers(t.Context(), b.payee, 0, head)
		one, err2 := c.TransfersFrom(t.Context(), payer, b.payee, 0, head)
		sent, err3 := c.Payouts(t.Context(), payer, 0, head)
		for _, n := range []int{len(all), len(one), len(sent)} {
			if n > 1 {
				t.Errorf("%d transfers", n)
			}
		}
		return map[string]error{"the payee's": err1, "one payer's": err2, "what one has sent": err3}
	}
	for name, nodes := range map[string][]string{
		"silent": {dead.URL, b.url}, "the second is silent": {b.url, dead.URL}, "no logs": {closed, b.url},
		"other logs": {otherwise, b.url}, "two of three": {closed, b.url, dead.URL},
	} {
		t.Run(name, func(t *testing.T) {
			for what, err := range readings(b.over(nodes...)) {
				if !errors.Is(err, reconcile.ErrUnwitnessed) {
					t.Errorf("%s: %v", what, err)
				}
			}
			for what, err := range readings(b.from(1, nodes...)) {
				if err != nil {
					t.Errorf("%s, one node is enough for small payments: %v", what, err)
				}
			}
		})
	}
	c := b.over(b.url, dead.URL)
	for what, ask := range map[string]func() error{
		"head":  func() error { _, err := c.Head(t.Context()); return err },
		"safe":  func() error { _, err := c.Safe(t.Context()); return err },
		"block": func() error { _, _, err := c.Block(t.Context(), head); return err },
	} {
		if err := ask(); !errors.Is(err, reconcile.ErrUnwitnessed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := c.Ready(t.Context(), 0); err == nil {
		t.Error("ready with one of two nodes")
	}
}

// unrelated is an event of the token that nobody has asked for.
func (b *bench) unrelated() string {
	block := b.header("latest")
	return fmt.Sprintf(`{"address":%q,"topics":["0x%064x"],"data":"0x","blockNumber":%q,"blockHash":%q,`+
		`"transactionHash":%q,"logIndex":"0x9"}`, token.Hex(), 7, block.Number.String(), block.Hash, block.Hash)
}

// TestTransfersReadBlockThatOneNodeRefuses lets one of two nodes refuse every log query for its size. Of a single
// block the answer of the other node counts.
func TestTransfersReadBlockThatOneNodeRefuses(t *testing.T) {
	b := newBench(t)
	paid := b.claim(buyer(0))
	b.submit(paid)
	r := b.settles(paid)
	b.mine(3)
	refuses := b.answersTo("eth_getLogs", `"error":{"code":-32005,"message":"query returned more than 10000 results"}`)
	for name, nodes := range map[string][]string{"first": {refuses, b.url}, "second": {b.url, refuses}} {
		c := b.over(nodes...)
		found, err := c.Transfers(t.Context(), b.payee, r.Block, r.Block)
		if err != nil || len(found) != 1 || found[0].Transaction != r.Transaction {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
		if found, err := c.Transfers(t.Context(), b.payee, 0, r.Block); err == nil {
			t.Errorf("%s, many blocks: %+v", name, found)
		}
	}
}

// TestHeadNeedsTwoNodes lets a node show an old block as the latest and safe one, with a current time, or invent one.
// Transfers that are read up to it would be incomplete.
func TestHeadNeedsTwoNodes(t *testing.T) {
	b := newBench(t)
	b.mine(10)
	old := b.header("latest").Number
	for range 10 {
		b.pass(12)
	}
	real := b.header("latest").Number
	naming := func(number hexutil.Uint64) string {
		return b.lying(func(q question) string {
			if q.Method != "eth_getBlockByNumber" {
				return ""
			}
			if !q.has("latest") && !q.has("safe") {
				var asked hexutil.Uint64
				if err := json.Unmarshal(q.Params[0], &asked); err != nil || asked > number {
					return `"result":null`
				}
				return ""
			}
			return madeUpBlock(number, hexutil.Uint64(b.now().Unix()))
		})
	}
	for name, liar := range map[string]string{"old": naming(old), "made up": naming(real + 1000)} {
		for place := range 3 {
			nodes := []string{b.url, b.url, b.url}
			nodes[place] = liar
			c := b.over(nodes...)
			if head, err := c.Head(t.Context()); err != nil || head != uint64(real) {
				t.Errorf("%s, node %d of 3: head %d, %v, want %d", name, place+1, head, err, real)
			}
			if safe, err := c.Safe(t.Context()); err != nil || safe > uint64(real) || safe <= uint64(old) {
				t.Errorf("%s, node %d of 3: safe block %d, %v", name, place+1, safe, err)
			}
		}
		for place := range 2 {
			nodes := []string{b.url, b.url}
			nodes[place] = liar
			c := b.over(nodes...)
			if head, err := c.Head(t.Context()); !errors.Is(err, reconcile.ErrUnwitnessed) && head != uint64(real) {
				t.Errorf("%s, node %d of 2: head %d, %v", name, place+1, head, err)
			}
			if safe, err := c.Safe(t.Context()); err != nil || safe > uint64(real) {
				t.Errorf("%s, node %d of 2: safe block %d, %v", name, place+1, safe, err)
			}
		}
	}
	if head, err := b.over(b.url, b.url).Head(t.Context()); err != nil || head != uint64(real) {
		t.Errorf("head %d, %v, want %d", head, err, real)
	}
}

// TestHeadToleratesNodeSlightlyBehind reads the newest block that two nodes have.
func TestHeadToleratesNodeSlightlyBehind(t *testing.T) {
	b := newBench(t)
	b.mine(5)
	before := b.header("latest")
	behind, _ := b.frozen()
	b.pass(2)
	for name, nodes := range map[string][]string{"first": {behind, b.url}, "second": {b.url, behind}} {
		if head, err := b.over(nodes...).Head(t.Context()); err != nil || head != uint64(before.Number) {
			t.Errorf("%s: head %d, %v, want %d", name, head, err, before.Number)
		}
	}
}

// TestBlockNeedsTwoNodes lets one node invent the hash of a block.
func TestBlockNeedsTwoNodes(t *testing.T) {
	b := newBench(t)
	b.mine(3)
	block := b.header("latest")
	liar := b.lying(func(q question) string {
		if q.Method != "eth_getBlockByNumber" {
			return ""
		}
		return madeUpBlock(block.Number, block.Timestamp)
	})
	hash, _, err := b.over(liar, b.url).Block(t.Context(), uint64(block.Number))
	if !errors.Is(err, reconcile.ErrUnwitnessed) {
		t.Errorf("of two: %s, %v", hash, err)
	}
	hash, _, err = b.over(liar, b.url, b.url).Block(t.Context(), uint64(block.Number))
	if err != nil || hash.String() != block.Hash {
		t.Errorf("of three: %s, %v, want %s", hash, err, block.Hash)
	}
}

// madeUpBlock is a node's answer: a block that there is not.
func madeUpBlock(number, timestamp hexutil.Uint64) string {
	const block = `"result":{"number":%q,"hash":"0x%064x","timestamp":%q,"baseFeePerGas":"0x1"}`
	return fmt.Sprintf(block, number, 0xbad, timestamp)
}
