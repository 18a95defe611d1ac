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
	return n.forge(a, 0, []event{
		{nil, []x402.Hash{x402.TopicUsed, a.From.Word(), a.Nonce}},
		{common.BigToHash(a.Value.Big()).Bytes(), []x402.Hash{x402.TopicTransfer, a.From.Word(), a.To.Word()}},
	})
}

// ForgeCancel lets the node show, in a safe block, that a payment's authorization was cancelled.
func (n *Node) ForgeCancel(a x402.Authorization) common.Hash {
	return n.forge(a, n.chain.config.Safe, []event{{nil, []x402.Hash{x402.TopicCanceled, a.From.Word(), a.Nonce}}})
}

// event is what a forged transaction logs.
type event struct {
	data   []byte
	topics []x402.Hash
}

// forge shows a transaction with these events, so many blocks behind the latest one.
func (n *Node) forge(a x402.Authorization, behind uint64, events []event) common.Hash {
	c := n.chain
	c.lock()
	defer c.mu.Unlock()
	number := back(n.head(), behind)
	tx := types.NewTx(&types.LegacyTx{
		To: &token, Gas: 100_000, GasPrice: c.baseFee(number), Value: new(big.Int), Data: a.Nonce[:],
		V: big.NewInt(27), R: big.NewInt(1), S: new(big.Int).SetUint64(number + 1),
	})
	b := &block{number: number, hash: c.hash(number)}
	index := uint(0)
	if real := c.find(number); real != nil {
		index = uint(len(real.logs))
	}
	var logs []*types.Log
	for i, e := range events {
		l := &types.Log{
			Address: token, Data: e.data, BlockNumber: number, BlockHash: b.hash, TxHash: tx.Hash(), Index: index + uint(i),
			BlockTimestamp: uint64(c.time(number).Unix()),
		}
		for _, t := range e.topics {
			l.Topics = append(l.Topics, common.Hash(t))
		}
		logs = append(logs, l)
	}
	n.forged = append(n.forged, &entry{&sent{tx: tx}, b, &types.Receipt{
		Status: types.ReceiptStatusSuccessful, TxHash: tx.Hash(), GasUsed: 80_000, CumulativeGasUsed: 80_000,
		EffectiveGasPrice: tx.GasPrice(), BlockHash: b.hash, BlockNumber: new(big.Int).SetUint64(number), Logs: logs,
	}})
	return tx.Hash()
}

// Honest lets the node show nothing any more that was forged.
func (n *Node) Honest() { n.edit(func() { n.forged = nil }) }

// forgeries are what the node shows in the blocks that it has.
func (n *Node) forgeries() []*entry {
	return slices.DeleteFunc(slices.Clone(n.forged), func(e *entry) bool {
		return e.block.number > n.head() || n.chain.hash(e.block.number) != e.block.hash
	})
}
