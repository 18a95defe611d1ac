package settler_test

import (
	"crypto/ecdsa"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
)

const price = money.USDC(25_000_000)

var (
	token  = x402.Address(common.HexToAddress(devnet.USDCAddress))
	payee  = x402.Address(common.HexToAddress(devnet.WalletsOf(devnet.RolePayee)[0].Address))
	domain = x402.Domain{Name: "USD Coin", Version: "2", ChainID: devnet.ChainID, Contract: token}
)

// bench is a development chain that makes blocks when it is told to.
type bench struct {
	*testing.T
	url     string
	node    *rpc.Client
	relayer *ecdsa.PrivateKey
}

func newBench(t *testing.T) *bench {
	t.Helper()
	if _, err := devnet.FindAnvil(); err != nil {
		t.Skip(err)
	}
	dev, err := devnet.StartChain(t.Context(), devnet.ChainConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	node, err := rpc.DialContext(t.Context(), dev.RPCURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.Close)
	b := &bench{T: t, url: dev.RPCURL, node: node, relayer: keyOf(devnet.WalletsOf(devnet.RoleRelayer)[0])}
	b.control("evm_setAutomine", false)
	return b
}

// in is b for a subtest.
func (b *bench) in(t *testing.T) *bench {
	in := *b
	in.T = t
	return &in
}

func keyOf(w devnet.Wallet) *ecdsa.PrivateKey {
	key, err := crypto.HexToECDSA(w.PrivateKey[2:])
	if err != nil {
		panic(err) // a constant
	}
	return key
}

func (b *bench) control(method string, args ...any) {
	b.Helper()
	if err := b.node.CallContext(b.Context(), nil, method, args...); err != nil {
		b.Fatalf("%s: %v", method, err)
	}
}

// write sets an entry of one of the token's mappings.
func (b *bench) write(mapping byte, account x402.Address, value int64) {
	b.Helper()
	word := account.Word()
	slot := crypto.Keccak256Hash(word[:], common.LeftPadBytes([]byte{mapping}, 32))
	b.control("anvil_setStorageAt", token.String(), slot, common.BigToHash(big.NewInt(value)))
}

// The token's mappings, by slot.
const balances, blacklist = 2, 6

// payer is an account with the price of a card, and no code.
type payer struct {
	key     *ecdsa.PrivateKey
	address x402.Address
}

func (b *bench) newPayer() payer {
	b.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		b.Fatal(err)
	}
	p := payer{key, curve.AddressOf(key)}
	b.write(balances, p.address, int64(price))
	return p
}

// pays is the payer's authorization, changed before it is signed.
func (b *bench) pays(p payer, change ...func(*x402.Authorization)) settler.Member {
	b.Helper()
	a := x402.Authorization{
		From: p.address, To: payee, Value: price, ValidBefore: uint64(time.Now().Add(time.Hour).Unix()),
		Nonce: x402.Hash(crypto.Keccak256(p.address[:])),
	}
	for _, c := range change {
		c(&a)
	}
	s, err := curve.Sign(domain, a, p.key)
	if err != nil {
		b.Fatal(err)
	}
	return settler.Member{Authorization: a, Signature: s}
}

func (b *bench) sound(n int) []settler.Member {
	b.Helper()
	members := make([]settler.Member, n)
	for i := range members {
		members[i] = b.pays(b.newPayer())
	}
	return members
}

// withCode is the payment of a new payer who delegates to code (EIP-7702).
func (b *bench) withCode(code string) settler.Member {
	b.Helper()
	p := b.newPayer()
	delegate := x402.Address(crypto.Keccak256([]byte(code))[12:])
	b.control("anvil_setCode", delegate.String(), code)
	b.control("anvil_setCode", p.address.String(), "0xef0100"+delegate.Lower()[2:])
	return b.pays(p)
}

func (b *bench) balance(of x402.Address) money.USDC {
	b.Helper()
	var answer hexutil.Bytes
	call := map[string]any{"to": token.String(), "data": hexutil.Bytes(x402.BalanceCall(of))}
	if err := b.node.CallContext(b.Context(), &answer, "eth_call", call, "latest"); err != nil {
		b.Fatal(err)
	}
	return money.USDC(new(big.Int).SetBytes(answer).Int64())
}

// call is what a transaction would answer.
func (b *bench) call(to x402.Address, data []byte, gas uint64) ([]byte, error) {
	b.Helper()
	var answer hexutil.Bytes
	err := b.node.CallContext(b.Context(), &answer, "eth_call", map[string]any{
		"from": curve.AddressOf(b.relayer).String(), "to": to.String(), "gas": hexutil.Uint64(gas),
		"data": hexutil.Bytes(data),
	}, "latest")
	return answer, err
}

// receipt is the part of one that is used here.
type receipt struct {
	Status, GasUsed hexutil.Uint64
	Logs            []types.Log
}

// ok reports that the transaction did not revert.
func (r receipt) ok() bool { return uint64(r.Status) == types.ReceiptStatusSuccessful }

// send puts a transaction into a block of its own.
func (b *bench) send(to x402.Address, data []byte, gas uint64, wei int64) receipt {
	b.Helper()
	var nonce hexutil.Uint64
	if err := b.node.CallContext(b.Context(), &nonce, "eth_getTransactionCount",
		curve.AddressOf(b.relayer).String(), "latest"); err != nil {
		b.Fatal(err)
	}
	chain, target := big.NewInt(devnet.ChainID), common.Address(to)
	tx := types.MustSignNewTx(b.relayer, types.LatestSignerForChainID(chain), &types.DynamicFeeTx{
		ChainID: chain, Nonce: uint64(nonce), GasTipCap: big.NewInt(1e9), GasFeeCap: big.NewInt(50e9), Gas: gas,
		To: &target, Value: big.NewInt(wei), Data: data,
	})
	raw, err := tx.MarshalBinary()
	if err != nil {
		b.Fatal(err)
	}
	b.control("eth_sendRawTransaction", hexutil.Encode(raw))
	b.control("evm_mine")
	var found *receipt
	if err := b.node.CallContext(b.Context(), &found, "eth_getTransactionReceipt", tx.Hash()); err != nil || found == nil {
		b.Fatalf("no receipt: %v", err)
	}
	return *found
}

// settle simulates a batch and then sends it: the outcomes must be the same, by the token's events.
func (b *bench) settle(c settler.Contract, members []settler.Member, gas uint64) ([]settler.Outcome, receipt) {
	b.Helper()
	data := c.Call(members)
	answer, err := b.call(c.Address(), data, gas)
	if err != nil {
		b.Fatalf("simulate: %v", err)
	}
	outcomes, err := c.Results(answer, len(members))
	if err != nil {
		b.Fatal(err)
	}
	got := b.send(c.Address(), data, gas, 0)
	if !got.ok() {
		b.Fatalf("the batch reverted with %d of %d gas", got.GasUsed, gas)
	}
	var want, used [][2]common.Hash
	for i, m := range members {
		if outcomes[i] == settler.Transferred {
			want = append(want, [2]common.Hash{common.Hash(m.Authorization.From.Word()), common.Hash(m.Authorization.Nonce)})
		}
	}
	for _, l := range got.Logs {
		if l.Address == common.Address(token) && l.Topics[0] == common.Hash(x402.TopicUsed) {
			used = append(used, [2]common.Hash(l.Topics[1:]))
		}
	}
	if diff := cmp.Diff(want, used); diff != "" {
		b.Errorf("the simulation and the transaction differ: %s", diff)
	}
	return outcomes, got
}

// wantMoved runs do and checks what the payee has got by it.
func (b *bench) wantMoved(payments int, do func()) {
	b.Helper()
	before := b.balance(payee)
	do()
	if moved := b.balance(payee) - before; moved != price*money.USDC(payments) {
		b.Errorf("%s moved, want %d payments", moved, payments)
	}
}

// all are n equal outcomes.
func all(o settler.Outcome, n int) []settler.Outcome { return slices.Repeat([]settler.Outcome{o}, n) }

func (b *bench) wantOutcomes(got, want []settler.Outcome) {
	b.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.Errorf("outcomes: %s", diff)
	}
}
