package devnet

import (
	"errors"
	"iter"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/go-cmp/cmp"
)

// answered is the moment at which the chain has answered.
const answered = -1

// newMoments are when a chain loses its parent or is closed: so long after a transfer went out, and once when it is
// answered. Anvil takes some milliseconds to make its block; most moments are early ones. A torture run has more.
func newMoments(t *testing.T, few, many int) iter.Seq[time.Duration] {
	t.Helper()
	if os.Getenv("ROAMCARD_TORTURE") == "" {
		many = few
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	return func(yield func(time.Duration) bool) {
		for range many - 1 {
			if !yield(time.Duration(math.Pow(random.Float64(), 3) * float64(8*time.Millisecond))) {
				return
			}
		}
		yield(answered)
	}
}

func TestTransferIsAtomicWhenTheParentIsKilled(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("nothing stops the chain of a killed process there")
	}
	if _, err := FindAnvil(); err != nil {
		t.Skip(err)
	}
	dir, moments, there := t.TempDir(), newMoments(t, 6, 25), 0
	parent, told := startParent(t, dir, chainAlone+"=1")
	for moment := range moments {
		sent := connect(t, told.RPCURL).sendUntil(moment, func() { kill(t, parent) })
		parent, told = startParent(t, dir, chainAlone+"=1")
		if connect(t, told.RPCURL).wantWhole(sent) {
			there++
		}
	}
	if there == 0 {
		t.Error("no transfer is there")
	}
}

func TestTransferIsAtomicWhenTheChainIsClosed(t *testing.T) {
	dir, moments := t.TempDir(), newMoments(t, 4, 15)
	chain := startChainForTest(t, ChainConfig{Dir: dir})
	for moment := range moments {
		sent := connect(t, chain.RPCURL).sendUntil(moment, func() {
			if err := chain.Close(); err != nil {
				t.Error(err)
			}
		})
		chain = startChainForTest(t, ChainConfig{Dir: dir})
		connect(t, chain.RPCURL).wantWhole(sent)
	}
}

// sending is a transfer of one dollar that was under way when the chain was stopped.
type sending struct {
	tx     *types.Transaction
	before holdings
	err    error         // what the chain answered
	ended  time.Duration // after the send began
}

// sendUntil sends a dollar and calls end at the moment, whether the chain has answered or not.
func (n *node) sendUntil(moment time.Duration, end func()) sending {
	n.Helper()
	s := sending{before: n.holdings(), ended: moment}
	s.tx = n.signed(WalletsOf(RoleBuyer)[0], USDCAddress, n.pack("transfer", thePayee(), big.NewInt(1_000_000)))
	answer := make(chan error, 1)
	go func() { answer <- n.eth.SendTransaction(n.Context(), s.tx) }()
	if moment == answered {
		s.err = <-answer
		end()
		return s
	}
	time.Sleep(moment) // clock: nothing is waited for, the end finds the chain at any of its steps
	end()
	s.err = <-answer
	return s
}

// holdings is what a transfer changes.
type holdings struct {
	Buyer, Payee int64
	Nonce        uint64
}

func (n *node) holdings() holdings {
	n.Helper()
	buyer := common.HexToAddress(WalletsOf(RoleBuyer)[0].Address)
	nonce, err := n.eth.NonceAt(n.Context(), buyer, nil)
	if err != nil {
		n.Fatal(err)
	}
	return holdings{Buyer: n.balance(buyer), Payee: n.balance(thePayee()), Nonce: nonce}
}

// wantWhole says whether the chain has the transfer, and fails the test if what it has is neither all nor nothing of
// it.
func (n *node) wantWhole(s sending) bool {
	n.Helper()
	want, there := s.before, false
	receipt, err := n.eth.TransactionReceipt(n.Context(), s.tx.Hash())
	switch {
	case err == nil:
		there = true
		want = holdings{Buyer: want.Buyer - 1_000_000, Payee: want.Payee + 1_000_000, Nonce: want.Nonce + 1}
		if receipt.Status != types.ReceiptStatusSuccessful || len(receipt.Logs) != 1 {
			n.Errorf("receipt %+v, want success and one log", receipt)
		}
		block, err := n.eth.BlockByNumber(n.Context(), receipt.BlockNumber)
		if err != nil || block.Transaction(s.tx.Hash()) == nil {
			n.Errorf("block %v is without the transfer: %v", receipt.BlockNumber, err)
		}
	case !errors.Is(err, ethereum.NotFound):
		n.Fatal(err)
	}
	if diff := cmp.Diff(want, n.holdings()); diff != "" {
		n.Errorf("the receipt says (-), the accounts say (+):\n%s", diff)
	}
	if n.Failed() {
		n.Fatalf("the chain was stopped %v after the send, which it answered with %v", s.ended, s.err)
	}
	return there
}

func thePayee() common.Address { return common.HexToAddress(WalletsOf(RolePayee)[0].Address) }
