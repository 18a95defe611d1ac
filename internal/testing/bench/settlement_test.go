package bench

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	// perBlock is how many payments wait for each block, in whatever transactions.
	perBlock = 100
	// Gas limits: of a payment with a margin, and of a batch without its payments.
	paymentGas, batchGas = 110_000, 60_000
)

// BenchmarkSettlement moves b.N payments of as many payers on the development chain: each in a transaction of
// its own, as the relayer does, and 20 and 100 to a transaction by Multicall3.
func BenchmarkSettlement(b *testing.B) {
	chain, err := devnet.StartChain(b.Context(), devnet.ChainConfig{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { chain.Close() })
	node, err := rpc.DialContext(b.Context(), chain.RPCURL)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(node.Close)
	relayer, err := crypto.HexToECDSA(strings.TrimPrefix(devnet.WalletsOf(devnet.RoleRelayer)[0].PrivateKey, "0x"))
	if err != nil {
		b.Fatal(err)
	}
	s := relaying{node: node, relayer: relayer}
	s.call(b, nil, "evm_setAutomine", false)
	s.fund(b, payee)
	for _, size := range []int{1, 20, 100} {
		b.Run(fmt.Sprint("by", size), func(b *testing.B) { s.measure(b, size) })
	}
}

type relaying struct {
	node    *rpc.Client
	relayer *ecdsa.PrivateKey
}

func (s relaying) call(b *testing.B, result any, method string, args ...any) {
	b.Helper()
	if err := s.node.CallContext(context.WithoutCancel(b.Context()), result, method, args...); err != nil {
		b.Fatalf("%s: %v", method, err)
	}
}

// fund gives an account the price of a card: the token keeps balances in its slot 2.
func (s relaying) fund(b *testing.B, account x402.Address) {
	b.Helper()
	var slot [64]byte
	copy(slot[12:], account[:])
	slot[63] = 2
	s.call(b, nil, "anvil_setStorageAt", usdc().String(), crypto.Keccak256Hash(slot[:]),
		common.BigToHash(card.Price.USDC().Big()))
}

func (s relaying) measure(b *testing.B, size int) {
	transfers := s.transfers(b)
	var nonce hexutil.Uint64
	s.call(b, &nonce, "eth_getTransactionCount", addressOf(s.relayer).String(), "latest")
	before, gas := s.balance(b), uint64(0)
	b.ResetTimer()
	for begin := 0; begin < b.N; begin += perBlock {
		waiting := transfers[begin:min(begin+perBlock, b.N)]
		sent := (len(waiting) + size - 1) / size
		inParallel(sent, 4, func(_, i int) {
			s.send(b, uint64(nonce)+uint64(i), waiting[i*size:min((i+1)*size, len(waiting))])
		})
		nonce += hexutil.Uint64(sent)
		s.call(b, nil, "evm_mine")
		var block struct {
			GasUsed      hexutil.Uint64 `json:"gasUsed"`
			Transactions []common.Hash  `json:"transactions"`
		}
		s.call(b, &block, "eth_getBlockByNumber", "latest", false)
		if len(block.Transactions) != sent {
			b.Fatalf("%d of %d transactions in the block", len(block.Transactions), sent)
		}
		gas += uint64(block.GasUsed)
	}
	b.StopTimer()
	if moved := s.balance(b) - before; moved != int64(b.N)*int64(card.Price.USDC()) {
		b.Fatalf("%d arrived of %d payments", moved, b.N)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pay/s")
	b.ReportMetric(float64(gas)/float64(b.N), "gas/pay")
}

// transfers are b.N signed authorizations, each of a payer with just enough, as calls of the token.
func (s relaying) transfers(b *testing.B) [][]byte {
	b.Helper()
	all := make([][]byte, b.N)
	for i := range all {
		payer := newKey(b)
		s.fund(b, addressOf(payer))
		a := x402.Authorization{
			From: addressOf(payer), To: payee, Value: card.Price.USDC(), ValidBefore: uint64(time.Now().Add(time.Hour).Unix()),
			Nonce: newNonce(),
		}
		signature, err := curve.Sign(domain(), a, payer)
		if err != nil {
			b.Fatal(err)
		}
		all[i] = x402.TransferCall(a, signature)
	}
	return all
}

// send sends payments in one transaction: one alone as it is, several by Multicall3.
func (s relaying) send(b *testing.B, nonce uint64, transfers [][]byte) {
	to, data, gas := common.Address(usdc()), transfers[0], uint64(paymentGas)
	if len(transfers) > 1 {
		to, data, gas = common.HexToAddress(devnet.MulticallAddress), aggregate(transfers), uint64(batchGas+
			paymentGas*len(transfers))
	}
	chain := big.NewInt(devnet.ChainID)
	tx, err := types.SignNewTx(s.relayer, types.LatestSignerForChainID(chain), &types.DynamicFeeTx{
		ChainID: chain, Nonce: nonce, GasTipCap: big.NewInt(1e9), GasFeeCap: big.NewInt(50e9), Gas: gas, To: &to, Data: data,
	})
	if err != nil {
		b.Error(err)
		return
	}
	raw, err := tx.MarshalBinary()
	if err == nil {
		err = s.node.CallContext(context.WithoutCancel(b.Context()), nil, "eth_sendRawTransaction", hexutil.Encode(raw))
	}
	if err != nil {
		b.Error(err)
	}
}

const multicallABI = `[{"type":"function","name":"aggregate3","inputs":[{"type":"tuple[]","components":[
	{"name":"target","type":"address"},{"name":"allowFailure","type":"bool"},{"name":"callData","type":"bytes"}]}]}]`

// aggregate is a call of Multicall3 with calls of the token, each allowed to fail.
func aggregate(transfers [][]byte) []byte {
	type call3 struct {
		Target       common.Address
		AllowFailure bool
		CallData     []byte
	}
	calls := make([]call3, len(transfers))
	for i, t := range transfers {
		calls[i] = call3{common.Address(usdc()), true, t}
	}
	contract, err := abi.JSON(strings.NewReader(multicallABI))
	if err != nil {
		panic(err) // a constant
	}
	data, err := contract.Pack("aggregate3", calls)
	if err != nil {
		panic(err) // of the constant's types
	}
	return data
}

func (s relaying) balance(b *testing.B) int64 {
	b.Helper()
	var word hexutil.Bytes
	s.call(b, &word, "eth_call", map[string]any{"to": usdc().String(), "data": hexutil.Encode(x402.BalanceCall(payee))},
		"latest")
	return new(big.Int).SetBytes(word).Int64()
}
