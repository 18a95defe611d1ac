package chain

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/x402"
)

// TestOldHeadIsComparedWithOtherNodes freezes the preferred node. The newest head counts, and the node is asked last
// until it has caught up.
func TestOldHeadIsComparedWithOtherNodes(t *testing.T) {
	c := &clock{now: time.Unix(1_790_000_000, 0)}
	block := func(number int64) func(string) string {
		at := c.Now().Unix() - 1000 + number // block 1000 is of now
		return ok(fmt.Sprintf(`{"number":"0x%x","hash":"0x%064x","timestamp":"0x%x"}`, number, number, at))
	}
	standing, down, good := newNode(t, block(900)), newNode(t, fails(-32603, "internal error")), newNode(t, block(999))
	chain := &Chain{config: Config{Now: c.Now}, pool: openPool(t, c, standing, down, good)}
	for range 3 {
		head, err := chain.header(t.Context(), "latest")
		if err != nil || head.Number != 999 {
			t.Fatalf("head %d, %v, want 999", head.Number, err)
		}
	}
	if n := standing.calls.Load(); n != 2 {
		t.Errorf("the standing node was asked %d times, want twice at first and then not", n)
	}
	c.pass(maxPause + time.Second) // the good one is old now, too, and still the newest
	if head, err := chain.header(t.Context(), "latest"); err != nil || head.Number != 999 {
		t.Errorf("after the pause: head %d, %v, want 999", head.Number, err)
	}
}

// TestVerdictAsksOtherNodesForMissingLogs finds a log that only the last node shows, and is undecided when none shows
// it.
func TestVerdictAsksOtherNodesForMissingLogs(t *testing.T) {
	usdc := x402.Address{1}
	log := func(index int) func(string) string {
		return ok(fmt.Sprintf(`[{"address":%q,"topics":[],"data":"0x","blockNumber":"0x1","logIndex":"0x%x",
			"blockHash":"0x%064x","transactionHash":"0x%064x"}]`, usdc, index, 1, 2))
	}
	for name, tt := range map[string]struct {
		nodes []func(string) string
		found bool
		fails bool
	}{
		"on the last": {nodes: []func(string) string{ok("[]"), log(1), log(7)}, found: true},
		"behind a range too new": {
			nodes: []func(string) string{fails(-32602, "block range extends beyond current head block"), log(7)}, found: true,
		},
		"on none":                 {nodes: []func(string) string{ok("[]"), log(1)}},
		"perhaps on the one down": {nodes: []func(string) string{ok("[]"), fails(-32603, "internal error")}, fails: true},
		"behind a fault":          {nodes: []func(string) string{fails(-32000, "leveldb: closed"), log(7)}, found: true},
		"a range too large": {
			nodes: []func(string) string{fails(-32602, "query returned more than 10000 results"), log(7)}, fails: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var nodes []*fakeNode
			for _, answer := range tt.nodes {
				nodes = append(nodes, newNode(t, answer))
			}
			c := &Chain{config: Config{Domain: x402.Domain{Contract: usdc}}, pool: openPool(t, &clock{}, nodes...)}
			found, err := c.log(t.Context(), func(l logEntry) bool { return l.LogIndex == 7 }, map[string]any{})
			if (found != nil) != tt.found || (err != nil) != tt.fails || errors.Is(err, errNotFound) {
				t.Errorf("%+v, %v", found, err)
			}
		})
	}
}

// TestPoolChecksChainIDAgainAfterFailure answers with another chain id after a failure.
func TestPoolChecksChainIDAgainAfterFailure(t *testing.T) {
	failing := newNode(t, fails(-32603, "internal error"))
	p := openPool(t, &clock{}, failing)
	if err := p.call(t.Context(), nil, "eth_test"); err == nil || p.endpoints[0].checked.Load() {
		t.Errorf("%v, its chain still counts as known: %t", err, p.endpoints[0].checked.Load())
	}
}
