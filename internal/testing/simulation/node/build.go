package node

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"
	"github.com/holiman/uint256"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
)

var token = common.HexToAddress(devnet.USDCAddress)

// miner gets the tips.
var miner = common.HexToAddress("0x4200000000000000000000000000000000000011")

// rules are those of the hard fork Osaka, since the first block.
var rules = func() *params.ChainConfig {
	all := *params.MergedTestChainConfig
	all.ChainID = big.NewInt(devnet.ChainID)
	all.AmsterdamTime, all.BogotaTime = nil, nil
	return &all
}()

// evm is the machine at a block.
func (c *Chain) evm(number uint64) *vm.EVM {
	random := common.BigToHash(new(big.Int).SetUint64(number))
	machine := vm.NewEVM(vm.BlockContext{
		CanTransfer: core.CanTransfer, Transfer: core.Transfer, GetHash: c.hash, Coinbase: miner, GasLimit: blockGas,
		BlockNumber: new(big.Int).SetUint64(number), Time: uint64(c.time(number).Unix()), Difficulty: new(big.Int),
		BaseFee: c.baseFee(number), BlobBaseFee: big.NewInt(1), Random: &random,
	}, c.state, rules, vm.Config{})
	machine.SetJumpDestCache(c.jumps)
	machine.SetPrecompileCache(c.precompiled)
	return machine
}

// build makes the block of a number, the head then, of what waits and can be executed, and is false when it is empty.
func (c *Chain) build(number uint64, waiting []*sent) bool {
	b := &block{number: number}
	machine := c.evm(number)
	defer machine.Release()
	gas := core.NewGasPool(blockGas)
	passed := map[*sent]bool{}
	for c.config.MaxTransactions == 0 || len(b.entries) < c.config.MaxTransactions {
		next := c.best(waiting, machine.Context.BaseFee, passed)
		if next == nil {
			break
		}
		passed[next] = true
		c.apply(machine, b, next, gas)
	}
	if len(b.entries) == 0 {
		return false
	}
	b.undo = c.state.take()
	b.hash = c.hashOf(number, b.entries)
	for i, l := range b.logs {
		l.Index, l.BlockNumber, l.BlockHash, l.BlockTimestamp = uint(i), number, b.hash, machine.Context.Time
	}
	for i, e := range b.entries {
		e.receipt.BlockHash, e.receipt.TransactionIndex = b.hash, uint(i)
		c.included[e.tx.Hash()], e.sent.included = e, true
	}
	c.blocks, c.head = append(c.blocks, b), number
	c.remove()
	for ; c.blocks[c.unpruned].number+keptStates < number; c.unpruned++ {
		c.blocks[c.unpruned].undo = nil
	}
	return true
}

// apply executes a transaction in a block, or passes one that the block cannot take.
func (c *Chain) apply(machine *vm.EVM, b *block, s *sent, gas *core.GasPool) {
	start, before := c.state.Snapshot(), gas.Snapshot()
	msg, err := c.message(s, machine.Context.BaseFee)
	if err != nil {
		return
	}
	machine.Config.NoBaseFee = s.unsigned
	c.state.begin()
	result, err := core.ApplyMessage(machine, msg, gas)
	if err != nil {
		c.state.RevertToSnapshot(start)
		gas.Set(before)
		return
	}
	c.state.finish(start)
	receipt := &types.Receipt{
		Type: s.tx.Type(), Status: types.ReceiptStatusSuccessful, CumulativeGasUsed: gas.CumulativeUsed(),
		TxHash: s.tx.Hash(), GasUsed: result.UsedGas, EffectiveGasPrice: msg.GasPrice.ToBig(),
		BlockNumber: machine.Context.BlockNumber, Logs: c.state.logs,
	}
	if result.Failed() {
		receipt.Status = types.ReceiptStatusFailed
	}
	if msg.To == nil {
		receipt.ContractAddress = crypto.CreateAddress(msg.From, s.tx.Nonce())
	}
	for _, l := range receipt.Logs {
		l.TxHash, l.TxIndex = s.tx.Hash(), uint(len(b.entries))
	}
	b.entries = append(b.entries, &entry{s, b, receipt})
	b.logs = append(b.logs, receipt.Logs...)
	b.gasUsed += result.UsedGas
}

func (c *Chain) message(s *sent, baseFee *big.Int) (*core.Message, error) {
	if !s.unsigned {
		return core.TransactionToMessage(s.tx, c.signer, baseFee)
	}
	free := new(uint256.Int)
	msg := &core.Message{
		From: s.from, To: s.tx.To(), Value: free, GasLimit: s.tx.Gas(), GasPrice: free, GasFeeCap: free, GasTipCap: free,
		Data: s.tx.Data(),
	}
	return msg.SkipNonceCheck().SkipEOACheck(), nil
}
