package node

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/holiman/uint256"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
)

// The codes of errors that the development chain's front never answers itself.
const (
	codeReverted = 3
	codeNoBlock  = -32001
	codeNoMethod = -32601
	codeParse    = -32700
)

// callGas is the most gas of a call, and what one has that names none.
const callGas = 50_000_000

type refusal = devnet.Refusal

// args are a call's arguments.
type args []json.RawMessage

// read decodes the first arguments. One that is left out or null changes nothing.
func (p args) read(into ...any) *refusal {
	for i, v := range into {
		if i < len(p) && string(p[i]) != "null" && json.Unmarshal(p[i], v) != nil {
			return &refusal{Code: devnet.CodeInvalidParam, Message: fmt.Sprintf("Invalid params: argument %d", i)}
		}
	}
	return nil
}

var methods = map[string]func(*Node, args) (any, *refusal){
	"eth_chainId":               func(*Node, args) (any, *refusal) { return hexutil.Uint64(devnet.ChainID), nil },
	"eth_blockNumber":           func(n *Node, _ args) (any, *refusal) { return hexutil.Uint64(n.head()), nil },
	"eth_maxPriorityFeePerGas":  func(n *Node, _ args) (any, *refusal) { return hexutil.Uint64(n.chain.config.Tip), nil },
	"eth_getBlockByNumber":      (*Node).blockByNumber,
	"eth_getBlockByHash":        (*Node).blockByHash,
	"eth_getTransactionByHash":  (*Node).transaction,
	"eth_getTransactionReceipt": (*Node).receipt,
	"eth_getLogs":               (*Node).logs,
	"eth_getBalance":            (*Node).balance,
	"eth_getCode":               (*Node).code,
	"eth_getTransactionCount":   (*Node).count,
	"eth_getStorageAt":          (*Node).storage,
	"eth_call":                  (*Node).call,
	"eth_sendRawTransaction":    (*Node).send,
}

// head is the latest block that the node shows.
func (n *Node) head() uint64 { return back(n.chain.head, n.lag) }

func back(from, blocks uint64) uint64 { return from - min(from, blocks) }

// number is the block that a tag or a number means; it may be past the head.
func (n *Node) number(named rpc.BlockNumber) uint64 {
	switch named {
	case rpc.LatestBlockNumber, rpc.PendingBlockNumber:
		return n.head()
	case rpc.SafeBlockNumber:
		return back(n.head(), n.chain.config.Safe)
	case rpc.FinalizedBlockNumber:
		return back(n.head(), n.chain.config.Finalized)
	case rpc.EarliestBlockNumber:
		return 0
	default:
		return uint64(named)
	}
}

// block is the block that a tag, a number or a hash means (EIP-1898), the latest one without any.
func (n *Node) block(named rpc.BlockNumberOrHash) (number uint64, no *refusal) {
	number, known := n.head(), true
	if named.BlockNumber != nil {
		number = n.number(*named.BlockNumber)
	} else if named.BlockHash != nil {
		number, known = n.chain.numberOf(*named.BlockHash)
	}
	if !known || number > n.head() {
		return 0, &refusal{Code: codeNoBlock, Message: "block not found: " + named.String()}
	}
	return number, nil
}

// on reads the state after a block.
func (n *Node) on(named rpc.BlockNumberOrHash, read func(*state) any) (result any, no *refusal) {
	number, no := n.block(named)
	if no == nil {
		no = n.chain.at(number, func() { result = read(n.chain.state) })
	}
	return result, no
}

func isPending(named rpc.BlockNumberOrHash) bool {
	return named.BlockNumber != nil && *named.BlockNumber == rpc.PendingBlockNumber
}

func (n *Node) balance(p args) (any, *refusal) {
	var of common.Address
	var at rpc.BlockNumberOrHash
	if no := p.read(&of, &at); no != nil {
		return nil, no
	}
	return n.on(at, func(s *state) any { return (*hexutil.Big)(s.GetBalance(of).ToBig()) })
}

func (n *Node) code(p args) (any, *refusal) {
	var of common.Address
	var at rpc.BlockNumberOrHash
	if no := p.read(&of, &at); no != nil {
		return nil, no
	}
	return n.on(at, func(s *state) any { return hexutil.Bytes(s.GetCode(of)) })
}

func (n *Node) count(p args) (any, *refusal) {
	var of common.Address
	var at rpc.BlockNumberOrHash
	if no := p.read(&of, &at); no != nil {
		return nil, no
	}
	return n.on(at, func(s *state) any {
		next := s.GetNonce(of)
		for pooled := n.chain.pooled(of); isPending(at) && pooled[next] != (common.Hash{}); {
			next++
		}
		return hexutil.Uint64(next)
	})
}

func (n *Node) storage(p args) (any, *refusal) {
	var of common.Address
	var key string
	var at rpc.BlockNumberOrHash
	if no := p.read(&of, &key, &at); no != nil {
		return nil, no
	}
	return n.on(at, func(s *state) any { return s.GetState(of, common.HexToHash(key)) })
}

// arguments are what eth_call executes.
type arguments struct {
	From                                                common.Address
	To                                                  *common.Address
	Gas                                                 hexutil.Uint64
	GasPrice, MaxFeePerGas, MaxPriorityFeePerGas, Value *hexutil.Big
	Data, Input                                         hexutil.Bytes
}

// message is the same for go-ethereum. A call that offers no fee pays none.
func (a arguments) message(baseFee *big.Int) *core.Message {
	amount := func(n *hexutil.Big) *uint256.Int {
		if n == nil {
			return new(uint256.Int)
		}
		held, _ := uint256.FromBig(n.ToInt())
		return held
	}
	msg := &core.Message{
		From: a.From, To: a.To, Value: amount(a.Value), GasLimit: min(uint64(a.Gas), callGas), Data: a.Data,
		GasFeeCap: amount(a.MaxFeePerGas), GasTipCap: amount(a.MaxPriorityFeePerGas),
	}
	if msg.GasLimit == 0 {
		msg.GasLimit = callGas
	}
	if len(a.Input) > 0 {
		msg.Data = a.Input
	}
	if a.GasPrice != nil {
		msg.GasFeeCap, msg.GasTipCap = amount(a.GasPrice), amount(a.GasPrice)
	}
	msg.GasPrice = new(uint256.Int)
	if !msg.GasFeeCap.IsZero() {
		msg.GasPrice.Add(uint256.MustFromBig(baseFee), msg.GasTipCap)
		if msg.GasPrice.Gt(msg.GasFeeCap) {
			msg.GasPrice.Set(msg.GasFeeCap)
		}
	}
	return msg.SkipNonceCheck().SkipEOACheck().SkipGasLimitCapCheck()
}

func (n *Node) call(p args) (any, *refusal) {
	var a arguments
	var at rpc.BlockNumberOrHash
	if no := p.read(&a, &at); no != nil {
		return nil, no
	}
	if len(p) > 2 {
		return nil, &refusal{Code: devnet.CodeInvalidParam, Message: "overrides are not supported"}
	}
	number, no := n.block(at)
	if no != nil {
		return nil, no
	}
	var answer []byte
	pruned := n.chain.at(number, func() {
		if isPending(at) {
			number++
		}
		answer, no = n.chain.call(number, a)
	})
	if pruned != nil {
		no = pruned
	}
	return hexutil.Bytes(answer), no
}

// call executes a call on the state that there is, in a block of this number, and takes it back.
func (c *Chain) call(number uint64, a arguments) ([]byte, *refusal) {
	machine := c.evm(number)
	defer machine.Release()
	machine.Config.NoBaseFee = true
	defer c.state.RevertToSnapshot(c.state.Snapshot())
	c.state.begin()
	return resultOf(core.ApplyMessage(machine, a.message(machine.Context.BaseFee), nil))
}

// revertText is how nodes say what a contract said.
func revertText(data []byte) string {
	if reason, err := abi.UnpackRevert(data); err == nil {
		return "execution reverted: " + reason
	}
	return "execution reverted"
}

func (n *Node) send(p args) (any, *refusal) {
	var raw hexutil.Bytes
	if no := p.read(&raw); no != nil {
		return nil, no
	}
	return n.chain.take(raw)
}

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
	at := slices.IndexFunc(n.chain.pool, func(s *sent) bool { return s.tx.Hash() == hash })
	if at < 0 {
		return nil, nil
	}
	return n.chain.pool[at].wire(), nil
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
	for _, b := range n.chain.blocks[n.chain.search(from):] {
		if b.number > min(to, n.head()) {
			break
		}
		for _, l := range b.logs {
			if f.matches(l) && !n.hidden[l.TxHash] {
				found = append(found, l)
			}
		}
	}
	return found, nil
}
