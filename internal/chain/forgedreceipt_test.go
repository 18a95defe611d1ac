package chain_test

import (
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/roamcard/roamcard/internal/payment"
)

// receiptAt makes up, of whatever transaction, that a block which there is holds it, and that it cost very much.
func receiptAt(block shownBlock, status int) func(question) string {
	return func(q question) string {
		if q.Method != "eth_getTransactionReceipt" {
			return ""
		}
		return fmt.Sprintf(`"result":{"transactionHash":%s,"status":"0x%x","blockNumber":%q,"blockHash":%q,`+
			`"gasUsed":"0xffffffffffffffff","effectiveGasPrice":"0xffffffffffffffff","logs":[]}`,
			q.Params[0], status, block.Number.String(), block.Hash)
	}
}

// without is a node's answer that there is no such receipt.
func without(q question) string {
	if q.Method == "eth_getTransactionReceipt" {
		return `"result":null`
	}
	return ""
}

// TestForgedReceiptKeepsAttemptOpen lets one node invent the receipt of a transaction in flight. The attempt stays
// open at no cost, the same bytes settle the payment, and the honest nodes close it.
func TestForgedReceiptKeepsAttemptOpen(t *testing.T) {
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	for name, c := range map[string]struct {
		status int
		nodes  func(b *bench, liar string) []string
		closes bool
	}{
		"of two, first":            {0, func(b *bench, liar string) []string { return []string{liar, b.url} }, false},
		"of two, second":           {0, func(b *bench, liar string) []string { return []string{b.url, liar} }, false},
		"of two, the other silent": {0, func(_ *bench, liar string) []string { return []string{liar, dead.URL} }, false},
		"of three, first":          {0, func(b *bench, liar string) []string { return []string{liar, b.url, b.url} }, true},
		"of three, last":           {0, func(b *bench, liar string) []string { return []string{b.url, b.url, liar} }, true},
		"success, of two":          {1, func(b *bench, liar string) []string { return []string{liar, b.url} }, false},
		"success, of three":        {1, func(b *bench, liar string) []string { return []string{b.url, liar, b.url} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.mine(5)
			p, honest := b.claim(buyer(0)), b.chain
			b.control("evm_setAutomine", false)
			b.submit(p)
			liar := b.lying(receiptAt(b.header("safe"), c.status))
			b.chain = b.over(c.nodes(b, liar)...)
			b.relayer = b.newRelayer(b.attempts)
			for range 3 {
				b.submit(p)
				b.maintain()
			}
			b.wantAttempts(p, payment.TransactionOpen)
			if lost, err := b.attempts.Lost(t.Context(), p, time.Time{}); err != nil || lost != (payment.Losses{}) {
				t.Errorf("losses %+v, %v, and nothing is included", lost, err)
			}
			b.mine(1)
			b.chain = honest
			b.settles(p)
			b.mine(2)
			b.maintain()
			want := payment.TransactionOpen
			if c.closes {
				want = payment.TransactionClosed
			}
			b.wantAttempts(p, want)
		})
	}
}

// TestRevertNeedsTwoNodes shows a reverted transaction. Two nodes that show it close the attempt, whatever a third one
// shows; with one alone it stays open.
func TestRevertNeedsTwoNodes(t *testing.T) {
	denies := func(*bench) func(question) string { return without }
	succeeds := func(b *bench) func(question) string { return receiptAt(b.header("safe"), 1) }
	dear := func(b *bench) func(question) string { return b.dear }
	for name, c := range map[string]struct {
		lie    func(*bench) func(question) string
		others int
		want   payment.TransactionStatus
	}{
		"one of three denies it":       {denies, 2, payment.TransactionReverted},
		"one of three shows a success": {succeeds, 2, payment.TransactionReverted},
		"one of three makes it dear":   {dear, 2, payment.TransactionReverted},
		"one of two denies it":         {denies, 1, payment.TransactionOpen},
		"one of two makes it dear":     {dear, 1, payment.TransactionReverted},
		"the only one makes it dear":   {dear, 0, payment.TransactionReverted},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.mine(5)
			nodes := []string{b.lying(c.lie(b))}
			for range c.others {
				nodes = append(nodes, b.url)
			}
			b.chain = b.over(nodes...)
			b.relayer = b.newRelayer(b.attempts)
			p := b.claim(buyer(1))
			b.reverts(b.relayer, p, buyer(1))
			tx := decode(t, b.wantAttempts(p, c.want)[0].Variants[0])
			lost, err := b.attempts.Lost(t.Context(), p, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			most := new(big.Int).Mul(tx.GasFeeCap(), new(big.Int).SetUint64(tx.Gas())).Int64()
			if reverted := c.want == payment.TransactionReverted; lost.All > most || lost.All > 0 != reverted {
				t.Errorf("it cost %d wei, and %d is the most that can be", lost.All, most)
			}
		})
	}
}

// dear shows the true receipts, of transactions that cost more than there is.
func (b *bench) dear(q question) string {
	if q.Method != "eth_getTransactionReceipt" {
		return ""
	}
	var found *struct {
		BlockHash           string
		BlockNumber, Status hexutil.Uint64
	}
	if err := b.node.CallContext(b.Context(), &found, q.Method, q.Params[0]); err != nil || found == nil {
		return ""
	}
	return receiptAt(shownBlock{Number: found.BlockNumber, Hash: found.BlockHash}, int(found.Status))(q)
}

// TestReceiptErrorIsNotAnAnswer lets one node answer every receipt call with an error. The other nodes are asked, so a
// payment in flight is sent again, and its attempt is closed.
func TestReceiptErrorIsNotAnAnswer(t *testing.T) {
	for name, place := range map[string]int{"preferred": 0, "second": 1, "last": 2} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			nodes := []string{b.url, b.url, b.url}
			nodes[place] = b.lying(func(q question) string {
				if q.Method == "eth_getTransactionReceipt" {
					return `"error":{"code":-32000,"message":"leveldb: closed"}`
				}
				return ""
			})
			b.chain = b.over(nodes...)
			b.relayer = b.newRelayer(b.attempts)
			p := b.claim(buyer(0))
			b.control("evm_setAutomine", false)
			b.submit(p)
			b.control("anvil_dropAllTransactions")
			b.submit(p)
			b.maintain()
			b.mine(1)
			b.settles(p)
			b.mine(2)
			b.maintain()
			b.wantAttempts(p, payment.TransactionClosed)
		})
	}
}
