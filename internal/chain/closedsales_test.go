package chain_test

import (
	"encoding/hex"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// asksWhether reports a call of the token's that asks whether it is paused, or blocks an account.
func asksWhether(q question) bool {
	return q.Method == "eth_call" && (q.has(hex.EncodeToString(x402.PausedCall()[:4])) ||
		q.has(hex.EncodeToString(x402.BlacklistedCall(x402.Address{})[:4])))
}

// answering is a node that answers so whether the token is paused or blocks an account, and how much ether there is.
func (b *bench) answering(flag, ether string) string {
	b.Helper()
	return b.lying(func(q question) string {
		switch {
		case asksWhether(q):
			return flag
		case q.Method == "eth_getBalance":
			return ether
		}
		return ""
	})
}

const (
	yes     = `"result":"0x0000000000000000000000000000000000000000000000000000000000000001"`
	no      = `"result":"0x0000000000000000000000000000000000000000000000000000000000000000"`
	refuses = `"error":{"code":3,"message":"execution reverted"}`
)

// TestSingleNodeDoesNotCloseSales lets the preferred node report that the token is paused, that it blocks us and that
// we have no gas, or fail. Sales continue by the other nodes.
func TestSingleNodeDoesNotCloseSales(t *testing.T) {
	b := newBench(t)
	ours := []chain.Account{{Name: "payee", Address: b.payee}}
	for name, liar := range map[string]string{
		"says so": b.answering(yes, `"result":"0x0"`), "refuses": b.answering(refuses, refuses),
	} {
		for count, nodes := range map[string][]string{"two": {liar, b.url}, "three": {liar, b.url, b.url}} {
			t.Run(name+", of "+count, func(t *testing.T) {
				on := b.over(nodes...)
				if err := on.Usable(t.Context(), ours); err != nil {
					t.Errorf("usable: %v", err)
				}
				b.chain = on
				r := b.relayerOf(devnet.WalletsOf(devnet.RoleRelayer)[0])
				if err := r.Ready(t.Context()); err != nil {
					t.Errorf("ready: %v", err)
				}
				p := b.claim(buyer(0))
				if err := r.Submit(t.Context(), p); err != nil {
					t.Fatalf("submit: %v", err)
				}
				b.settles(p)
			})
		}
	}
}

// TestMajorityOfNodesClosesSales pauses the token and takes our gas. One node that denies it does not outvote two
// others.
func TestMajorityOfNodesClosesSales(t *testing.T) {
	b := newBench(t)
	only := devnet.WalletsOf(devnet.RoleRelayer)[0]
	b.sendAs(devnet.WalletsOf(devnet.RoleAdmin)[0], token, crypto.Keccak256([]byte("pause()"))[:4])
	b.setGas(only, big.NewInt(1))
	denies := b.answering(no, `"result":"0xde0b6b3a7640000"`)
	for name, nodes := range map[string][]string{
		"two": {b.url, b.url}, "two of three": {b.url, denies, b.url}, "the last denies": {b.url, b.url, denies},
	} {
		t.Run(name, func(t *testing.T) {
			b.chain = b.over(nodes...)
			if err := b.chain.Usable(t.Context(), nil); fault.Of(err) != fault.TokenPaused {
				t.Errorf("usable: %v", err)
			}
			if err := b.relayerOf(only).Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "short of gas") {
				t.Errorf("ready: %v", err)
			}
		})
	}
}
