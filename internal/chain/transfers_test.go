package chain_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/x402"
)

// TestTransfersIncludeAuthorizations reads the same blocks in one range and in many small ones.
func TestTransfersIncludeAuthorizations(t *testing.T) {
	b := newBench(t)
	var want []reconcile.Transfer
	pays := func(i int) {
		p := b.claim(buyer(i))
		b.submit(p)
		r := b.settles(p)
		want = append(want, reconcile.Transfer{
			Transaction: r.Transaction, LogIndex: r.LogIndex, Block: r.Block, From: p.Authorization.From, Value: price,
			Nonce: p.Authorization.Nonce,
		})
	}
	gives := func(i int, amount money.USDC) {
		hash := b.sendAs(buyer(i), token, transferCall(b.payee, amount))
		var receipt struct{ BlockNumber string }
		if err := b.node.CallContext(t.Context(), &receipt, "eth_getTransactionReceipt", hash); err != nil {
			t.Fatal(err)
		}
		want = append(want,
			reconcile.Transfer{Transaction: x402.Hash(hash), From: addressOf(buyer(i)), Value: amount,
				Block: number(t, receipt.BlockNumber)})
	}
	pays(0)
	gives(0, 7)
	b.mine(5)
	pays(1)
	pays(0)
	// Not ours: to somebody else, and of nothing.
	b.sendAs(buyer(1), token, transferCall(addressOf(buyer(0)), 9))
	b.sendAs(buyer(1), token, transferCall(b.payee, 0))
	b.mine(3)

	safe, err := b.chain.Safe(t.Context())
	if err != nil || safe < want[3].Block {
		t.Fatalf("the safe block is %d, %v", safe, err)
	}
	small, err := chain.New(t.Context(), chain.Config{
		Endpoints: []chain.Endpoint{{URL: b.url}}, Domain: domain, CallTimeout: 10 * time.Second, LogRange: 2, Now: b.now,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(small.Close)
	for name, c := range map[string]*chain.Chain{"one range": b.chain, "many ranges": small} {
		got, err := c.Transfers(t.Context(), b.payee, 0, safe)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: transfers differ (-want +got):\n%s", name, diff)
		}
		part, err := c.Transfers(t.Context(), b.payee, want[1].Block, want[2].Block)
		if err != nil || !slices.Equal(part, want[1:3]) {
			t.Errorf("%s: blocks %d to %d: %v, %v", name, want[1].Block, want[2].Block, part, err)
		}
	}
}

// TestTransfersRefuseLogsOfAnotherQuestion lets the preferred node return the events of other payments. The transfers
// are read from the other nodes, with their authorizations.
func TestTransfersRefuseLogsOfAnotherQuestion(t *testing.T) {
	b := newBench(t)
	paid := b.claim(buyer(0))
	b.submit(paid)
	r := b.settles(paid)
	elsewhere := b.sendAs(buyer(0), token, transferCall(addressOf(buyer(1)), 9))
	other := b.claim(buyer(1))
	b.submit(other)
	b.settles(other)
	from, head := r.Block, uint64(b.header("latest").Number)
	payer := paid.Authorization.From
	want := []reconcile.Transfer{{Transaction: r.Transaction, LogIndex: r.LogIndex, Block: r.Block, From: payer,
		Value: price, Nonce: paid.Authorization.Nonce}}

	logs := func(topics ...any) string {
		var raw json.RawMessage
		filter := map[string]any{"address": token.Hex(), "fromBlock": hexutil.EncodeUint64(from),
			"toBlock": hexutil.EncodeUint64(head), "topics": topics}
		if err := b.node.CallContext(t.Context(), &raw, "eth_getLogs", filter); err != nil || len(raw) < 10 {
			t.Fatalf("%s, %v", raw, err)
		}
		return `"result":` + string(raw)
	}
	answers := func(about x402.Hash, answer string) func(question) string {
		return func(q question) string {
			if q.Method == "eth_getLogs" && q.has(about.String()) {
				return answer
			}
			return ""
		}
	}
	someone := addressOf(buyer(1))
	for name, lie := range map[string]func(question) string{
		"another payer's": answers(x402.TopicTransfer, logs(x402.TopicTransfer.String(), someone.Word().String())),
		"to another payee": answers(
			x402.TopicTransfer, logs(x402.TopicTransfer.String(), payer.Word().String(), someone.Word().String()),
		),
		"another payer's use": answers(x402.TopicUsed, logs(x402.TopicUsed.String(), someone.Word().String())),
		"transfers for uses":  answers(x402.TopicUsed, logs(x402.TopicTransfer.String())),
	} {
		t.Run(name, func(t *testing.T) {
			c := b.over(b.lying(lie), b.url, b.url)
			got, err := c.TransfersFrom(t.Context(), payer, b.payee, from, head)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("one payer's transfers: %v (-want +got):\n%s", err, diff)
			}
		})
	}
	others := logs(x402.TopicTransfer.String(), someone.Word().String())
	c := b.over(b.lying(answers(x402.TopicTransfer, others)), b.url, b.url)
	sent, err := c.Payouts(t.Context(), payer, from, head)
	if err != nil || len(sent) != 2 || sent[0].Transfer != want[0] || sent[1].Transaction != x402.Hash(elsewhere) ||
		sent[1].To != someone {
		t.Errorf("what one has sent: %+v, %v", sent, err)
	}
	others = logs(x402.TopicTransfer.String(), nil, someone.Word().String())
	c = b.over(b.lying(answers(x402.TopicTransfer, others)), b.url, b.url)
	if all, err := c.Transfers(t.Context(), b.payee, from, head); err != nil || len(all) != 2 || all[0] != want[0] {
		t.Errorf("the payee's transfers: %+v, %v", all, err)
	}
}

// TestSafeExcludesUnsafeBlocks excludes a transfer that a reorganisation can still remove.
func TestSafeExcludesUnsafeBlocks(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	b.submit(p)
	r := b.settles(p)
	if safe, err := b.chain.Safe(t.Context()); err != nil || safe >= r.Block {
		t.Errorf("the safe block is %d at once after block %d, %v", safe, r.Block, err)
	}
	if v := b.verdict(p); v.State != payment.Settled {
		t.Errorf("the payment is %+v", v)
	}
}
