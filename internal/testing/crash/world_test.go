package crash_test

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/devtools/dev"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/facilitator/facilitatortest"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/testing/apptest"
	"github.com/roamcard/roamcard/internal/testing/invariants"
	"github.com/roamcard/roamcard/internal/x402"
)

// world is everything that outlives the program: its database, the chain and the issuer, each a process
// of its own. The program runs in one world at a time.
type world struct {
	dir string
	// facilitator is the address of one, which also outlives the program.
	facilitator string
	// issuer is who issues the cards, and supplier who supplies the eSIMs; empty is the sandbox.
	issuer, supplier string
	// within says that the program itself plays the providers, and keeps their books in dir.
	within bool
	books  invariants.Books
	domain x402.Domain
	addr   string
	// running is the newest run of the program.
	running *process
	answers struct {
		sync.Mutex
		all []invariants.Answer
	}
}

// newWorld starts the processes of a world; they end with t.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), addr: apptest.FreeAddr(t)}
	chain, err := devnet.StartChain(t.Context(), devnet.ChainConfig{BlockEvery: time.Second})
	if err != nil {
		t.Fatalf("start the chain: %v", err)
	}
	t.Cleanup(func() { _ = chain.Close() }) // killed with the tests at the latest
	var issuer struct{ SandboxURL string }
	ready := filepath.Join(w.dir, "sandbox.json")
	launch(t, "", ready, "sandbox", "--addr", "127.0.0.1:0", "--data", filepath.Join(w.dir, "sandbox"))
	readJSON(t, ready, &issuer)
	w.books = invariants.Books{
		DatabaseURL: storetest.URL(t), RPCURL: chain.RPCURL, USDC: chain.USDC,
		PayTo: devnet.WalletsOf(devnet.RolePayee)[0].Address, Treasury: devnet.WalletsOf(devnet.RoleTreasury)[0].Address,
		SandboxURL: issuer.SandboxURL,
		Relayers:   []string{devnet.WalletsOf(devnet.RoleRelayer)[0].Address},
	}
	token, err := x402.ParseAddress(chain.USDC)
	if err != nil {
		t.Fatal(err)
	}
	w.domain = x402.Domain{Name: "USD Coin", Version: "2", ChainID: x402.ChainID, Contract: token}
	w.startFacilitator(t)
	return w
}

// start runs the program in the world, always at the same address, as a restarted service is.
func (w *world) start(t testing.TB, settler, fault string, more ...string) *process {
	t.Helper()
	w.running = launch(t, fault, w.readyFile(), w.args(settler, more...)...)
	return w.running
}

// startUnready is start where the program may not become ready, because the chain stands still.
func (w *world) startUnready(t testing.TB, settler string) *process {
	t.Helper()
	w.running = begin(t, "", w.readyFile(), w.args(settler)...)
	return w.running
}

func (w *world) readyFile() string { return filepath.Join(w.dir, "ready.json") }

// args start the program in the world.
func (w *world) args(settler string, more ...string) []string {
	args := []string{"dev", "--addr", w.addr, "--data", w.dir,
		"--database-url", w.books.DatabaseURL, "--rpc-url", w.books.RPCURL,
		"--issuer-call-timeout", "2s", "--issuer-visibility-delay", "3s", // the sandbox answers at once
		// Each connection costs the database a process, at every start.
		"--set", "database.max_conns=5"}
	if !w.within {
		args = append(args, "--sandbox-url", w.books.SandboxURL)
	}
	if w.issuer != "" {
		args = append(args, "--issuer", w.issuer)
	}
	if w.supplier != "" {
		args = append(args, "--supplier", w.supplier, "--supplier-visibility-delay", "2s")
	}
	if settler != relayer {
		args = append(args, "--facilitator-url", w.facilitator, "--settlement", settler)
	}
	return append(args, more...)
}

// await polls what the running program brings about.
func (w *world) await(t testing.TB, what string, holds func() error) {
	t.Helper()
	if w.running == nil {
		apptest.Await(t, what, holds)
		return
	}
	w.running.Await(t, what, holds)
}

// over makes a world sell over real providers, whose fakes outlive the program next to the sandbox.
func (w *world) over(issuer, supplier string) *world {
	if w.issuer = issuer; issuer != "" {
		w.books.Issuers = []string{dev.Books(issuer, w.books.SandboxURL)}
	}
	if w.supplier = supplier; supplier != "" {
		w.books.Suppliers = []string{dev.Books(supplier, w.books.SandboxURL)}
	}
	return w
}

// startFacilitator runs a facilitator in this process, with a key of its own on the world's chain.
func (w *world) startFacilitator(t testing.TB) {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	w.rpc(t, "anvil_setBalance", crypto.PubkeyToAddress(key.PublicKey), "0x3635c9adc5dea00000")
	on, err := chain.New(t.Context(), chain.Config{
		Endpoints: []chain.Endpoint{{URL: w.books.RPCURL}}, Domain: w.domain, CallTimeout: time.Minute, Now: time.Now,
	})
	if err != nil {
		t.Fatalf("dial the chain for the facilitator: %v", err)
	}
	t.Cleanup(on.Close)
	sender, err := chain.NewRelayer(chain.RelayerConfig{
		Chain: on, Transactions: paymenttest.NewTransactions(time.Now), Keys: []payment.Signer{curve.NewLocalSigner(key)},
		MaxFeePerGas: big.NewInt(50e9), Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatalf("make the facilitator's relayer: %v", err)
	}
	server := httptest.NewServer(facilitatortest.New(facilitatortest.Config{Chain: on, Settler: sender, Now: time.Now}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	w.facilitator = server.URL
}

// wallet makes a wallet with 1,000 USDC.
func (w *world) wallet(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	const balances = 2 // the slot of the token's balances
	owner := common.LeftPadBytes(crypto.PubkeyToAddress(key.PublicKey).Bytes(), 32)
	slot := crypto.Keccak256Hash(owner, common.BigToHash(big.NewInt(balances)).Bytes())
	w.rpc(t, "anvil_setStorageAt", w.books.USDC, slot, common.BigToHash(big.NewInt(1_000_000_000)))
	return key
}

// rpc makes a call to the chain that must succeed.
func (w *world) rpc(t testing.TB, method string, params ...any) json.RawMessage {
	t.Helper()
	result, err := w.call(method, params...)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// call makes a call to the chain.
func (w *world) call(method string, params ...any) (json.RawMessage, error) {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	res, err := http.Post(w.books.RPCURL, "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	defer func() { _ = res.Body.Close() }()
	var answer struct {
		Result json.RawMessage
		Error  json.RawMessage
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	if answer.Error != nil {
		return nil, fmt.Errorf("%s: %s", method, answer.Error)
	}
	return answer.Result, nil
}

func (w *world) saw(a invariants.Answer) {
	w.answers.Lock()
	defer w.answers.Unlock()
	w.answers.all = append(w.answers.all, a)
}

// check reads all books of the world and returns what does not hold.
func (w *world) check(t testing.TB) []invariants.Violation {
	t.Helper()
	books := w.books
	w.answers.Lock()
	books.Answers = append([]invariants.Answer(nil), w.answers.all...)
	w.answers.Unlock()
	found, err := invariants.Check(t.Context(), books)
	if err != nil {
		t.Fatalf("check the invariants: %v", err)
	}
	return found
}
