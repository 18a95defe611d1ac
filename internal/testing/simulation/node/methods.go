package node

import (
	"encoding/json"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core"
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
	"eth_blockNumber":           (*Node).blockNumber,
	"eth_maxPriorityFeePerGas":  (*Node).tip,
	"eth_getBlockByNumber":      (*Node).blockByNumber,
	"eth_getBlockByHash":        (*Node).blockByHash,
	"eth_getTransactionByHash":  (*Node).transaction,
	"eth_getTransactionReceipt": (*Node).receipt,
	"eth_getLogs":               (*Node).logs,
	"eth_getBalance":            of(balance),
	"eth_getCode":               of(code),
	"eth_getStorageAt":          (*Node).word,
	"eth_getTransactionCount":   of(count),
	"eth_call":                  (*Node).call,
	"eth_sendRawTransaction":    (*Node).send,
}

// head is the latest block that the node shows.
func (n *Node) head() uint64 { return uint64(max(0, int64(n.chain.head)-int64(n.lag))) }

func (n *Node) blockNumber(args) (any, *refusal) { return hexutil.Uint64(n.head()), nil }

func (n *Node) tip(args) (any, *refusal) { return hexutil.Uint64(n.chain.config.Tip), nil }

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
func (n *Node) on(named rpc.BlockNumberOrHash, read func(*Chain) any) (result any, no *refusal) {
	number, no := n.block(named)
	if no == nil {
		no = n.chain.at(number, func() { result = read(n.chain) })
	}
	return result, no
}

func isPending(named rpc.BlockNumberOrHash) bool {
	return named.BlockNumber != nil && *named.BlockNumber == rpc.PendingBlockNumber
}

// of reads something of an account at a block.
func of(read func(c *Chain, account common.Address, pending bool) any) func(*Node, args) (any, *refusal) {
	return func(n *Node, p args) (any, *refusal) {
		var account common.Address
		var at rpc.BlockNumberOrHash
		if no := p.read(&account, &at); no != nil {
			return nil, no
		}
		return n.on(at, func(c *Chain) any { return read(c, account, isPending(at)) })
	}
}

func balance(c *Chain, account common.Address, _ bool) any {
	return (*hexutil.Big)(c.state.GetBalance(account).ToBig())
}

func code(c *Chain, account common.Address, _ bool) any {
	return hexutil.Bytes(c.state.GetCode(account))
}

// word is a word of an account's storage.
func (n *Node) word(p args) (any, *refusal) {
	var account common.Address
	var slot common.Hash
	var at rpc.BlockNumberOrHash
	if no := p.read(&account, &slot, &at); no != nil {
		return nil, no
	}
	return n.on(at, func(c *Chain) any { return c.state.GetState(account, slot) })
}

// count is an account's next nonce; with pending, after those of its transactions in the pool that follow one another.
func count(c *Chain, account common.Address, pending bool) any {
	next := c.state.GetNonce(account)
	for pooled := c.pooled(account); pending && pooled[next] != (common.Hash{}); {
		next++
	}
	return hexutil.Uint64(next)
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
		answer, no = n.chain.call(number, a, n.forgeries())
	})
	if pruned != nil {
		no = pruned
	}
	return hexutil.Bytes(answer), no
}

// call executes a call on the state that there is, in a block of this number, and takes it back. The authorizations of
// forged transfers count as used.
func (c *Chain) call(number uint64, a arguments, forged []*entry) ([]byte, *refusal) {
	machine := c.evm(number)
	defer machine.Release()
	machine.Config.NoBaseFee = true
	defer c.state.RevertToSnapshot(c.state.Snapshot())
	for _, e := range forged {
		used := e.receipt.Logs[0].Topics
		c.state.setWord(slot{token, devnet.AuthorizationSlot(used[1], used[2])}, common.BigToHash(common.Big1))
	}
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
