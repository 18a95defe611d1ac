package chain_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/roamcard/roamcard/internal/payment"
)

// aheadOfAll is a node that shows a made-up block as the latest, newer than all and another one each time, refuses
// every transfer, and denies what was paid.
func (b *bench) aheadOfAll() string {
	b.Helper()
	var looks atomic.Int64
	return b.lying(func(q question) string {
		switch q.Method {
		case "eth_getBlockByNumber":
			real := b.header("latest")
			at := real.Number + hexutil.Uint64(1000+looks.Add(1))
			if !q.has("latest") {
				asked, err := hexutil.DecodeUint64(strings.Trim(string(q.Params[0]), `"`))
				if err != nil || asked <= uint64(real.Number) {
					return "" // it agrees on all that there is
				}
				at = hexutil.Uint64(asked)
			}
			return fmt.Sprintf(`"result":{"number":%q,"hash":"0xbad0%060x","timestamp":"0x%x","baseFeePerGas":"0x1"}`,
				at, looks.Load(), b.now().Unix()+1)
		case "eth_call":
			if q.has(authorizationState) {
				return `"result":"0x` + strings.Repeat("0", 64) + `"`
			}
			if q.has(b.payee.String()[2:]) {
				return `"error":{"code":3,"message":"execution reverted"}`
			}
		case "eth_getCode":
			return `"result":"0x"`
		case "eth_getLogs":
			return `"result":[]`
		}
		return ""
	})
}

// TestMadeUpHeadStopsNothing lets a backup node show a newer block than all others. It is not preferred by that, no
// buyer is refused, no reorganisation is reported, and payments settle.
func TestMadeUpHeadStopsNothing(t *testing.T) {
	for name, place := range map[string]int{"preferred": 0, "second": 1, "last": 2} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.mine(5)
			liar := b.aheadOfAll()
			nodes := []string{b.url, b.url, b.url}
			nodes[place] = liar
			c := b.over(nodes...)
			paid := b.claim(buyer(0))
			b.submit(paid)
			b.settles(paid)
			next := b.claim(buyer(1))
			for range 9 {
				b.wantReady(c, "", "")
				head, err := c.Head(t.Context())
				if real := uint64(b.header("latest").Number); err != nil || head > real && place > 0 {
					t.Fatalf("head %d, %v, want %d", head, err, real)
				}
				if reason := b.reasonOf(c.Simulate(t.Context(), next.Authorization, next.Signature)); reason != "" {
					t.Fatalf("a good payment is refused: %s", reason)
				}
				if got := state(t, c, paid); got != payment.Settled {
					t.Fatalf("what was paid: state %d", got)
				}
				if got := state(t, c, next); got != payment.Unused && got != payment.Unknown {
					t.Fatalf("what was not paid: state %d", got)
				}
				b.ahead.Add(2)
				b.mine(1)
			}
		})
	}
}

// TestMadeUpHeadOfOneOfTwoNodesIsIgnored lets one of two nodes invent a head. Payments wait; none becomes settled or
// void, and no buyer is refused.
func TestMadeUpHeadOfOneOfTwoNodesIsIgnored(t *testing.T) {
	b := newBench(t)
	b.mine(5)
	c := b.over(b.url, b.aheadOfAll())
	paid := b.claim(buyer(0))
	b.submit(paid)
	b.settles(paid)
	next := b.claim(buyer(1))
	for range 9 {
		b.wantReady(c, "", "")
		if reason := b.reasonOf(c.Simulate(t.Context(), next.Authorization, next.Signature)); reason != "" {
			t.Fatalf("a good payment is refused: %s", reason)
		}
		for _, p := range []payment.Payment{paid, next} {
			for _, on := range []payment.Chain{c, c.Final()} {
				if got := state(t, on, p); got != payment.Unused && got != payment.Unknown {
					t.Fatalf("state %d", got)
				}
			}
		}
		b.pass(2)
	}
}
