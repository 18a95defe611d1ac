package chain_test

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/roamcard/roamcard/internal/payment"
)

// stretched shows the bench's chain with so many empty blocks more after one, two seconds each: to make them takes the
// development chain hours.
func (b *bench) stretched(after, more uint64, asked *atomic.Int64) string {
	b.Helper()
	since := b.header(hexutil.EncodeUint64(after)).Timestamp
	shown := func(n hexutil.Uint64) hexutil.Uint64 {
		if uint64(n) > after {
			n += hexutil.Uint64(more)
		}
		return n
	}
	// real is the last block of the bench at or before one that is shown.
	real := func(n uint64) uint64 {
		if n > after+more {
			return n - more
		}
		return min(n, after)
	}
	return b.lying(func(q question) string {
		asked.Add(1)
		switch q.Method {
		case "eth_getBlockByNumber":
			var tag string
			_ = json.Unmarshal(q.Params[0], &tag)
			if n, err := hexutil.DecodeUint64(tag); err == nil {
				if n > after && n <= after+more {
					return fmt.Sprintf(`"result":{"number":%q,"hash":"0x%064x","timestamp":%q}`, tag, n,
						since+hexutil.Uint64(2*(n-after)))
				}
				tag = hexutil.EncodeUint64(real(n))
			}
			block := b.header(tag)
			return fmt.Sprintf(`"result":{"number":%q,"hash":%q,"timestamp":%q}`, shown(block.Number), block.Hash,
				block.Timestamp)
		case "eth_getLogs":
			var filter map[string]any
			_ = json.Unmarshal(q.Params[0], &filter)
			if filter["fromBlock"] != nil {
				from, _ := hexutil.DecodeUint64(filter["fromBlock"].(string))
				to, _ := hexutil.DecodeUint64(filter["toBlock"].(string))
				if from > after && to <= after+more {
					return `"result":[]`
				}
				first := real(from)
				if from > after && from <= after+more {
					first++
				}
				filter["fromBlock"], filter["toBlock"] = hexutil.EncodeUint64(first), hexutil.EncodeUint64(real(to))
			}
			var logs []map[string]any
			if err := b.node.CallContext(b.Context(), &logs, "eth_getLogs", filter); err != nil {
				b.Error(err)
			}
			answer, _ := json.Marshal(append([]map[string]any{}, logs...))
			return `"result":` + string(answer)
		}
		return ""
	})
}

// TestVerdictFindsOldTransfer looks for a transfer that was made 60,000 blocks ago, when its payment was claimed.
func TestVerdictFindsOldTransfer(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	b.submit(p)
	settled := b.settles(p)
	b.ahead.Add(120_000)
	b.control("evm_increaseTime", hexutil.EncodeUint64(120_000))
	b.mine(3)
	var asked atomic.Int64
	c := b.over(b.stretched(settled.Block, 60_000, &asked))
	asked.Store(0)
	v, err := c.Verdict(t.Context(), p.Authorization, p.Since())
	if err != nil || v.State != payment.Settled {
		t.Fatalf("%+v, %v after %d questions, want settled", v, err, asked.Load())
	}
	if n := asked.Load(); n > 40 {
		t.Errorf("%d questions", n)
	}
}
