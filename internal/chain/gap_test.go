package chain_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/roamcard/roamcard/internal/payment"
)

// TestHugeAccountNonceLeavesNoGap lets a node count 2^40 transactions of the relayer. If that were used, the next
// payment would wait behind a gap that nothing fills.
func TestHugeAccountNonceLeavesNoGap(t *testing.T) {
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	for name, second := range map[string]func(*bench) string{
		"the other knows better": func(b *bench) string { return b.url },
		"the other is silent":    func(*bench) string { return dead.URL },
		"there is no other":      nil,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			before := b.claim(buyer(0))
			b.submit(before)
			b.settles(before)
			var honest atomic.Bool
			nodes := []string{b.lying(func(q question) string {
				if !honest.Load() && q.Method == "eth_getTransactionCount" {
					return `"result":"0x10000000000"`
				}
				return ""
			})}
			if second != nil {
				nodes = append(nodes, second(b))
			}
			direct := b.chain
			b.chain = b.over(nodes...)
			b.relayer = b.newRelayer(b.attempts)
			p := b.claim(buyer(1))
			if err := b.relayer.Submit(t.Context(), p); err != nil {
				t.Log(err) // it may wait, as long as it leaves no gap
			}
			_ = b.relayer.Maintain(t.Context())
			for _, a := range b.attempts.All(p.ID) {
				if a.Nonce != 1 {
					t.Fatalf("the account nonce is %d, want 1", a.Nonce)
				}
			}
			honest.Store(true)
			b.chain = direct
			if b.verdict(p).State != payment.Settled { // a slow test finds it final, and its attempt closed
				b.submit(p)
			}
			b.settles(p)
			if all := b.attempts.All(p.ID); len(all) != 1 || all[0].Nonce != 1 || all[0].Status == payment.TransactionReverted {
				t.Fatalf("attempts %v, want one of the account nonce 1", all)
			}
		})
	}
}
