package chain_test

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"log/slog"
	"math/big"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/x402"
)

const price = money.USDC(25_000_000)

// token is where the development chain has its USDC.
var token = common.HexToAddress(devnet.USDCAddress)

var domain = x402.Domain{Name: "USD Coin", Version: "2", ChainID: devnet.ChainID, Contract: x402.Address(token)}

// bench is a fresh development chain, a relayer on it, and the means to disturb both.
type bench struct {
	*testing.T
	url      string
	dev      *devnet.Chain
	node     *rpc.Client
	chain    *chain.Chain
	attempts *paymenttest.Transactions
	relayer  *chain.Relayer
	// fresh is the chain that shares nothing, where chain does.
	fresh *chain.Chain
	payee x402.Address
	// ahead is how far the clock of the program under test is ahead, in seconds.
	ahead atomic.Int64
	// made numbers the authorizations.
	made atomic.Uint64
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
	b := &bench{T: t, url: dev.RPCURL, dev: dev, payee: addressOf(devnet.WalletsOf(devnet.RolePayee)[0])}
	if b.node, err = rpc.DialContext(t.Context(), dev.RPCURL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.node.Close)
	b.attempts = paymenttest.NewTransactions(b.now)
	b.chain, err = chain.New(t.Context(), chain.Config{
		Endpoints: []chain.Endpoint{{URL: dev.RPCURL}}, Domain: domain,
		Finality: chain.Finality{Paid: "latest", Dead: "safe"}, CallTimeout: 10 * time.Second, Now: b.now,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.chain.Close)
	b.relayer = b.newRelayer(b.attempts)
	return b
}

func (b *bench) now() time.Time { return time.Now().Add(time.Duration(b.ahead.Load()) * time.Second) }

// newRelayer is another process with one key over the same store, or over one that misbehaves.
func (b *bench) newRelayer(attempts chain.Transactions) *chain.Relayer {
	b.Helper()
	r, err := chain.NewRelayer(chain.RelayerConfig{
		Chain: b.chain, Transactions: attempts, Keys: []payment.Signer{relayerKey(0)},
		BumpAfter: 10 * time.Second, ResendAfter: time.Nanosecond, Now: b.now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func keyOf(w devnet.Wallet) *ecdsa.PrivateKey {
	key, err := crypto.HexToECDSA(w.PrivateKey[2:])
	if err != nil {
		panic(err)
	}
	return key
}

func addressOf(w devnet.Wallet) x402.Address { return x402.Address(common.HexToAddress(w.Address)) }

func buyer(i int) devnet.Wallet { return devnet.WalletsOf(devnet.RoleBuyer)[i] }

// claim is a stored payment of a buyer, good for two minutes.
func (b *bench) claim(from devnet.Wallet) payment.Payment {
	b.Helper()
	a := x402.Authorization{From: addressOf(from), To: b.payee, Value: price, ValidBefore: uint64(b.now().Unix()) + 120,
		Nonce: x402.Hash(common.BigToHash(new(big.Int).SetUint64(b.made.Add(1))))}
	return payment.Payment{ID: uuid.New(), Status: payment.Claimed, Network: x402.NetworkID, Asset: domain.Contract,
		Authorization: a, Signature: b.sign(a, from), CreatedAt: b.now()}
}

func (b *bench) sign(a x402.Authorization, by devnet.Wallet) x402.Signature {
	b.Helper()
	s, err := curve.Sign(domain, a, keyOf(by))
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func (b *bench) submit(p payment.Payment) {
	b.Helper()
	if err := b.relayer.Submit(b.Context(), p); err != nil {
		b.Fatalf("submit: %v", err)
	}
}

func (b *bench) maintain() {
	b.Helper()
	if err := b.relayer.Maintain(b.Context()); err != nil {
		b.Fatalf("maintain: %v", err)
	}
}

func (b *bench) verdict(p payment.Payment) payment.Verdict {
	b.Helper()
	v, err := b.chain.Verdict(b.Context(), p.Authorization, p.CreatedAt.Add(-5*time.Minute))
	if err != nil {
		b.Fatalf("verdict: %v", err)
	}
	return v
}

// settles waits until the payment has moved, and returns its receipt.
func (b *bench) settles(p payment.Payment) payment.Receipt {
	b.Helper()
	var v payment.Verdict
	b.eventually("the payment moves", func() bool { v = b.verdict(p); return v.State == payment.Settled })
	if v.Receipt.Amount != p.Authorization.Value || v.Receipt.PayTo != p.Authorization.To ||
		v.Receipt.Payer != p.Authorization.From {
		b.Errorf("receipt %+v of another payment", v.Receipt)
	}
	return *v.Receipt
}

func (b *bench) eventually(what string, done func() bool) {
	b.Helper()
	eventually(b, what, done)
}

func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

// control calls the node for what only a test may do.
func (b *bench) control(method string, args ...any) {
	b.Helper()
	if err := b.node.CallContext(b.Context(), nil, method, args...); err != nil {
		b.Fatalf("%s: %v", method, err)
	}
}

func (b *bench) mine(blocks int) {
	b.Helper()
	b.control("anvil_mine", hexutil.EncodeUint64(uint64(blocks)))
}

// pass lets seconds go by, for the program and for the chain.
func (b *bench) pass(seconds int64) {
	b.Helper()
	b.ahead.Add(seconds)
	b.control("evm_increaseTime", hexutil.EncodeUint64(uint64(seconds)))
	b.mine(1)
}

// sendAs sends a call from a wallet and waits until it is included.
func (b *bench) sendAs(w devnet.Wallet, to common.Address, data []byte) common.Hash {
	b.Helper()
	hash := b.post(w, to, data)
	b.eventually("a test's transaction is included", func() bool {
		var found *struct{ Status hexutil.Uint64 }
		err := b.node.CallContext(b.Context(), &found, "eth_getTransactionReceipt", hash)
		if err == nil && found != nil && found.Status == 0 {
			b.Fatal("a test's transaction reverted")
		}
		return err == nil && found != nil
	})
	return hash
}

// post sends a call from a wallet, in front of what a relayer sends, and does not wait.
func (b *bench) post(w devnet.Wallet, to common.Address, data []byte) common.Hash {
	b.Helper()
	hash, err := b.send(w, to, data)
	if err != nil {
		b.Fatalf("send a test's transaction: %v", err)
	}
	return hash
}

// send is post where the node may refuse.
func (b *bench) send(w devnet.Wallet, to common.Address, data []byte) (common.Hash, error) {
	b.Helper()
	var nonce hexutil.Uint64
	if err := b.node.CallContext(b.Context(), &nonce, "eth_getTransactionCount", w.Address, "pending"); err != nil {
		b.Fatal(err)
	}
	tx := types.MustSignNewTx(keyOf(w), types.LatestSignerForChainID(big.NewInt(devnet.ChainID)), &types.DynamicFeeTx{
		ChainID: big.NewInt(devnet.ChainID), Nonce: uint64(nonce), GasTipCap: big.NewInt(1e9), GasFeeCap: big.NewInt(50e9),
		Gas: 500_000, To: &to, Data: data})
	raw, err := tx.MarshalBinary()
	if err != nil {
		b.Fatal(err)
	}
	return tx.Hash(), b.node.CallContext(b.Context(), nil, "eth_sendRawTransaction", hexutil.Encode(raw))
}

// stranger submits what it has seen of an authorization.
func (b *bench) stranger(a x402.Authorization, s x402.Signature) common.Hash {
	b.Helper()
	return b.sendAs(devnet.WalletsOf(devnet.RoleAdmin)[0], token, x402.TransferCall(a, s))
}

// waiting waits until so many transactions are in the pool.
func (b *bench) waiting(transactions uint64) {
	b.Helper()
	b.eventually("the transactions wait in the pool", func() bool {
		var status struct{ Pending hexutil.Uint64 }
		return b.node.CallContext(b.Context(), &status, "txpool_status") == nil && uint64(status.Pending) == transactions
	})
}

// transferCall moves plain USDC.
func transferCall(to x402.Address, amount money.USDC) []byte {
	word := to.Word()
	data := append(crypto.Keccak256([]byte("transfer(address,uint256)"))[:4], word[:]...)
	return append(data, common.LeftPadBytes(amount.Big().Bytes(), 32)...)
}

// cancel lets a payer cancel a nonce.
func (b *bench) cancel(payer devnet.Wallet, nonce x402.Hash) {
	b.Helper()
	word := addressOf(payer).Word()
	structHash := crypto.Keccak256(
		crypto.Keccak256([]byte("CancelAuthorization(address authorizer,bytes32 nonce)")), word[:], nonce[:],
	)
	separator := domain.Separator()
	signature, err := crypto.Sign(crypto.Keccak256([]byte{0x19, 0x01}, separator[:], structHash), keyOf(payer))
	if err != nil {
		b.Fatal(err)
	}
	selector := crypto.Keccak256([]byte("cancelAuthorization(address,bytes32,uint8,bytes32,bytes32)"))[:4]
	data := append(selector, word[:]...)
	data = append(data, nonce[:]...)
	data = append(data, common.LeftPadBytes([]byte{signature[64] + 27}, 32)...)
	b.sendAs(payer, token, append(data, signature[:64]...))
}

func (b *bench) balance(of x402.Address) money.USDC {
	b.Helper()
	amount, err := b.chain.Balance(b.Context(), of)
	if err != nil {
		b.Fatal(err)
	}
	return amount
}

func (b *bench) wantPayee(want money.USDC) {
	b.Helper()
	if got := b.balance(b.payee); got != want {
		b.Errorf("the payee has %s, want %s", got, want)
	}
}

// wantAttempts checks how often the relayer tried to settle the payment.
func (b *bench) wantAttempts(p payment.Payment, statuses ...payment.TransactionStatus) []payment.Transaction {
	b.Helper()
	all := b.attempts.All(p.ID)
	got := make([]payment.TransactionStatus, len(all))
	for i, a := range all {
		got[i] = a.Status
	}
	if len(got) != len(statuses) {
		b.Fatalf("attempts %v, want %v", got, statuses)
	}
	for i := range got {
		if got[i] != statuses[i] {
			b.Fatalf("attempts %v, want %v", got, statuses)
		}
	}
	return all
}

// reasonOf is empty without an error, else the reason of the rejection in it.
func (b *bench) reasonOf(err error) string {
	b.Helper()
	if err == nil {
		return ""
	}
	rejection, ok := errors.AsType[*payment.Rejection](err)
	if !ok {
		b.Fatalf("not a rejection: %v", err)
	}
	return rejection.Reason
}

// number reads a quantity of the node's.
func number(t *testing.T, quantity string) uint64 {
	t.Helper()
	n, err := hexutil.DecodeUint64(quantity)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
