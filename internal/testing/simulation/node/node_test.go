package node_test

import (
	"encoding/json"
	"errors"
	"math/big"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/testing/simulation/node"
	"github.com/roamcard/roamcard/internal/x402"
)

// pooling is a chain into whose pool a test sends.
type pooling struct {
	*testing.T
	*node.Chain
}

func newPooling(t *testing.T, c node.Config) pooling {
	c.Start = beginning
	return pooling{t, node.New(c)}
}

// at advances to a block.
func (p pooling) at(block int) { p.Advance(beginning.Add(time.Duration(block) * 2 * time.Second)) }

// send sends a transaction of no effect that offers a tip.
func (p pooling) send(
	by devnet.Wallet, nonce uint64, tip int64, change ...func(*types.DynamicFeeTx),
) (common.Hash, error) {
	p.Helper()
	tx := calls(nonce, common.Address{1}, 21_000, nil)
	tx.GasTipCap = big.NewInt(tip)
	for _, c := range change {
		c(tx)
	}
	_, raw := signed(p, by, tx)
	return p.Send(raw)
}

func (p pooling) accepts(by devnet.Wallet, nonce uint64, tip int64) common.Hash {
	p.Helper()
	hash, err := p.send(by, nonce, tip)
	if err != nil {
		p.Fatal(err)
	}
	return hash
}

func (p pooling) refused(err error, code int, message string) {
	p.Helper()
	no, ok := errors.AsType[*devnet.Refusal](err)
	if !ok || no.Code != code || !strings.HasPrefix(no.Message, message) {
		p.Errorf("error %v, want %d %q", err, code, message)
	}
}

func TestPoolRefusesWhatRethRefuses(t *testing.T) {
	p := newPooling(t, node.Config{})
	by := relayers[0]
	_, err := p.send(by, 1, 1)
	p.refused(err, -32000, "nonce too high")
	for nonce := range uint64(15) {
		p.accepts(by, nonce, 1e9)
	}
	dearer := func(tx *types.DynamicFeeTx) { tx.GasFeeCap = big.NewInt(55e9) }
	_, err = p.send(by, 3, 1e9)
	p.refused(err, -32000, "already known")
	_, err = p.send(by, 3, 2e9) // the cap is the same
	p.refused(err, -32000, "replacement transaction underpriced")
	if _, err = p.send(by, 3, 2e9, dearer); err != nil {
		t.Error(err)
	}
	p.accepts(by, 15, 1e9)
	_, err = p.send(by, 16, 1e9)
	p.refused(err, -32003, "txpool is full")
	if _, err = p.send(by, 0, 2e9, dearer); err != nil {
		t.Errorf("a replacement at the account's nonce in a full pool: %v", err)
	}
	p.at(1)
	_, err = p.send(by, 2, 3e9)
	p.refused(err, -32000, "nonce too low: next nonce 16, tx nonce 2")
	_, err = p.send(by, 16, 1, func(tx *types.DynamicFeeTx) { tx.Gas = 1<<24 + 1 })
	p.refused(err, -32000, "exceeds max transaction gas limit")
	_, err = p.send(by, 16, 1, func(tx *types.DynamicFeeTx) { tx.Gas = 20_999 })
	p.refused(err, -32000, "intrinsic gas too low")
	_, err = p.send(payee, 0, 1)
	p.refused(err, -32003, "insufficient funds for gas * price + value: have 0 want ")
	_, err = p.Send([]byte{1})
	p.refused(err, -32602, "failed to decode signed transaction")
}

func TestGapIsFilled(t *testing.T) {
	p := newPooling(t, node.Config{Pool: devnet.PoolRules{QueueGaps: true}})
	second := p.accepts(relayers[0], 1, 1e9)
	p.at(1)
	if p.Receipt(second) != nil {
		t.Error("a transaction came before the one of the nonce before")
	}
	first := p.accepts(relayers[0], 0, 1)
	p.at(2)
	for i, hash := range []common.Hash{first, second} {
		if r := p.Receipt(hash); r == nil || r.TransactionIndex != uint(i) {
			t.Errorf("transaction %d: %+v", i, r)
		}
	}
}

func TestHighestTipComesFirst(t *testing.T) {
	p := newPooling(t, node.Config{MaxTransactions: 2})
	low, high := p.accepts(relayers[0], 0, 1e9), p.accepts(relayers[1], 0, 3e9)
	middle := p.accepts(relayers[2], 0, 2e9)
	unsigned := p.Execute(addressOf(admin), token, x402.PausedCall())
	p.at(2)
	for i, hash := range []common.Hash{unsigned, high, middle, low} {
		r := p.Receipt(hash)
		if r == nil || r.BlockNumber.Int64() != int64(1+i/2) || r.TransactionIndex != uint(i%2) {
			t.Errorf("transaction %d: %+v", i, r)
		}
	}
}

func TestTransactionBelowBaseFeeWaits(t *testing.T) {
	p := newPooling(t, node.Config{})
	p.SetBaseFee(60e9)
	hash := p.accepts(relayers[0], 0, 1e9)
	p.at(1000)
	if p.Receipt(hash) != nil {
		t.Error("it is in a block")
	}
	p.SetBaseFee(49e9)
	p.at(1001)
	if r := p.Receipt(hash); r == nil || r.EffectiveGasPrice.Int64() != 50e9 {
		t.Errorf("%+v, want one at its cap", r)
	}
}

func TestReorganisationReplacesLastBlocks(t *testing.T) {
	p := newPooling(t, node.Config{})
	client := ethclient.NewClient(dial(t, p.Node("one")))
	hashAt := func(number int64) common.Hash {
		t.Helper()
		var b struct{ Hash common.Hash }
		at := hexutil.EncodeUint64(uint64(number))
		err := client.Client().CallContext(t.Context(), &b, "eth_getBlockByNumber", at, false)
		if err != nil {
			t.Fatal(err)
		}
		return b.Hash
	}
	p.at(5)
	p.Fund(addressOf(payee), 7, big.NewInt(9))
	first := p.accepts(relayers[0], 0, 1e9)
	p.at(6)
	second, lost := p.accepts(relayers[0], 1, 1e9), p.accepts(relayers[1], 0, 1e9)
	p.at(8)
	before := []common.Hash{hashAt(4), hashAt(5), hashAt(6), hashAt(7), hashAt(8)}
	if err := p.Reorganise(4, func(tx common.Hash) bool { return tx == lost }); err != nil {
		t.Fatal(err)
	}
	if number, _ := p.Head(); number != 8 {
		t.Errorf("head %d, want 8", number)
	}
	for i, old := range before {
		if now := hashAt(int64(4 + i)); (now == old) != (i == 0) {
			t.Errorf("block %d is %s, before %s", 4+i, now, old)
		}
	}
	for i, hash := range []common.Hash{first, second} {
		if r := p.Receipt(hash); r == nil || r.BlockNumber.Int64() != 8 || r.TransactionIndex != uint(i) {
			t.Errorf("transaction %d: %+v", i, r)
		}
	}
	if p.Receipt(lost) != nil || p.Balance(addressOf(payee)) != 7 {
		t.Errorf("dropped: %+v, given: %d", p.Receipt(lost), p.Balance(addressOf(payee)))
	}
	if _, err := client.BalanceAtHash(t.Context(), addressOf(payee), before[4]); err == nil {
		t.Error("a block that was replaced is known")
	}
}

// TestPastStateIsKept reads balances at each of the last blocks, in any order.
func TestPastStateIsKept(t *testing.T) {
	p := newPooling(t, node.Config{})
	client := ethclient.NewClient(dial(t, p.Node("one")))
	for i := range 300 {
		p.at(i)
		p.Fund(addressOf(payee), 1, big.NewInt(1))
	}
	for _, number := range []int64{299, 43, 170, 298} {
		wei, err := client.BalanceAt(t.Context(), addressOf(payee), big.NewInt(number))
		if err != nil || wei.Int64() != number+1 {
			t.Errorf("at %d: %v, %v", number, wei, err)
		}
	}
	_, err := client.BalanceAt(t.Context(), addressOf(payee), big.NewInt(42))
	if err == nil || !strings.Contains(err.Error(), "pruned") {
		t.Errorf("at 42: %v, want a pruned state", err)
	}
}

func TestLaggingNodeShowsThePast(t *testing.T) {
	p := newPooling(t, node.Config{})
	p.at(10)
	hash := p.accepts(relayers[0], 0, 1e9)
	p.at(12)
	p.Node("late").Lag(2)
	for name, want := range map[string]uint64{"late": 10, "other": 12} {
		client := ethclient.NewClient(dial(t, p.Node(name)))
		number, err := client.BlockNumber(t.Context())
		if err != nil || number != want {
			t.Errorf("%s: head %d, %v, want %d", name, number, err, want)
		}
		nonce, err := client.NonceAt(t.Context(), addressOf(relayers[0]), nil)
		_, missing := client.TransactionReceipt(t.Context(), hash)
		if err != nil || (nonce == 1) != (want == 12) || (missing == nil) != (want == 12) {
			t.Errorf("%s: nonce %d, %v, receipt %v", name, nonce, err, missing)
		}
		header, err := client.HeaderByNumber(t.Context(), big.NewInt(int64(rpc.SafeBlockNumber)))
		if err != nil || header.Number.Uint64() != want-4 {
			t.Errorf("%s: safe %v, %v", name, header, err)
		}
	}
}

// TestNodeAnswersOverListener asks as a test's judge does, and lets the node lie.
func TestNodeAnswersOverListener(t *testing.T) {
	p := newPooling(t, node.Config{})
	p.at(3)
	server := httptest.NewServer(p.Node("one"))
	defer server.Close()
	client, err := rpc.DialContext(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	p.Node("one").Lie(func(method string, _ []json.RawMessage) any {
		switch method {
		case "eth_blockNumber":
			return "0xff"
		case "eth_getLogs":
			return &devnet.Refusal{Code: -32005, Message: "busy"}
		}
		return nil
	})
	batch := []rpc.BatchElem{
		{Method: "eth_blockNumber", Result: new(hexutil.Uint64)},
		{Method: "eth_chainId", Result: new(hexutil.Uint64)},
		{Method: "eth_getLogs", Args: []any{map[string]any{}}, Result: new(any)},
		{Method: "eth_nothing", Result: new(any)},
	}
	if err := client.BatchCallContext(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if *batch[0].Result.(*hexutil.Uint64) != 0xff || *batch[1].Result.(*hexutil.Uint64) != devnet.ChainID ||
		batch[2].Error == nil || batch[3].Error == nil {
		t.Errorf("%+v", batch)
	}
}

// TestSameCallsMakeSameChain lets the same happen to several chains, and compares all that they answer.
func TestSameCallsMakeSameChain(t *testing.T) {
	story := func() (answers []string) {
		p := newPooling(t, node.Config{MaxTransactions: 3})
		for round := range uint64(6) {
			for i, by := range relayers {
				p.accepts(by, round, int64(1e9)+int64(i%2))
			}
			p.Execute(addressOf(admin), token, x402.PausedCall())
			p.Fund(addressOf(payee), int64(round), nil)
			p.at(int(round) * 2)
		}
		if err := p.Reorganise(7, func(tx common.Hash) bool { return tx[0]%4 == 0 }); err != nil {
			t.Fatal(err)
		}
		p.at(20)
		client := dial(t, p.Node("one"))
		for number := range hexutil.Uint64(21) {
			var block json.RawMessage
			if err := client.CallContext(t.Context(), &block, "eth_getBlockByNumber", number, true); err != nil {
				t.Fatal(err)
			}
			answers = append(answers, string(block))
		}
		return answers
	}
	first := story()
	for range 20 {
		if diff := cmp.Diff(first, story()); diff != "" {
			t.Fatal(diff)
		}
	}
}
