package node_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/crypto"
)

// program assembles byte code.
type program []byte

func (p *program) op(codes ...vm.OpCode) {
	for _, c := range codes {
		*p = append(*p, byte(c))
	}
}

// push puts values onto the stack, the first one deepest.
func (p *program) push(values ...[]byte) {
	for _, v := range values {
		*p = append(append(*p, byte(vm.PUSH1)+byte(len(v)-1)), v...)
	}
}

// tell logs the value on top of the stack.
func (p *program) tell() {
	p.push([]byte{0})
	p.op(vm.MSTORE)
	p.push([]byte{32}, []byte{0})
	p.op(vm.LOG0)
}

// call calls an address, with or without value, and drops the result.
func (p *program) call(kind vm.OpCode, to common.Address, gas uint16, value byte) {
	p.push([]byte{0}, []byte{0}, []byte{0}, []byte{0})
	if kind == vm.CALL {
		p.push([]byte{value})
	}
	p.push(to.Bytes(), []byte{byte(gas >> 8), byte(gas)})
	p.op(kind, vm.POP)
}

// create makes a contract from a short program, by its address or by its code.
func (p *program) create(kind vm.OpCode, code program) {
	p.push(code, []byte{0})
	p.op(vm.MSTORE)
	if kind == vm.CREATE2 {
		p.push([]byte{0})
	}
	p.push([]byte{byte(len(code))}, []byte{byte(32 - len(code))}, []byte{0})
	p.op(kind, vm.POP)
}

// draw is a random program: it stores, for good or for the transaction, loads, calls the others, makes contracts that
// destroy themselves, tells the gas that it has left, and ends well or not.
func draw(r *rand.Rand, others []common.Address) program {
	var p program
	word := func(n int) []byte { return []byte{byte(r.IntN(n))} }
	other := func() common.Address { return others[r.IntN(len(others))] }
	gone := program(common.FromHex("6001600055" + "33" + "ff")) // stores, and destroys itself
	for range 6 + r.IntN(8) {
		switch r.IntN(12) {
		case 0, 1:
			p.push(word(3), word(3))
			p.op(vm.SSTORE)
		case 2, 3:
			p.push(word(3))
			p.op(vm.SLOAD)
			p.tell()
		case 4:
			p.push(word(3), word(2))
			p.op(vm.TSTORE)
		case 5:
			p.push(word(2))
			p.op(vm.TLOAD)
			p.tell()
		case 6:
			p.op(vm.COINBASE, vm.BALANCE, vm.POP)
			p.push(other().Bytes())
			p.op(vm.EXTCODEHASH)
			p.tell()
		case 7:
			p.op(vm.GAS)
			p.tell()
		case 8:
			p.create([]vm.OpCode{vm.CREATE, vm.CREATE2}[r.IntN(2)], gone)
		default:
			kind := []vm.OpCode{vm.CALL, vm.DELEGATECALL, vm.DELEGATECALL, vm.STATICCALL}[r.IntN(4)]
			p.call(kind, other(), uint16(20_000+r.IntN(40_000)), word(2)[0])
		}
	}
	switch r.IntN(8) {
	case 0, 1, 2:
		p.push([]byte{0}, []byte{0})
		p.op(vm.REVERT)
	case 3:
		p.push(other().Bytes())
		p.op(vm.SELFDESTRUCT)
	default:
		p.op(vm.STOP)
	}
	return p
}

// TestRandomProgramsCostTheSame lets random programs call one another on anvil and on a simulated chain. The gas that
// they use shows what was warm, original, refunded and taken back.
func TestRandomProgramsCostTheSame(t *testing.T) {
	w := newTwins(t)
	r := rand.New(rand.NewPCG(3, 9))
	by := relayers[0]
	for round := range 20 {
		const programs = 5
		others := []common.Address{{9: byte(round + 1)}} // one that does not exist
		for i := range uint64(programs) {
			others = append(others, crypto.CreateAddress(addressOf(by), w.nonces[by.Address]+i))
		}
		var sources []func() []byte
		for i, at := range others[1:] {
			source := draw(r, others)
			copies := append(common.FromHex("61"+"0000"+"80"+"600c"+"6000"+"39"+"6000"+"f3"), source...)
			copies[1], copies[2] = byte(len(source)>>8), byte(len(source))
			sources = append(sources, w.by(by, nil, 1_000_000, copies))
			if i%2 == 0 {
				w.ask(w.anvil, nil, "anvil_setBalance", at, hexutil.Uint64(100))
				w.chain.Fund(at, 0, big.NewInt(100))
			}
		}
		w.block(fmt.Sprintf("round %d, made", round), sources...)
		for range 3 {
			var all []func() []byte
			for range 4 {
				all = append(all, w.by(by, &others[1+r.IntN(programs)], uint64(80_000+r.IntN(500_000)), nil))
			}
			w.block(fmt.Sprintf("round %d", round), all...)
		}
	}
	for _, at := range []string{by.Address, "0x0900000000000000000000000000000000000000"} {
		w.same("balance", "eth_getBalance", at, "latest")
	}
}
