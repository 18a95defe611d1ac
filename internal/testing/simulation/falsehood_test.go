package simulation_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/testing/simulation/node"
	"github.com/roamcard/roamcard/internal/x402"
)

// TestEachLieIsTold: whoever asks a node that tells a lie sees it, and sees the truth afterwards.
func TestEachLieIsTold(t *testing.T) {
	for name := range lies {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told, after := hearOf(t, name)
				if honest, _ := hearOf(t, ""); told == honest {
					t.Errorf("the node that %s answered as an honest one: %s", name, told)
				}
				if _, honest := hearOf(t, ""); after != honest {
					t.Errorf("the node that %s answered afterwards\n%s\nwant\n%s", name, after, honest)
				}
			})
		})
	}
}

// hearOf is what a node answers to all kinds of questions while it tells a lie, and afterwards.
func hearOf(t *testing.T, lie string) (told, after string) {
	t.Helper()
	chain := node.New(node.Config{Start: time.Unix(946_684_800, 0)})
	key, err := crypto.ToECDSA(crypto.Keccak256([]byte("somebody")))
	if err != nil {
		t.Fatal(err)
	}
	from := curve.AddressOf(key)
	chain.Fund(common.Address(from), funds, big.NewInt(1e18))
	pays := func(nonce byte) []byte {
		a := x402.Authorization{
			From: from, To: x402.Address{19: 1}, Value: 5, ValidBefore: 1 << 40, Nonce: x402.Hash{31: nonce},
		}
		signature, err := curve.Sign(domain(), a, key)
		if err != nil {
			t.Fatal(err)
		}
		return x402.TransferCall(a, signature)
	}
	token := common.HexToAddress(devnet.USDCAddress)
	seconds := int64(946_684_800)
	pass := func(by int64) { seconds += by; chain.Advance(time.Unix(seconds, 0)) }
	pass(60)
	made := chain.Execute(common.Address(from), token, pays(1))
	pass(2)
	raw, err := types.MustSignNewTx(key, types.LatestSignerForChainID(big.NewInt(devnet.ChainID)), &types.DynamicFeeTx{
		Nonce: 1, To: &token, Gas: 200_000, GasFeeCap: big.NewInt(1e10), GasTipCap: big.NewInt(1e6), Data: pays(2),
	}).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	l := &liar{name: nodeName(0), node: chain.Node(nodeName(0)), seed: 1}
	var answers strings.Builder
	ask := func(method string, params ...any) {
		body := mustJSON(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
		asked, answer := time.Now(), httptest.NewRecorder()
		l.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body))))
		var compact json.RawMessage
		if err := json.Unmarshal(answer.Body.Bytes(), &compact); err != nil {
			t.Fatal(err)
		}
		answers.WriteString(method + " " + string(mustJSON(compact)) + " " + time.Since(asked).String() + "\n")
	}
	call := func(data []byte) map[string]any { return map[string]any{"to": token, "data": hexutil.Bytes(data)} }
	all := func() string {
		answers.Reset()
		ask("eth_call", call(pays(2)), "latest")
		ask("eth_getTransactionCount", from.String(), "latest")
		ask("eth_getBlockByNumber", "latest", false)
		pass(2)
		ask("eth_getBlockByNumber", "latest", false)
		ask("eth_getTransactionReceipt", made)
		ask("eth_getTransactionReceipt", common.Hash{1})
		ask("eth_getLogs", map[string]any{"fromBlock": "0x0", "address": token})
		for nonce := range byte(3) {
			ask("eth_call", call(x402.StateCall(from, x402.Hash{31: nonce})), "latest")
		}
		ask("eth_call", call(x402.BalanceCall(from)), "latest")
		ask("eth_getBalance", from.String(), "latest")
		ask("eth_getCode", from.String(), "latest")
		return answers.String()
	}
	tell := func() {
		if lie != "" {
			l.begin([]string{lie}, 1, 100)
		}
	}
	tell()
	told = all()
	l.end()
	after = all()
	tell()
	answers.Reset()
	ask("eth_sendRawTransaction", hexutil.Encode(raw))
	return told + answers.String() + fmt.Sprint(chain.Has(crypto.Keccak256Hash(raw))), after
}
