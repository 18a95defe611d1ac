package chain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// flashblock is the receipt that a node with Flashblocks gives of a transaction in the block that it builds.
type flashblock struct {
	status, block  uint64
	token          x402.Address
	from           x402.Address
	nonce          x402.Hash
	value, gap     int
	of             string
	removed, blank bool
}

func (f flashblock) answer(a x402.Authorization, asked string) string {
	if f.blank {
		return `"result":null`
	}
	if f.of != "" {
		asked = f.of
	}
	event := func(index int, data string, topics ...x402.Hash) string {
		words := make([]string, len(topics))
		for i, t := range topics {
			words[i] = `"` + t.String() + `"`
		}
		return fmt.Sprintf(`{"address":%q,"topics":[%s],"data":%q,"blockNumber":"0x%x","blockHash":"0x%064x",`+
			`"transactionHash":%s,"logIndex":"0x%x","removed":%t}`,
			f.token, strings.Join(words, ","), data, f.block, 0, asked, index, f.removed)
	}
	return fmt.Sprintf(`"result":{"transactionHash":%s,"status":"0x%x","blockNumber":"0x%x","blockHash":"0x%064x",`+
		`"gasUsed":"0x1","effectiveGasPrice":"0x1","logs":[%s,%s]}`, asked, f.status, f.block, 0,
		event(4, "0x", x402.TopicUsed, f.from.Word(), f.nonce),
		event(5+f.gap, fmt.Sprintf("0x%064x", f.value), x402.TopicTransfer, a.From.Word(), a.To.Word()))
}

// previews is what a chain with such a node says of a payment at a time, and how often the node was asked.
func (b *bench) previews(
	p payment.Payment, f flashblock, pending string,
) (preconfirmed func(time.Time) bool, asked *int) {
	b.Helper()
	asked = new(int)
	var clock time.Time
	node := b.lying(func(q question) string {
		switch {
		case q.Method == "eth_getTransactionReceipt":
			*asked++
			return f.answer(p.Authorization, string(q.Params[0]))
		case q.Method == "eth_getBlockByNumber" && q.has("pending") && pending != "":
			return fmt.Sprintf(`"result":{"number":%q,"hash":"0x%064x","parentHash":"0x%064x","timestamp":"0x1"}`,
				pending, 1, 2)
		}
		return ""
	})
	shown := chain.NewPreconfirmations(chain.PreconfirmationsConfig{
		Chain: b.over(node), Transactions: b.attempts, Now: func() time.Time { return clock },
	})
	return func(at time.Time) bool { clock = at; return shown.Preconfirmed(b.Context(), p) }, asked
}

// TestPreconfirmationNeedsOwnReceipt shows receipts of a block that is being built: only the exact transfer, by a
// transaction of our own, in the block after the latest, is a preconfirmation.
func TestPreconfirmationNeedsOwnReceipt(t *testing.T) {
	b := newBench(t)
	b.mine(3)
	b.control("evm_setAutomine", false)
	p := b.claim(buyer(0))
	b.submit(p)
	latest := uint64(b.header("latest").Number)
	exact := flashblock{
		status: 1, block: latest + 1, token: domain.Contract, from: p.Authorization.From, nonce: p.Authorization.Nonce,
		value: int(price),
	}
	but := func(change func(*flashblock)) flashblock { other := exact; change(&other); return other }
	for name, c := range map[string]struct {
		shown   flashblock
		pending string
		want    bool
	}{
		"exact transfer":          {exact, "", true},
		"no receipt":              {but(func(f *flashblock) { f.blank = true }), "", false},
		"reverted":                {but(func(f *flashblock) { f.status = 0 }), "", false},
		"another token":           {but(func(f *flashblock) { f.token = b.payee }), "", false},
		"another payer":           {but(func(f *flashblock) { f.from = b.payee }), "", false},
		"another nonce":           {but(func(f *flashblock) { f.nonce[0]++ }), "", false},
		"another amount":          {but(func(f *flashblock) { f.value-- }), "", false},
		"a transfer later":        {but(func(f *flashblock) { f.gap = 1 }), "", false},
		"another transaction":     {but(func(f *flashblock) { f.of = fmt.Sprintf(`"0x%064x"`, 7) }), "", false},
		"removed events":          {but(func(f *flashblock) { f.removed = true }), "", false},
		"a block after the next":  {but(func(f *flashblock) { f.block++ }), "", false},
		"pending block is latest": {exact, hexutil.EncodeUint64(latest), false},
		"pending block is older":  {exact, hexutil.EncodeUint64(latest - 1), false},
	} {
		if preconfirmed, _ := b.previews(p, c.shown, c.pending); preconfirmed(b.now()) != c.want {
			t.Errorf("%s: preconfirmed %t, want %t", name, !c.want, c.want)
		}
	}
	if v := b.verdict(p); v.State != payment.Unused {
		t.Errorf("%+v, and no block has the payment", v)
	}
}

// TestPreconfirmationIsReadOnceForAllWatchers has many ask at the same time, and again after it has expired.
func TestPreconfirmationIsReadOnceForAllWatchers(t *testing.T) {
	b := newBench(t)
	b.control("evm_setAutomine", false)
	p, now := b.claim(buyer(0)), b.now()
	preconfirmed, asked := b.previews(p, flashblock{blank: true}, "")
	if preconfirmed(now) || *asked != 0 {
		t.Errorf("%d calls for a payment that has no transaction", *asked)
	}
	b.submit(p)
	for turn := range 3 {
		for range 20 {
			if preconfirmed(now.Add(time.Duration(turn) * 200 * time.Millisecond)) {
				t.Fatal("preconfirmed without a receipt")
			}
		}
		if *asked != turn+1 {
			t.Errorf("%d calls, want %d", *asked, turn+1)
		}
	}
}
