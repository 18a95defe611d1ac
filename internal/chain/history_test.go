package chain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/x402"
)

// TestTransfersMergeAnswersOfNodes lets one node hide a payer's transfers, fail to read them, or invent some. A
// purchase repeated after data loss must find its transfer, and with three nodes nothing else.
func TestTransfersMergeAnswersOfNodes(t *testing.T) {
	b := newBench(t)
	paid := b.claim(buyer(0))
	b.submit(paid)
	r := b.settles(paid)
	b.mine(3)
	payer, head := paid.Authorization.From, uint64(b.header("latest").Number)
	want := []reconcile.Transfer{{
		Transaction: r.Transaction, LogIndex: r.LogIndex, Block: r.Block, From: payer, Value: price,
		Nonce: paid.Authorization.Nonce,
	}}
	logs := func(answer func(q question) string) func(question) string {
		return func(q question) string {
			if q.Method == "eth_getLogs" {
				return answer(q)
			}
			return ""
		}
	}
	member := func(text string) func(question) string { return logs(func(question) string { return text }) }
	event := func(data string, topics ...x402.Hash) string {
		return fmt.Sprintf(`"result":[{"address":%q,"topics":[%s],"data":%q,"blockNumber":"0x%x","blockHash":%q,`+
			`"transactionHash":"0x%064x","logIndex":"0x2"}]`,
			token.Hex(), `"`+strings.Join([]string{topics[0].String(), topics[1].String(), topics[2].String()}, `","`)+`"`, data,
			r.Block, r.BlockHash, 0xf0)
	}
	invents := logs(func(q question) string {
		if q.has(x402.TopicUsed.String()) {
			return `"result":[]`
		}
		return event(fmt.Sprintf("0x%064x", price.Big()), x402.TopicTransfer, payer.Word(), b.payee.Word())
	})
	for name, lie := range map[string]func(question) string{
		"hides": member(`"result":[]`), "fails": member(`"error":{"code":-32000,"message":"leveldb: closed"}`),
		"invents":       invents,
		"says too much": member(`"error":{"code":-32005,"message":"query returned more than 10000 results"}`),
	} {
		for place := range 3 {
			nodes := []string{b.url, b.url, b.url}
			nodes[place] = b.lying(lie)
			b.showsHistory(fmt.Sprintf("%s, node %d of 3", name, place+1), want, payer, head, nodes...)
		}
	}
	hides := b.lying(member(`"result":[]`))
	b.showsHistory("hides, first of 2", want, payer, head, hides, b.url)
	b.showsHistory("hides, second of 2", want, payer, head, b.url, hides)
	// Of two, nobody can tell which is right: what either shows is looked into by the verdict on the payment.
	c := b.over(b.lying(invents), b.url)
	if got, err := c.TransfersFrom(t.Context(), payer, b.payee, 0, head); err != nil || len(got) != 2 {
		t.Errorf("invents, first of 2: %+v, %v", got, err)
	}
	// Different events at one place are one too many.
	other := b.lying(logs(func(q question) string {
		real := b.member("eth_getLogs", q.Params[0])
		return strings.ReplaceAll(real, paid.Authorization.Nonce.String(), x402.Hash{9}.String())
	}))
	if got, err := b.over(other, b.url).TransfersFrom(t.Context(), payer, b.payee, 0, head); err == nil {
		t.Errorf("two authorizations for one transfer: %+v", got)
	}
	b.showsHistory("another authorization, first of 3", want, payer, head, other, b.url, b.url)
}

// showsHistory checks all that a catch-up reads.
func (b *bench) showsHistory(name string, want []reconcile.Transfer, payer x402.Address, head uint64, nodes ...string) {
	b.Helper()
	c := b.over(nodes...)
	all, err := c.Transfers(b.Context(), b.payee, 0, head)
	if diff := cmp.Diff(want, all); err != nil || diff != "" {
		b.Errorf("%s: the payee's transfers: %v (-want +got):\n%s", name, err, diff)
	}
	one, err := c.TransfersFrom(b.Context(), payer, b.payee, 0, head)
	if diff := cmp.Diff(want, one); err != nil || diff != "" {
		b.Errorf("%s: one payer's: %v (-want +got):\n%s", name, err, diff)
	}
	sent, err := c.Payouts(b.Context(), payer, 0, head)
	if err != nil || len(sent) != 1 || sent[0].Transfer != want[0] {
		b.Errorf("%s: what one has sent: %+v, %v", name, sent, err)
	}
}
