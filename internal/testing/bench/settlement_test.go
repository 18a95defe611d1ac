package bench

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"math/big"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	// perBlock is how many payments wait for each block, in whatever transactions.
	perBlock = 100
	// paymentGas is the gas limit of a payment alone, with a margin.
	paymentGas = 110_000
)

// BenchmarkSettlement moves b.N payments of as many payers on the development chain: each in a transaction of
// its own, and 20 and 100 to a transaction by our settler contract and by Multicall3. It measures what they cost on the
// chain; how fast they are is decided by blocks and by the pool, as BenchmarkPurchases shows.
func BenchmarkSettlement(b *testing.B) {
	chain, err := devnet.StartChain(b.Context(), devnet.ChainConfig{Slots: perBlock, QueueGaps: true})
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
	b.Run("alone", func(b *testing.B) { s.measure(b, settler.Contract{}, 1) })
	token := x402.Address(usdc())
	for _, size := range []int{20, 100} {
		b.Run(fmt.Sprint("settler", size), func(b *testing.B) { s.measure(b, settler.Own(token), size) })
		b.Run(fmt.Sprint("multicall", size), func(b *testing.B) { s.measure(b, settler.Multicall3(token), size) })
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

// measure settles by a contract, or each payment alone without one.
func (s relaying) measure(b *testing.B, by settler.Contract, size int) {
	payments := s.payments(b)
	var nonce hexutil.Uint64
	s.call(b, &nonce, "eth_getTransactionCount", addressOf(s.relayer).String(), "latest")
	before, gas := s.balance(b), uint64(0)
	var bytes atomic.Int64
	b.ResetTimer()
	for begin := 0; begin < b.N; begin += perBlock {
		waiting := payments[begin:min(begin+perBlock, b.N)]
		sent := (len(waiting) + size - 1) / size
		inParallel(sent, 4, func(_, i int) {
			bytes.Add(s.send(b, uint64(nonce)+uint64(i), by, waiting[i*size:min((i+1)*size, len(waiting))]))
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
	b.ReportMetric(float64(gas)/float64(b.N), "gas/pay")
	b.ReportMetric(float64(bytes.Load())/float64(b.N), "bytes/pay")
}

// payments are b.N signed authorizations, each of a payer with just enough.
func (s relaying) payments(b *testing.B) []settler.Member {
	b.Helper()
	all := make([]settler.Member, b.N)
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
		all[i] = settler.Member{Authorization: a, Signature: signature}
	}
	return all
}

// send sends payments in one transaction, and returns its size.
func (s relaying) send(b *testing.B, nonce uint64, by settler.Contract, payments []settler.Member) int64 {
	to, gas := common.Address(usdc()), uint64(paymentGas)
	data := x402.TransferCall(payments[0].Authorization, payments[0].Signature)
	if !by.IsZero() {
		to, data, gas = common.Address(by.Address()), by.Call(payments), by.Gas(len(payments))
	}
	chain := big.NewInt(devnet.ChainID)
	tx, err := types.SignNewTx(s.relayer, types.LatestSignerForChainID(chain), &types.DynamicFeeTx{
		ChainID: chain, Nonce: nonce, GasTipCap: big.NewInt(1e9), GasFeeCap: big.NewInt(50e9), Gas: gas, To: &to, Data: data,
	})
	if err != nil {
		b.Error(err)
		return 0
	}
	raw, err := tx.MarshalBinary()
	if err == nil {
		err = s.node.CallContext(context.WithoutCancel(b.Context()), nil, "eth_sendRawTransaction", hexutil.Encode(raw))
	}
	if err != nil {
		b.Error(err)
	}
	return int64(len(raw))
}

func (s relaying) balance(b *testing.B) int64 {
	b.Helper()
	var word hexutil.Bytes
	s.call(b, &word, "eth_call", map[string]any{"to": usdc().String(), "data": hexutil.Encode(x402.BalanceCall(payee))},
		"latest")
	return new(big.Int).SetBytes(word).Int64()
}
