package node_test

import (
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/testing/simulation/node"
	"github.com/roamcard/roamcard/internal/x402"
)

// BenchmarkSettlements executes signed payments, alone and a hundred in a transaction. They are signed before.
func BenchmarkSettlements(b *testing.B) {
	for name, members := range map[string]int{"alone": 1, "batched": settler.MaxMembers} {
		b.Run(name, func(b *testing.B) {
			c := node.New(node.Config{Start: beginning})
			for _, w := range buyers {
				c.Fund(addressOf(w), 1e15, nil)
			}
			own := settler.Own(domain.Contract)
			to, nonce, at := token, uint64(0), beginning
			for b.Loop() {
				b.StopTimer()
				batch := make([]settler.Member, members)
				for i := range batch {
					batch[i] = pays(b, buyers[i%len(buyers)], nonce*1000+uint64(i), at)
				}
				data := x402.TransferCall(batch[0].Authorization, batch[0].Signature)
				if members > 1 {
					to, data = common.Address(own.Address()), own.Call(batch)
				}
				_, raw := signed(b, relayers[0], calls(nonce, to, own.Gas(members), data))
				nonce, at = nonce+1, at.Add(2*time.Second)
				b.StartTimer()
				if _, err := c.Send(raw); err != nil {
					b.Fatal(err)
				}
				c.Advance(at)
			}
			if got := c.Balance(addressOf(payee)); got != int64(nonce)*int64(members)*int64(price) {
				b.Errorf("%d settled", got)
			}
			b.ReportMetric(float64(b.N*members)/b.Elapsed().Seconds(), "payments/s")
		})
	}
}

// BenchmarkEmptyBlocks lets days pass, and reads each block in addition.
func BenchmarkEmptyBlocks(b *testing.B) {
	const day = 24 * 60 * 60 / 2
	b.Run("passed", func(b *testing.B) {
		c, at := node.New(node.Config{Start: beginning}), beginning
		for b.Loop() {
			at = at.Add(24 * time.Hour)
			c.Advance(at)
		}
		b.ReportMetric(float64(b.N)*day/b.Elapsed().Seconds(), "blocks/s")
	})
	b.Run("read", func(b *testing.B) {
		c, at := node.New(node.Config{Start: beginning}), beginning
		client := dial(b, c.Node("one"))
		for b.Loop() {
			at = at.Add(2 * time.Second)
			c.Advance(at)
			var head struct{ Number hexutil.Uint64 }
			if err := client.CallContext(b.Context(), &head, "eth_getBlockByNumber", "latest", false); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "blocks/s")
	})
	b.Run("past", func(b *testing.B) { // a balance a hundred blocks ago, each with a payment
		c, at := node.New(node.Config{Start: beginning}), beginning
		for i := range 200 {
			_, raw := signed(b, relayers[0], calls(uint64(i), token, 200_000, nil))
			if _, err := c.Send(raw); err != nil {
				b.Fatal(err)
			}
			at = at.Add(2 * time.Second)
			c.Advance(at)
		}
		client := dial(b, c.Node("one"))
		for b.Loop() {
			var wei hexutil.Big
			if err := client.CallContext(
				b.Context(), &wei, "eth_getBalance", relayers[0].Address, hexutil.EncodeBig(big.NewInt(100)),
			); err != nil {
				b.Fatal(err)
			}
		}
	})
}
