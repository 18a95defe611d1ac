package node

import (
	"maps"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
)

// TestReorganisationTakesEverythingBack compares all that accounts have before some blocks with what they have when the
// past is read, and after the blocks were replaced.
func TestReorganisationTakesEverythingBack(t *testing.T) {
	start := time.Unix(1_790_000_000, 0)
	c := New(Config{Start: start})
	buyer, other := common.HexToAddress(devnet.Wallets()[0].Address), common.Address{7: 7}
	transfer := func(amount int64) []byte {
		data := crypto.Keccak256([]byte("transfer(address,uint256)"))[:4]
		data = append(data, common.BytesToHash(other[:]).Bytes()...)
		return append(data, common.BigToHash(big.NewInt(amount)).Bytes()...)
	}
	step := func(number int, amount int64) {
		c.Execute(buyer, token, transfer(amount))
		c.Execute(buyer, other, nil)
		c.Advance(start.Add(time.Duration(number) * 2 * time.Second))
	}
	same := func(when string, accounts map[common.Address]account, words map[slot]common.Hash) {
		t.Helper()
		if !maps.Equal(c.state.accounts, accounts) || !maps.Equal(c.state.words, words) {
			t.Errorf("%s: the state is another", when)
		}
		if len(c.state.journal) != 0 {
			t.Errorf("%s: the journal has %d entries", when, len(c.state.journal))
		}
	}
	step(1, 5)
	accounts, words := maps.Clone(c.state.accounts), maps.Clone(c.state.words)
	step(2, 10_000_000_000-5) // everything
	step(3, 1)                // reverts
	step(9, 0)
	if got := c.Balance(other); got != 10_000_000_000 {
		t.Fatalf("%d moved", got)
	}
	now, present := maps.Clone(c.state.accounts), maps.Clone(c.state.words)
	if no := c.at(1, func() { same("in the past", accounts, words) }); no != nil {
		t.Fatal(no)
	}
	if _, no := c.call(9, arguments{From: other, To: &token, Data: transfer(1)}, nil); no != nil {
		t.Error(no)
	}
	same("after a call", now, present)
	if err := c.Reorganise(8, func(common.Hash) bool { return true }); err != nil {
		t.Fatal(err)
	}
	same("after a reorganisation", accounts, words)
	if c.head != 9 || len(c.blocks) != 1 || len(c.pool) != 0 {
		t.Errorf("head %d, %d blocks, %d in the pool", c.head, len(c.blocks), len(c.pool))
	}
}
