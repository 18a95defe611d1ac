package devnet

import (
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"
)

// pooling is a chain without blocks, and the first relayer sending to it.
type pooling struct {
	*testing.T
	client *rpc.Client
	tip    int64
}

func newPooling(t *testing.T, cfg ChainConfig) *pooling {
	t.Helper()
	chain := startChainForTest(t, cfg)
	client, err := rpc.DialContext(t.Context(), chain.RPCURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	p := &pooling{T: t, client: client, tip: 1e9}
	p.control("evm_setAutomine", false)
	return p
}

func (p *pooling) control(method string, args ...any) {
	p.Helper()
	if err := p.client.CallContext(p.Context(), nil, method, args...); err != nil {
		p.Fatalf("%s: %v", method, err)
	}
}

// send sends a transaction that does nothing.
func (p *pooling) send(nonce, gas uint64) error {
	p.Helper()
	key, err := crypto.HexToECDSA(strings.TrimPrefix(WalletsOf(RoleRelayer)[0].PrivateKey, "0x"))
	if err != nil {
		p.Fatal(err)
	}
	tx := types.MustSignNewTx(key, types.LatestSignerForChainID(big.NewInt(ChainID)), &types.DynamicFeeTx{
		ChainID: big.NewInt(ChainID), Nonce: nonce, GasTipCap: big.NewInt(p.tip), GasFeeCap: big.NewInt(50 * p.tip), Gas: gas,
		To: &common.Address{1},
	})
	raw, err := tx.MarshalBinary()
	if err != nil {
		p.Fatal(err)
	}
	return p.client.CallContext(p.Context(), nil, "eth_sendRawTransaction", hexutil.Encode(raw))
}

func (p *pooling) accepts(nonce uint64) {
	p.Helper()
	if err := p.send(nonce, 21_000); err != nil {
		p.Fatalf("nonce %d: %v", nonce, err)
	}
}

func (p *pooling) refuses(nonce, gas uint64, code int, message string) {
	p.Helper()
	p.refused(p.send(nonce, gas), code, message)
}

func (p *pooling) refused(err error, code int, message string) {
	p.Helper()
	answer, ok := errors.AsType[rpc.Error](err)
	if !ok || answer.ErrorCode() != code || answer.Error() != message {
		p.Errorf("error %v, want %d %q", err, code, message)
	}
}

func TestPoolTakesSixteenTransactionsOfOneSender(t *testing.T) {
	p := newPooling(t, ChainConfig{})
	for nonce := range uint64(defaultSlots) {
		p.accepts(nonce)
	}
	p.refuses(16, 21_000, CodeRejected, "txpool is full")
	p.refuses(3, 21_000, CodeInvalidInput, "already known")
	p.tip = 2e9
	p.accepts(0) // a replacement at the account's nonce
	p.refuses(15, 21_000, CodeRejected, "txpool is full")
	p.control("anvil_mine", "0x1")
	p.accepts(16)
}

func TestPoolCountsTransactionsBehindGap(t *testing.T) {
	p := newPooling(t, ChainConfig{QueueGaps: true})
	for nonce := range uint64(defaultSlots) {
		p.accepts(nonce + 5)
	}
	p.refuses(1, 21_000, CodeRejected, "txpool is full")
	p.accepts(0)
}

func TestPoolRefusesGaps(t *testing.T) {
	p := newPooling(t, ChainConfig{})
	p.refuses(1, 21_000, CodeInvalidInput, "nonce too high")
	p.accepts(0)
	p.accepts(1)
	p.control("anvil_dropAllTransactions")
	p.refuses(2, 21_000, CodeInvalidInput, "nonce too high")
}

func TestNodeRefusesTooMuchGasAndTooWideLogQueries(t *testing.T) {
	p := newPooling(t, ChainConfig{})
	p.refuses(0, maxTxGas+1, CodeInvalidInput, "exceeds max transaction gas limit")
	logs := func(filter map[string]string) error {
		return p.client.CallContext(t.Context(), nil, "eth_getLogs", filter)
	}
	p.control("anvil_mine", hexutil.EncodeUint64(maxLogRange+1))
	for _, filter := range []map[string]string{
		{"fromBlock": "0x0", "toBlock": "0x1"}, {"fromBlock": "0x2", "toBlock": "latest"}, {"fromBlock": "latest"}, {},
	} {
		if err := logs(filter); err != nil {
			t.Errorf("%v: %v", filter, err)
		}
	}
	for _, filter := range []map[string]string{
		{"fromBlock": "0x0", "toBlock": hexutil.EncodeUint64(maxLogRange + 1)},
		{"fromBlock": "0x0", "toBlock": "latest"}, {"fromBlock": "earliest", "toBlock": "pending"}, {"fromBlock": "0x0"},
	} {
		p.refused(logs(filter), CodeInvalidParam, "query exceeds max block range 2000")
	}
}

func TestNodeAnswersBatches(t *testing.T) {
	p := newPooling(t, ChainConfig{})
	batch := []rpc.BatchElem{
		{Method: "eth_chainId", Result: new(hexutil.Uint64)},
		{Method: "eth_getLogs", Args: []any{map[string]string{"fromBlock": "0x0", "toBlock": "0xffff"}}, Result: new(any)},
	}
	if err := p.client.BatchCallContext(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if got := *batch[0].Result.(*hexutil.Uint64); got != ChainID || batch[0].Error != nil {
		t.Errorf("chain id %d, %v", got, batch[0].Error)
	}
	p.refused(batch[1].Error, CodeInvalidParam, "query exceeds max block range 2000")
}

// TestTransactionsWaitForBlockInterval shows that several transactions share a block, which none of them makes.
func TestTransactionsWaitForBlockInterval(t *testing.T) {
	chain := startChainForTest(t, ChainConfig{BlockEvery: 6 * time.Second, OnlyEvery: true})
	n := connect(t, chain.RPCURL)
	client, err := rpc.DialContext(t.Context(), chain.RPCURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	p := &pooling{T: t, client: client, tip: 1e9}
	// Begin with a block, so that there is time until the next one. By its number: its own time is that of the block
	// before and the interval, however late it was made.
	var seen hexutil.Uint64
	poll(t, func() (struct{}, error) {
		var number hexutil.Uint64
		err := client.CallContext(t.Context(), &number, "eth_blockNumber")
		if before := seen; err == nil {
			if seen = number; before == 0 || before == number {
				err = errors.New("the block is not new")
			}
		}
		return struct{}{}, err
	})
	for nonce := range uint64(3) {
		p.accepts(nonce)
	}
	relayer := common.HexToAddress(WalletsOf(RoleRelayer)[0].Address)
	blocks := map[uint64]bool{}
	poll(t, func() (struct{}, error) {
		head, err := n.eth.HeaderByNumber(t.Context(), nil)
		if err != nil {
			return struct{}{}, err
		}
		count, err := n.eth.NonceAt(t.Context(), relayer, head.Number)
		if err == nil && count > 0 {
			blocks[count] = true
		}
		if err == nil && count < 3 {
			err = errors.New("not all are included yet")
		}
		return struct{}{}, err
	})
	if blocks[1] && blocks[2] {
		t.Error("each transaction has a block of its own")
	}
	if calls := chain.Calls()["eth_sendRawTransaction"]; calls != 3 {
		t.Errorf("%d calls counted, want 3", calls)
	}
}
