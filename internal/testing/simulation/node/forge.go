package node

import (
	"math/big"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/roamcard/roamcard/internal/x402"
)

// Forge lets the node show a payment that was never made, in the latest block: a transaction with both of its events,
// and a used authorization. It shows the payment while its chain has that block.
func (n *Node) Forge(a x402.Authorization) common.Hash {
	c := n.chain
	c.lock()
	defer c.mu.Unlock()
	number := n.head()
	tx := types.NewTx(&types.LegacyTx{
		To: &token, Gas: 100_000, GasPrice: c.baseFee(number), Value: new(big.Int), Data: a.Nonce[:],
		V: big.NewInt(27), R: big.NewInt(1), S: new(big.Int).SetUint64(number + 1),
	})
	event := func(index uint, data []byte, topics ...x402.Hash) *types.Log {
		l := &types.Log{
			Address: token, Data: data, BlockNumber: number, BlockHash: c.hash(number), TxHash: tx.Hash(), Index: index,
			BlockTimestamp: uint64(c.time(number).Unix()),
		}
		for _, t := range topics {
			l.Topics = append(l.Topics, common.Hash(t))
		}
		return l
	}
	b := &block{number: number, hash: c.hash(number)}
	after := uint(0)
	if real := c.find(number); real != nil {
		after = uint(len(real.logs))
	}
	n.forged = append(n.forged, &entry{&sent{tx: tx}, b, &types.Receipt{
		Status: types.ReceiptStatusSuccessful, TxHash: tx.Hash(), GasUsed: 80_000, CumulativeGasUsed: 80_000,
		EffectiveGasPrice: tx.GasPrice(), BlockHash: b.hash, BlockNumber: new(big.Int).SetUint64(number),
		Logs: []*types.Log{
			event(after, nil, x402.TopicUsed, a.From.Word(), a.Nonce),
			event(after+1, common.BigToHash(a.Value.Big()).Bytes(), x402.TopicTransfer, a.From.Word(), a.To.Word()),
		},
	}})
	return tx.Hash()
}

// forgeries are what the node shows in the blocks that it has.
func (n *Node) forgeries() []*entry {
	return slices.DeleteFunc(slices.Clone(n.forged), func(e *entry) bool {
		return e.block.number > n.head() || n.chain.hash(e.block.number) != e.block.hash
	})
}
