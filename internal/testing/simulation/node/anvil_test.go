package node_test

import (
	"encoding/json"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/google/go-cmp/cmp"
	"github.com/holiman/uint256"

	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/testing/simulation/node"
	"github.com/roamcard/roamcard/internal/x402"
)

// twins are anvil and a simulated chain, to which everything happens in the same second.
type twins struct {
	*testing.T
	anvil, simulated *rpc.Client
	chain            *node.Chain
	start            time.Time
	blocks           int
	nonces           map[string]uint64
}

func newTwins(t *testing.T) *twins {
	t.Helper()
	if _, err := devnet.FindAnvil(); err != nil {
		t.Skip(err)
	}
	dev, err := devnet.StartChain(t.Context(), devnet.ChainConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	w := &twins{T: t, nonces: map[string]uint64{}}
	if w.anvil, err = rpc.DialContext(t.Context(), dev.RPCURL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.anvil.Close)
	w.ask(w.anvil, nil, "evm_setAutomine", false)
	var head struct{ Timestamp hexutil.Uint64 }
	w.ask(w.anvil, &head, "eth_getBlockByNumber", "latest", false)
	w.start = time.Unix(int64(head.Timestamp), 0).Add(time.Hour)
	w.chain = node.New(node.Config{Start: w.start})
	w.simulated = dial(t, w.chain.Node("one"))
	return w
}

func (w *twins) ask(client *rpc.Client, into any, method string, arguments ...any) {
	w.Helper()
	if err := client.CallContext(w.Context(), into, method, arguments...); err != nil {
		w.Fatalf("%s: %v", method, err)
	}
}

// told is an answer as a caller can see it.
type told struct {
	Result any
	Code   int
	Data   any
	// Text is a revert's: nodes have texts of their own for the rest.
	Text string
}

func (w *twins) tell(client *rpc.Client, method string, arguments ...any) (said told) {
	w.Helper()
	err := client.CallContext(w.Context(), &said.Result, method, arguments...)
	if answer, ok := errors.AsType[rpc.Error](err); ok {
		if said.Code = answer.ErrorCode(); said.Code == 3 {
			said.Text = answer.Error()
		}
	} else if err != nil {
		w.Fatalf("%s: %v", method, err)
	}
	if answer, ok := errors.AsType[rpc.DataError](err); ok {
		said.Data = answer.ErrorData()
	}
	return said
}

// same asks both, and returns what both say.
func (w *twins) same(name, method string, arguments ...any) told {
	w.Helper()
	want, got := w.tell(w.anvil, method, arguments...), w.tell(w.simulated, method, arguments...)
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("%s: anvil (-) and simulated (+) answer\n%s", name, diff)
	}
	return want
}

// outcome is what became of a transaction, but for its block.
type outcome struct {
	Status, GasUsed, CumulativeGasUsed, Type, TransactionIndex hexutil.Uint64
	TransactionHash                                            common.Hash
	From                                                       common.Address
	To, ContractAddress                                        *common.Address
	EffectiveGasPrice                                          *hexutil.Big
	Logs                                                       []struct {
		Address  common.Address
		Topics   []common.Hash
		Data     hexutil.Bytes
		LogIndex hexutil.Uint64
		Removed  bool
	}
}

// block sends transactions, in the order of their tips, makes a block of them, and compares what became of each.
func (w *twins) block(name string, all ...func() []byte) (outcomes []outcome) {
	w.Helper()
	w.blocks++
	at := w.start.Add(time.Duration(w.blocks) * 2 * time.Second)
	var hashes []any
	for _, make := range all {
		hashes = append(hashes, w.same(name, "eth_sendRawTransaction", hexutil.Encode(make())).Result)
	}
	w.ask(w.anvil, nil, "anvil_setNextBlockBaseFeePerGas", hexutil.Uint64(5_000_000))
	w.ask(w.anvil, nil, "evm_setNextBlockTimestamp", hexutil.Uint64(at.Unix()))
	w.ask(w.anvil, nil, "anvil_mine", "0x1")
	w.chain.Advance(at)
	for _, hash := range hashes {
		var want, got *outcome
		w.ask(w.anvil, &want, "eth_getTransactionReceipt", hash)
		w.ask(w.simulated, &got, "eth_getTransactionReceipt", hash)
		if want == nil || got == nil {
			w.Fatalf("%s: anvil's receipt %v, simulated %v", name, want, got)
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(sameAmount)); diff != "" {
			w.Errorf("%s: anvil (-) and simulated (+) executed\n%s", name, diff)
		}
		outcomes = append(outcomes, *want)
	}
	return outcomes
}

func sameAmount(a, b *hexutil.Big) bool {
	return a == nil && b == nil || a != nil && b != nil && a.ToInt().Cmp(b.ToInt()) == 0
}

// by makes a wallet's next transaction.
func (w *twins) by(
	wallet devnet.Wallet, to *common.Address, gas uint64, data []byte, edit ...func(*types.SetCodeTx),
) func() []byte {
	return func() []byte {
		nonce := w.nonces[wallet.Address]
		w.nonces[wallet.Address]++
		var tx types.TxData = &types.DynamicFeeTx{
			ChainID: big.NewInt(devnet.ChainID), Nonce: nonce, GasTipCap: big.NewInt(1e9), GasFeeCap: big.NewInt(50e9),
			Gas: gas, To: to, Data: data, Value: new(big.Int),
		}
		for _, e := range edit {
			delegating := &types.SetCodeTx{
				ChainID: uint256.NewInt(devnet.ChainID), Nonce: nonce, GasTipCap: uint256.NewInt(1e9),
				GasFeeCap: uint256.NewInt(50e9), Gas: gas, To: *to, Data: data,
			}
			e(delegating)
			tx = delegating
		}
		_, raw := signed(w, wallet, tx)
		return raw
	}
}

// call calls an address, without a sender.
func (w *twins) call(name string, to common.Address, data []byte) told {
	w.Helper()
	return w.same(name, "eth_call", map[string]any{
		"to": to, "data": hexutil.Bytes(data), "gas": hexutil.Uint64(200_000),
	}, "latest")
}

// callAs calls an address as a wallet would send, for a fee.
func (w *twins) callAs(name string, by devnet.Wallet, to common.Address, gas uint64, data []byte) told {
	w.Helper()
	return w.same(name, "eth_call", map[string]any{
		"from": by.Address, "to": to, "data": hexutil.Bytes(data), "gas": hexutil.Uint64(gas),
		"maxFeePerGas": hexutil.Uint64(1e9), "maxPriorityFeePerGas": hexutil.Uint64(1e6),
	}, "latest")
}

func text(selector string, words ...[]byte) []byte {
	data := crypto.Keccak256([]byte(selector))[:4]
	for _, w := range words {
		data = append(data, common.LeftPadBytes(w, 32)...)
	}
	return data
}

// TestSimulatedChainAgreesWithAnvil lets the same happen to both: payments alone and together, good ones and reverted
// ones, cancelled ones, a token that is paused, delegated payers, contracts that are made and destroyed, and gas that
// does not suffice.
func TestSimulatedChainAgreesWithAnvil(t *testing.T) {
	w := newTwins(t)
	made := uint64(0)
	member := func(from int) settler.Member { made++; return pays(t, buyers[from], made, w.start) }
	transfer := func(m settler.Member) []byte { return x402.TransferCall(m.Authorization, m.Signature) }
	pay := func(m settler.Member) func() []byte { return w.by(relayers[0], &token, 200_000, transfer(m)) }

	first := member(0)
	w.call("a payment in advance", token, transfer(first))
	w.callAs("a payment in advance as a relayer", relayers[0], token, 200_000, transfer(first))
	w.callAs("a payment in advance by who has no ether", payee, token, 200_000, transfer(first))
	w.block("a payee who has nothing", pay(first))
	w.block("a payee who has something", pay(member(1)))
	w.block("used twice", pay(first))
	w.call("used twice, called", token, transfer(first))
	bytes := member(1)
	w.block("a signature of bytes", w.by(relayers[0], &token, 200_000,
		x402.TransferBytesCall(bytes.Authorization, []byte(bytes.Signature))))
	for name, change := range map[string]func(*x402.Authorization){
		"expired":   func(a *x402.Authorization) { a.ValidBefore = uint64(w.start.Unix()) },
		"too early": func(a *x402.Authorization) { a.ValidAfter = uint64(w.start.Unix()) + 3600 },
		"too much":  func(a *x402.Authorization) { a.Value = 1e15 },
		"to a blocked account": func(a *x402.Authorization) {
			a.To = x402.Address(token)
		},
	} {
		m := member(2)
		change(&m.Authorization)
		var err error
		if m.Signature, err = curve.Sign(domain, m.Authorization, keyOf(buyers[2])); err != nil {
			t.Fatal(err)
		}
		if r := w.block(name, pay(m)); r[0].Status != 0 {
			t.Errorf("%s: it moved", name)
		}
		if w.call(name+", called", token, transfer(m)).Code != 3 {
			t.Errorf("%s: it is not refused", name)
		}
	}
	forged := member(3)
	changed := []byte(forged.Signature)
	changed[5]++
	forged.Signature = x402.Signature(changed)
	w.block("a forged signature", pay(forged))

	for name, on := range map[string]settler.Contract{
		"settler": settler.Own(domain.Contract), "multicall": settler.Multicall3(domain.Contract),
	} {
		batch := []settler.Member{member(0), member(1), forged, member(4), first}
		at := common.Address(on.Address())
		if w.callAs(name+" in advance", relayers[0], at, on.Gas(len(batch)), on.Call(batch)).Result == nil {
			t.Errorf("%s: it has no result", name)
		}
		if r := w.block(name, w.by(relayers[0], &at, on.Gas(len(batch)), on.Call(batch))); r[0].Status != 1 {
			t.Errorf("%s: it reverted", name)
		}
	}

	burner := common.HexToAddress(devnet.MulticallAddress)
	w.block("several in a block",
		w.by(buyers[0], &token, 100_000, text("transfer(address,uint256)", addressOf(buyers[1]).Bytes(), []byte{7})),
		w.by(buyers[1], &token, 100_000, text("transfer(address,uint256)", addressOf(payee).Bytes(), []byte{9})),
		w.by(buyers[2], &token, 100_000, text("approve(address,uint256)", addressOf(payee).Bytes(), []byte{9})),
		w.by(buyers[2], &token, 100_000, text("approve(address,uint256)", addressOf(payee).Bytes(), nil))) // a refund
	w.block("too little gas", w.by(relayers[0], &token, 60_000, transfer(member(0))))
	w.block("gas of data alone", w.by(relayers[0], &common.Address{7: 1}, 600_000, make([]byte, 10_000)))
	w.block("a selector that is none", w.by(relayers[0], &token, 100_000, []byte{1, 2, 3, 4}))

	w.block("paused", w.by(admin, &token, 100_000, text("pause()")), pay(member(5)))
	w.call("paused, called", token, transfer(member(5)))
	w.block("no longer paused", w.by(admin, &token, 100_000, text("unpause()")))

	// A contract that destroys itself when it is made, and one that stays and returns the block's values.
	w.block("made and destroyed", w.by(relayers[0], nil, 200_000, common.FromHex("6001600055600060015533ff")))
	const copies, returns = "600d600c600039600d6000f3", "426000524660205260406000f3"
	seen := w.block("made", w.by(relayers[0], nil, 300_000, common.FromHex(copies+returns)))
	w.same("code", "eth_getCode", seen[0].ContractAddress, "latest")
	w.call("values of a block", *seen[0].ContractAddress, nil)

	delegate := func(by devnet.Wallet, to common.Address, nonce uint64) func(*types.SetCodeTx) {
		a, err := types.SignSetCode(keyOf(by), types.SetCodeAuthorization{
			ChainID: *uint256.NewInt(devnet.ChainID), Address: to, Nonce: nonce,
		})
		if err != nil {
			t.Fatal(err)
		}
		return func(tx *types.SetCodeTx) { tx.AuthList = append(tx.AuthList, a) }
	}
	delegated := addressOf(buyers[6])
	w.block("delegated", w.by(relayers[0], &delegated, 200_000, nil, delegate(buyers[6], burner, 0)))
	w.same("code of a delegated account", "eth_getCode", delegated, "latest")
	w.block("a delegated payer", pay(member(6)))
	w.call("a delegated payer, called", token, transfer(member(6)))
	w.block("no longer delegated", w.by(relayers[0], &delegated, 200_000, nil, delegate(buyers[6], common.Address{}, 1)))
	w.block("a payer who was delegated", pay(member(6)))

	for _, wallet := range devnet.Wallets() {
		w.same("balance", "eth_getBalance", wallet.Address, "latest")
		w.same("nonce", "eth_getTransactionCount", wallet.Address, "latest")
		w.call("tokens", token, x402.BalanceCall(x402.Address(addressOf(wallet))))
	}
	w.call("state", token, x402.StateCall(first.Authorization.From, first.Authorization.Nonce))
	w.call("supply", token, text("totalSupply()"))
	w.logs()
	w.past()
}

// past compares what was at the last blocks.
func (w *twins) past() {
	w.Helper()
	height := func(client *rpc.Client) (number hexutil.Uint64) {
		w.ask(client, &number, "eth_blockNumber")
		return number
	}
	anvil, simulated := height(w.anvil), height(w.simulated)
	for back := range hexutil.Uint64(20) {
		for _, wallet := range []devnet.Wallet{relayers[0], buyers[1], buyers[6]} {
			for _, method := range []string{"eth_getBalance", "eth_getTransactionCount", "eth_getCode"} {
				want := w.tell(w.anvil, method, wallet.Address, anvil-back)
				got := w.tell(w.simulated, method, wallet.Address, simulated-back)
				if diff := cmp.Diff(want, got); diff != "" {
					w.Errorf("%s, %d blocks ago: anvil (-) and simulated (+) answer\n%s", method, back, diff)
				}
			}
		}
	}
}

// logs compares all logs, in their order.
func (w *twins) logs() {
	w.Helper()
	read := func(client *rpc.Client) (found []outcome) {
		var raw json.RawMessage
		w.ask(client, &raw, "eth_getLogs", map[string]any{
			"fromBlock": "0x1", "toBlock": "latest", "address": token,
			"topics": []any{[]any{x402.TopicTransfer.String(), x402.TopicUsed.String()}, nil},
		})
		if err := json.Unmarshal(append(append([]byte(`[{"logs":`), raw...), "}]"...), &found); err != nil {
			w.Fatal(err)
		}
		return found
	}
	want, got := read(w.anvil), read(w.simulated)
	if diff := cmp.Diff(want, got, cmp.Comparer(sameAmount)); diff != "" || len(want[0].Logs) < 20 {
		w.Errorf("%d logs; anvil (-) and simulated (+) have\n%s", len(want[0].Logs), diff)
	}
}
