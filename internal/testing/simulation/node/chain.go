// Package node is a chain like Base in memory, in the time that a test gives it: go-ethereum's machine over the
// contracts of the development chain, with a pool, reorganisations, and nodes that answer JSON-RPC without a socket.
//
//	Send ─► pool ─► a block when it is due (Advance) ─► Node: what one node shows of it
//	                  ▲ Reorganise gives the last blocks' transactions back
//
// It starts no goroutine and has no clock, so that it can be asked in a synctest bubble. What it does depends on the
// order of the calls alone.
package node

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
)

const (
	// keptStates is after how many of the last blocks accounts and contracts can be read. Blocks and logs are kept.
	keptStates = 256
	// blockGas bounds the gas of a block's transactions, as on the development chain.
	blockGas = 150_000_000
)

// Config is how a chain is. Zero values mean what the comments say.
type Config struct {
	// Start is the time of block zero, in whole seconds.
	Start time.Time
	// Interval is the time between two blocks: 2 s.
	Interval time.Duration
	// Safe and Finalized are how many blocks the two lie behind the latest one: 4 and 8. Reorganisations that are not
	// deeper than Safe contradict nothing that a caller may rely on.
	Safe, Finalized uint64
	// MaxTransactions is the most in one block; zero is what its gas allows.
	MaxTransactions int
	// Pool are the rules by which transactions are taken.
	Pool devnet.PoolRules
	// BaseFee is the price of a unit of gas, in wei, until SetBaseFee: 5,000,000, Base's minimum, to which it returns
	// whatever blocks contain. Tip is what nodes suggest to offer in addition: 1,000,000.
	BaseFee, Tip uint64
	// Now lets every call advance the chain first; nil leaves that to Advance.
	Now func() time.Time
}

// Chain is a chain and its pool. It is safe for concurrent use.
type Chain struct {
	config Config
	signer types.Signer
	// jumps and precompiled cache what the machine works out again and again: a payment's signature, above all.
	jumps       vm.JumpDestCache
	precompiled *vm.PrecompileCache

	mu    sync.Mutex
	state *state
	head  uint64
	// blocks are those that are not empty, by number. Empty ones are not stored: all that they are follows from their
	// number.
	blocks []*block
	// unpruned is the place in blocks of the first one that can be undone.
	unpruned int
	forks    []fork
	fees     []price
	included map[common.Hash]*entry
	// pool is in the order of arrival.
	pool  []*sent
	nodes map[string]*Node
	// executed and reorganisations count.
	executed, reorganisations uint64
}

// fork is since which block the chain is what it became by its n-th reorganisation.
type fork struct{ from, n uint64 }

// price is the base fee since a block.
type price struct{ from, wei uint64 }

// block is one in which something happened.
type block struct {
	number  uint64
	hash    common.Hash
	entries []*entry
	logs    []*types.Log
	gasUsed uint64
	undo    []change
	gifts   []gift
}

// entry is a transaction in a block, and its result.
type entry struct {
	*sent
	block   *block
	receipt *types.Receipt
}

// gift is what Fund gave.
type gift struct {
	to   common.Address
	usdc int64
	wei  *big.Int
	code []byte
}

// New makes a chain with block zero, which has what the development chain's genesis has.
func New(config Config) *Chain {
	config.Interval = cmp.Or(config.Interval, 2*time.Second)
	config.Safe = cmp.Or(config.Safe, 4)
	config.Finalized = cmp.Or(config.Finalized, 8)
	config.BaseFee = cmp.Or(config.BaseFee, 5_000_000)
	config.Tip = cmp.Or(config.Tip, 1_000_000)
	config.Start = config.Start.Truncate(time.Second)
	return &Chain{
		config: config, signer: types.LatestSigner(rules), state: newState(), jumps: core.NewJumpDestCache(),
		precompiled: vm.NewPrecompileCache(),
		forks:       []fork{{}}, fees: []price{{0, config.BaseFee}}, included: map[common.Hash]*entry{},
		nodes: map[string]*Node{},
	}
}

// lock takes the chain, as it is now.
func (c *Chain) lock() {
	c.mu.Lock()
	if c.config.Now != nil {
		c.advance(c.config.Now())
	}
}

// Advance makes the blocks that are due until a time.
func (c *Chain) Advance(to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance(to)
}

func (c *Chain) advance(to time.Time) {
	if !to.After(c.config.Start) {
		return
	}
	due := uint64(to.Sub(c.config.Start) / c.config.Interval)
	for c.head < due {
		// What one block cannot take, no later one can: an empty block changes nothing.
		if len(c.pool) == 0 || !c.build(c.head+1, c.pool) {
			c.head = due
			return
		}
	}
}

// Head is the latest block's number and time.
func (c *Chain) Head() (number uint64, at time.Time) {
	c.lock()
	defer c.mu.Unlock()
	return c.head, c.time(c.head)
}

func (c *Chain) time(number uint64) time.Time {
	return c.config.Start.Add(time.Duration(number) * c.config.Interval)
}

// SetBaseFee sets the price of a unit of gas from the next block on, in wei.
func (c *Chain) SetBaseFee(wei uint64) {
	c.lock()
	defer c.mu.Unlock()
	c.fees = append(c.fees, price{c.head + 1, wei})
}

func (c *Chain) baseFee(number uint64) *big.Int {
	i := sort.Search(len(c.fees), func(i int) bool { return c.fees[i].from > number })
	return new(big.Int).SetUint64(c.fees[i-1].wei)
}

// Send puts a signed transaction into the pool. The error is a *devnet.Refusal.
func (c *Chain) Send(raw []byte) (common.Hash, error) {
	c.lock()
	defer c.mu.Unlock()
	hash, no := c.take(raw)
	if no != nil {
		return hash, no
	}
	return hash, nil
}

// Execute puts a call by an account into the next block, before what was sent, without a signature or a fee. It uses
// the nonce that the account has then.
func (c *Chain) Execute(from, to common.Address, data []byte) common.Hash {
	c.lock()
	defer c.mu.Unlock()
	c.executed++
	tx := types.NewTx(&types.LegacyTx{ // its hash is nobody else's: S numbers it
		Nonce: c.state.GetNonce(from), To: &to, Gas: 1 << 24, Data: data, GasPrice: new(big.Int), Value: new(big.Int),
		V: big.NewInt(27), R: new(big.Int).SetBytes(from[:]), S: new(big.Int).SetUint64(c.executed),
	})
	c.pool = append(c.pool, &sent{tx: tx, from: from, unsigned: true})
	return tx.Hash()
}

// Receipt is what became of a transaction; nil while it is in no block.
func (c *Chain) Receipt(transaction common.Hash) *types.Receipt {
	c.lock()
	defer c.mu.Unlock()
	if e := c.included[transaction]; e != nil {
		copied := *e.receipt
		return &copied
	}
	return nil
}

// Has reports whether a transaction is in a block or waits for one.
func (c *Chain) Has(transaction common.Hash) bool {
	c.lock()
	defer c.mu.Unlock()
	return c.lookUp(transaction) != nil
}

// Fund gives an account tokens, in millionths of a dollar, and wei, in the latest block; nil is no wei, and less than
// none takes as much as there is. A reorganisation does not take them back.
func (c *Chain) Fund(to common.Address, usdc int64, wei *big.Int) {
	c.lock()
	defer c.mu.Unlock()
	c.give(gift{to: to, usdc: usdc, wei: wei})
}

// Install gives an account code in the latest block, as an EIP-7702 delegation does. A reorganisation does not take it
// back.
func (c *Chain) Install(at common.Address, code []byte) {
	c.lock()
	defer c.mu.Unlock()
	c.give(gift{to: at, code: code})
}

// Wei is what an account has for gas at the latest block.
func (c *Chain) Wei(of common.Address) *big.Int {
	c.lock()
	defer c.mu.Unlock()
	return c.state.GetBalance(of).ToBig()
}

func (c *Chain) give(g gift) {
	b := c.find(c.head)
	if b == nil {
		b = &block{number: c.head, hash: c.hash(c.head)}
		c.blocks = append(c.blocks, b)
	}
	b.gifts = append(b.gifts, g)
	switch {
	case g.wei == nil:
	case g.wei.Sign() >= 0:
		c.state.AddBalance(g.to, uint256.MustFromBig(g.wei), tracing.BalanceChangeUnspecified)
	default:
		taken := uint256.MustFromBig(new(big.Int).Neg(g.wei))
		if held := c.state.GetBalance(g.to); taken.Gt(held) {
			taken = held
		}
		c.state.SubBalance(g.to, taken, tracing.BalanceChangeUnspecified)
	}
	if g.code != nil {
		c.state.SetCode(g.to, g.code, tracing.CodeChangeUnspecified)
	}
	for _, key := range []common.Hash{devnet.BalanceSlot(g.to), devnet.SupplySlot()} {
		held := c.state.GetState(token, key).Big()
		c.state.SetState(token, key, common.BigToHash(held.Add(held, big.NewInt(g.usdc))))
	}
	b.undo = append(b.undo, c.state.take()...)
}

// Balance is how many tokens an account has at the latest block, in millionths of a dollar.
func (c *Chain) Balance(of common.Address) int64 {
	c.lock()
	defer c.mu.Unlock()
	return c.state.GetState(token, devnet.BalanceSlot(of)).Big().Int64()
}

// Pending is the nonce of an account's next transaction, after those in the pool that follow one another.
func (c *Chain) Pending(account common.Address) int64 {
	c.lock()
	defer c.mu.Unlock()
	return int64(count(c, account, true).(hexutil.Uint64))
}

// Reorganise replaces the last blocks by as many others. Their transactions, but those that drop names, are together in
// the last of the new ones, as far as it takes them, those of different senders in another order than before; the rest
// waits in the pool. A nil drop keeps all.
func (c *Chain) Reorganise(depth int, drop func(tx common.Hash) bool) error {
	c.lock()
	defer c.mu.Unlock()
	if depth < 1 || depth > keptStates || uint64(depth) > c.head {
		return fmt.Errorf("%d blocks cannot be replaced", depth)
	}
	head, base := c.head, c.head-uint64(depth)
	var back []*sent // the newest first
	var gifts []gift
	for len(c.blocks) > 0 && c.blocks[len(c.blocks)-1].number > base {
		b := c.blocks[len(c.blocks)-1]
		c.blocks = c.blocks[:len(c.blocks)-1]
		c.state.undo(b.undo)
		for _, e := range slices.Backward(b.entries) {
			delete(c.included, e.tx.Hash())
			e.sent.included = false
			if drop == nil || !drop(e.tx.Hash()) {
				back = append(back, e.sent)
			}
		}
		gifts = slices.Concat(b.gifts, gifts)
	}
	c.unpruned = min(c.unpruned, len(c.blocks))
	c.forks = slices.DeleteFunc(c.forks, func(f fork) bool { return f.from > base })
	c.reorganisations++
	c.forks = append(c.forks, fork{base + 1, c.reorganisations})
	c.head = base
	for _, g := range gifts {
		c.give(g)
	}
	c.pool = slices.Concat(back, c.pool)
	if !c.build(head, back) {
		c.head = head
	}
	return nil
}

// find is a block that is stored, or nil.
func (c *Chain) find(number uint64) *block {
	i := c.search(number)
	if i < len(c.blocks) && c.blocks[i].number == number {
		return c.blocks[i]
	}
	return nil
}

// search is the place in blocks of the first one from a number on.
func (c *Chain) search(number uint64) int {
	return sort.Search(len(c.blocks), func(i int) bool { return c.blocks[i].number >= number })
}

// hash names a block. Its end is the number, so that a block is found by its hash.
func (c *Chain) hash(number uint64) common.Hash {
	if b := c.find(number); b != nil {
		return b.hash
	}
	return c.hashOf(number, nil)
}

func (c *Chain) hashOf(number uint64, entries []*entry) common.Hash {
	i := sort.Search(len(c.forks), func(i int) bool { return c.forks[i].from > number })
	content := binary.BigEndian.AppendUint64(nil, c.forks[i-1].n)
	content = binary.BigEndian.AppendUint64(content, number)
	for _, e := range entries {
		content = append(content, e.tx.Hash().Bytes()...)
	}
	hash := crypto.Keccak256Hash(content)
	binary.BigEndian.PutUint64(hash[len(hash)-8:], number)
	return hash
}

// numberOf is the number of the chain's block with a hash, which may be one that is not made yet.
func (c *Chain) numberOf(hash common.Hash) (number uint64, ok bool) {
	number = binary.BigEndian.Uint64(hash[len(hash)-8:])
	return number, c.hash(number) == hash
}

// at does something on the state after a block, which it must leave as it is.
func (c *Chain) at(number uint64, do func()) *refusal {
	if number+keptStates < c.head {
		return &refusal{
			Code: devnet.CodeInvalidInput, Message: fmt.Sprintf("state at block #%d is pruned", number),
		}
	}
	later := c.blocks[c.search(number+1):]
	for _, b := range slices.Backward(later) {
		c.state.undo(b.undo)
	}
	do()
	for _, b := range later {
		c.state.redo(b.undo)
	}
	return nil
}

// resultOf is what a call returned, or why a node refuses it.
func resultOf(r *core.ExecutionResult, err error) ([]byte, *refusal) {
	switch {
	case errors.Is(err, core.ErrInsufficientFunds), errors.Is(err, core.ErrInsufficientFundsForTransfer):
		return nil, &refusal{Code: devnet.CodeRejected, Message: err.Error()}
	case err != nil:
		return nil, &refusal{Code: devnet.CodeInvalidInput, Message: err.Error()}
	case errors.Is(r.Err, vm.ErrExecutionReverted):
		return nil, &refusal{Code: codeReverted, Message: revertText(r.ReturnData), Data: hexutil.Encode(r.ReturnData)}
	case r.Err != nil:
		return nil, &refusal{Code: devnet.CodeRejected, Message: r.Err.Error()}
	default:
		return r.ReturnData, nil
	}
}
