package node

import (
	"encoding/json"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
)

func (n *Node) blockByNumber(p args) (any, *refusal) {
	number, full := rpc.LatestBlockNumber, false
	if no := p.read(&number, &full); no != nil {
		return nil, no
	}
	return n.header(n.number(number), full), nil
}

func (n *Node) blockByHash(p args) (any, *refusal) {
	var hash common.Hash
	var full bool
	if no := p.read(&hash, &full); no != nil {
		return nil, no
	}
	if number, ok := n.chain.numberOf(hash); ok {
		return n.header(number, full), nil
	}
	return nil, nil
}

// header is a block with its transactions, or with their hashes alone; nil for one that the node does not have.
func (n *Node) header(number uint64, full bool) any {
	c := n.chain
	if number > n.head() {
		return nil
	}
	var parent common.Hash
	if number > 0 {
		parent = c.hash(number - 1)
	}
	transactions, gasUsed := []any{}, uint64(0)
	if b := c.find(number); b != nil {
		gasUsed = b.gasUsed
		for _, e := range b.entries {
			if full {
				transactions = append(transactions, e.wire())
			} else {
				transactions = append(transactions, e.tx.Hash())
			}
		}
	}
	return map[string]any{
		"number": hexutil.Uint64(number), "hash": c.hash(number), "parentHash": parent,
		"timestamp": hexutil.Uint64(c.time(number).Unix()), "baseFeePerGas": (*hexutil.Big)(c.baseFee(number)),
		"gasLimit": hexutil.Uint64(blockGas), "gasUsed": hexutil.Uint64(gasUsed), "transactions": transactions,
		"miner": miner, "difficulty": "0x0", "extraData": "0x", "nonce": "0x0000000000000000", "mixHash": common.Hash{},
		"sha3Uncles": types.EmptyUncleHash, "uncles": []any{}, "stateRoot": common.Hash{},
		"transactionsRoot": common.Hash{}, "receiptsRoot": common.Hash{}, "logsBloom": types.Bloom{},
	}
}

// wire is a transaction as nodes show it; one in the pool has no block.
func (s *sent) wire() map[string]any {
	tx, to := s.tx, any(nil)
	if s.tx.To() != nil {
		to = tx.To()
	}
	v, r, sig := tx.RawSignatureValues()
	return map[string]any{
		"hash": tx.Hash(), "from": s.from, "to": to, "nonce": hexutil.Uint64(tx.Nonce()), "gas": hexutil.Uint64(tx.Gas()),
		"type": hexutil.Uint64(tx.Type()), "input": hexutil.Bytes(tx.Data()), "value": (*hexutil.Big)(tx.Value()),
		"gasPrice": (*hexutil.Big)(tx.GasPrice()), "maxFeePerGas": (*hexutil.Big)(tx.GasFeeCap()),
		"maxPriorityFeePerGas": (*hexutil.Big)(tx.GasTipCap()), "chainId": hexutil.Uint64(devnet.ChainID),
		"v": (*hexutil.Big)(v), "r": (*hexutil.Big)(r), "s": (*hexutil.Big)(sig), "yParity": hexutil.Uint64(v.Uint64() & 1),
		"blockHash": nil, "blockNumber": nil, "transactionIndex": nil,
	}
}

func (e *entry) wire() map[string]any {
	shown := e.sent.wire()
	shown["blockHash"], shown["blockNumber"] = e.block.hash, hexutil.Uint64(e.block.number)
	shown["transactionIndex"] = hexutil.Uint64(e.receipt.TransactionIndex)
	return shown
}

// shown is a transaction in a block that the node has, or nil.
func (n *Node) shown(hash common.Hash) *entry {
	e := n.chain.included[hash]
	for _, forged := range n.forgeries() {
		if forged.tx.Hash() == hash {
			e = forged
		}
	}
	if e == nil || e.block.number > n.head() || n.hidden[hash] {
		return nil
	}
	return e
}

func (n *Node) transaction(p args) (any, *refusal) {
	var hash common.Hash
	if no := p.read(&hash); no != nil {
		return nil, no
	}
	if e := n.shown(hash); e != nil {
		return e.wire(), nil
	}
	if waiting := n.chain.lookUp(hash); waiting != nil {
		return waiting.wire(), nil // or in a block that the node does not show
	}
	return nil, nil
}

func (n *Node) receipt(p args) (any, *refusal) {
	var hash common.Hash
	if no := p.read(&hash); no != nil {
		return nil, no
	}
	e := n.shown(hash)
	if e == nil {
		return nil, nil
	}
	r := e.receipt
	shown := map[string]any{
		"transactionHash": r.TxHash, "transactionIndex": hexutil.Uint64(r.TransactionIndex), "blockHash": r.BlockHash,
		"blockNumber": hexutil.Uint64(e.block.number), "from": e.from, "to": e.tx.To(), "type": hexutil.Uint64(r.Type),
		"status": hexutil.Uint64(r.Status), "gasUsed": hexutil.Uint64(r.GasUsed), "contractAddress": nil,
		"cumulativeGasUsed": hexutil.Uint64(r.CumulativeGasUsed), "effectiveGasPrice": (*hexutil.Big)(r.EffectiveGasPrice),
		"logs": append([]*types.Log{}, r.Logs...), "logsBloom": types.Bloom{},
	}
	if e.tx.To() == nil {
		shown["contractAddress"] = r.ContractAddress
	}
	return shown, nil
}

// oneOrMore is a list whose only member may stand alone. null, and none, means any.
type oneOrMore[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (o *oneOrMore[T]) UnmarshalJSON(text []byte) error {
	var several []T
	if json.Unmarshal(text, &several) == nil {
		*o = several
		return nil
	}
	var one T
	err := json.Unmarshal(text, &one)
	*o = oneOrMore[T]{one}
	return err
}

// filter is which logs are asked for.
type filter struct {
	BlockHash          *common.Hash
	FromBlock, ToBlock *rpc.BlockNumber
	Address            oneOrMore[common.Address]
	Topics             []oneOrMore[common.Hash]
}

func (f filter) matches(l *types.Log) bool {
	if len(f.Address) > 0 && !slices.Contains(f.Address, l.Address) || len(f.Topics) > len(l.Topics) {
		return false
	}
	for i, wanted := range f.Topics {
		if len(wanted) > 0 && !slices.Contains(wanted, l.Topics[i]) {
			return false
		}
	}
	return true
}

func (n *Node) logs(p args) (any, *refusal) {
	var f filter
	if no := p.read(&f); no != nil {
		return nil, no
	}
	from, to := n.head(), n.head()
	switch {
	case f.BlockHash != nil:
		number, no := n.block(rpc.BlockNumberOrHash{BlockHash: f.BlockHash})
		if no != nil {
			return nil, no
		}
		from, to = number, number
	default:
		if f.FromBlock != nil {
			from = n.number(*f.FromBlock)
		}
		if f.ToBlock != nil {
			to = n.number(*f.ToBlock)
		}
		if no := devnet.RefuseRange(int64(from), int64(to)); no != nil {
			return nil, no
		}
	}
	found := []*types.Log{}
	add := func(logs []*types.Log) {
		for _, l := range logs {
			if f.matches(l) && !n.hidden[l.TxHash] {
				found = append(found, l)
			}
		}
	}
	to = min(to, n.head())
	for _, b := range n.chain.blocks[n.chain.search(from):] {
		if b.number > to {
			break
		}
		add(b.logs)
	}
	for _, e := range n.forgeries() {
		if e.block.number >= from && e.block.number <= to {
			add(e.receipt.Logs)
		}
	}
	return found, nil
}
