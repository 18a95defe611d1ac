package devnet

import (
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"
)

// dollarTo sends one dollar from the first buyer and returns the receipt.
func dollarTo(n *node, to common.Address) *types.Receipt {
	n.Helper()
	return n.send(WalletsOf(RoleBuyer)[0], USDCAddress, n.pack("transfer", to, big.NewInt(1_000_000)))
}

// blockTime is the time of the latest (nil) block.
func blockTime(n *node) int64 {
	n.Helper()
	head, err := n.eth.HeaderByNumber(n.Context(), nil)
	if err != nil {
		n.Fatal(err)
	}
	return int64(head.Time)
}

func TestChainContinuesAfterARestart(t *testing.T) {
	dir := t.TempDir()
	payee := common.HexToAddress(WalletsOf(RolePayee)[0].Address)
	first := startChainForTest(t, ChainConfig{Dir: dir})
	n := connect(t, first.RPCURL)
	paid := dollarTo(n, payee)
	height, err := n.eth.BlockNumber(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	n = connect(t, startChainForTest(t, ChainConfig{Dir: dir}).RPCURL)
	if got := n.balance(payee); got != 1_000_000 {
		t.Errorf("payee holds %d after the restart, want 1000000", got)
	}
	if got, err := n.eth.BlockNumber(t.Context()); err != nil || got <= height {
		t.Errorf("height is %d, %v after the restart, want more than %d", got, err, height)
	}
	if receipt, err := n.eth.TransactionReceipt(t.Context(), paid.TxHash); err != nil ||
		receipt.BlockHash != paid.BlockHash {
		t.Errorf("receipt after the restart: %+v, %v", receipt, err)
	}
	// The engine pins its reads to a block hash.
	head, err := n.eth.HeaderByNumber(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	query := callMsg(common.Address{}, common.HexToAddress(USDCAddress), n.pack("balanceOf", payee))
	if _, err := n.eth.CallContractAtHash(t.Context(), query, head.Hash()); err != nil {
		t.Errorf("call at the head's hash: %v", err)
	}
	dollarTo(n, payee)
	if got := n.balance(payee); got != 2_000_000 {
		t.Errorf("payee holds %d, want 2000000", got)
	}
}

// TestChainKeepsStatesInMemory: of many blocks nothing is left in the user's home, not even by a node that is killed.
func TestChainKeepsStatesInMemory(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	chain := startChainForTest(t, ChainConfig{})
	client := connect(t, chain.RPCURL).eth.Client()
	for range 10 {
		if err := client.CallContext(t.Context(), nil, "anvil_mine", "0x64"); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(home, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("%s was written", path)
			return filepath.SkipAll
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestBlocksHaveWallTimeAfterARestart(t *testing.T) {
	dir := t.TempDir()
	payee := common.HexToAddress(WalletsOf(RolePayee)[0].Address)
	chain := startChainForTest(t, ChainConfig{Dir: dir})
	stopped := blockTime(connect(t, chain.RPCURL))
	if err := chain.Close(); err != nil {
		t.Fatal(err)
	}
	poll(t, func() (struct{}, error) { // let a whole second pass for the chain to miss
		if time.Now().Unix() < stopped+2 {
			return struct{}{}, errors.New("no time has passed")
		}
		return struct{}{}, nil
	})
	n := connect(t, startChainForTest(t, ChainConfig{Dir: dir}).RPCURL)
	var sent int64
	for range 5 { // several in one second must not push the clock ahead
		sent = time.Now().Unix()
		dollarTo(n, payee)
	}
	if head, now := blockTime(n), time.Now().Unix(); head < sent || head > now {
		t.Errorf("the head is of %d, and was made between %d and %d", head, sent, now)
	}
	a := oneDollar(9)
	a.validAfter, a.validBefore = time.Now().Unix()-2, time.Now().Unix()+60
	data := n.pack("transferWithAuthorization", a.args(signTransfer(t, WalletsOf(RoleBuyer)[0], a))...)
	if got := n.refusal(payee, data); got != "" {
		t.Errorf("an authorization of this moment is refused: %s", got)
	}
}

func TestChainMakesBlocksAtItsInterval(t *testing.T) {
	n := connect(t, startChainForTest(t, ChainConfig{BlockEvery: time.Second}).RPCURL)
	height, err := n.eth.BlockNumber(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dollarTo(n, common.HexToAddress(WalletsOf(RolePayee)[0].Address))
	poll(t, func() (struct{}, error) {
		safe, err := n.eth.HeaderByNumber(t.Context(), big.NewInt(rpc.SafeBlockNumber.Int64()))
		if err == nil && safe.Number.Uint64() <= height+1 {
			err = errors.New("the payment is not safe yet")
		}
		return struct{}{}, err
	})
}

func TestTornStateFallsBackToTheLastWholeCopy(t *testing.T) {
	dir := t.TempDir()
	payee := common.HexToAddress(WalletsOf(RolePayee)[0].Address)
	for range 2 { // the second start makes the copy of what the first left
		chain := startChainForTest(t, ChainConfig{Dir: dir})
		dollarTo(connect(t, chain.RPCURL), payee)
		if err := chain.Close(); err != nil {
			t.Fatal(err)
		}
	}
	state := filepath.Join(dir, stateFile)
	if err := os.Truncate(state, 100); err != nil {
		t.Fatal(err)
	}
	n := connect(t, startChainForTest(t, ChainConfig{Dir: dir}).RPCURL)
	if got := n.balance(payee); got != 1_000_000 {
		t.Errorf("payee holds %d, want the copy's 1000000", got)
	}
}

func TestTornStateWithoutACopyStartsAnew(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, stateFile), []byte(`{"block":`), 0o600); err != nil {
		t.Fatal(err)
	}
	n := connect(t, startChainForTest(t, ChainConfig{Dir: dir}).RPCURL)
	buyer := WalletsOf(RoleBuyer)[0]
	if got := n.balance(common.HexToAddress(buyer.Address)); got != buyer.USDC {
		t.Errorf("buyer holds %d, want %d", got, buyer.USDC)
	}
}

func TestChainRefusesATakenPort(t *testing.T) {
	first := startChainForTest(t, ChainConfig{})
	var port int
	for _, digit := range first.RPCURL[len("http://127.0.0.1:"):] {
		port = port*10 + int(digit-'0')
	}
	if second, err := StartChain(t.Context(), ChainConfig{Port: port}); err == nil {
		second.Close()
		t.Error("a second chain took the same port")
	}
}

func TestChildrenDieWithTheirParentAndContinue(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends the children of a killed process")
	}
	requireBoth(t)
	dir := pgMadeDir(t)
	payee := common.HexToAddress(WalletsOf(RolePayee)[0].Address)

	parent, first := startParent(t, dir)
	dollarTo(connect(t, first.RPCURL), payee)
	note(t, first.DatabaseURL, "before the kill")
	kill(t, parent)
	awaitEnd(t, first.AnvilPID, first.AnvilName)
	awaitEnd(t, first.PostgresPID, first.PostgresName)

	parent, second := startParent(t, dir)
	if got := connect(t, second.RPCURL).balance(payee); got != 1_000_000 {
		t.Errorf("payee holds %d after the kill, want 1000000", got)
	}
	wantNotes(t, second.DatabaseURL, "before the kill")
	kill(t, parent)
	// At once, while the old children are still going down.
	_, third := startParent(t, dir)
	if got := connect(t, third.RPCURL).balance(payee); got != 1_000_000 {
		t.Errorf("payee holds %d after the second kill, want 1000000", got)
	}
	wantNotes(t, third.DatabaseURL, "before the kill")
}

func requireBoth(t *testing.T) {
	t.Helper()
	if _, err := FindAnvil(); err != nil {
		t.Skip(err)
	}
	if len(pgFolders("")) == 0 {
		t.Skip("PostgreSQL is not installed")
	}
}
