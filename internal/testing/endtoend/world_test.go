package endtoend_test

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/testing/invariants"
	"github.com/roamcard/roamcard/internal/x402"
)

// origin is the service's public address in every world. It is not where the instances listen, so
// what a request says of the host cannot pass for it.
const origin = "https://cards.example"

// world is a whole service: a database, a payee and a relayer of its own on a chain, an issuer, and
// one or more instances of the program over them.
type world struct {
	t *testing.T
	// life is how long the world lives: as long as its test, or as all of them when it is lent to one after the other.
	life    life
	config  app.Config
	db      *pgxpool.Pool
	node    *rpc.Client
	payTo   x402.Address
	relayer x402.Address
	// treasury is zero in a world without one.
	treasury x402.Address
	// fromBlock is the block at which the world begins, and since the one at which it was lent; both are the same in a
	// world of the test's own.
	fromBlock, since uint64
	issuer           *issuer
	// issuerBooks and supplierBooks are where the books of another issuer and of another supplier are; empty in a world of
	// the sandbox alone.
	issuerBooks, supplierBooks string
	instances                  []*instance
	log                        *slog.Logger
	telemetry                  *telemetry.Telemetry

	databaseURL, rpcURL string

	told *told
}

// told is what the callers of a world have heard and know, whichever test they belong to.
type told struct {
	sync.Mutex
	// answers are those that buyers got for their purchases.
	answers []invariants.Answer
	// downSpans are the times at which something that a sale needs was known to be down.
	downSpans []invariants.Span
}

// life ends what was made for a test, or for all of them.
type life interface {
	testing.TB
}

// plan says how a world differs from the usual one.
type plan struct {
	instances int
	// bare worlds have no instance.
	bare bool
	// chain and databaseURL are the world's own ones; the shared chain and a fresh database otherwise.
	chain       *devnet.Chain
	databaseURL string
	issuer      sandbox.Config
	change      func(*app.Config)
	// log hears what the instances log.
	log *slog.Logger
	// telemetry counts what the instances do; nil counts nothing.
	telemetry *telemetry.Telemetry
}

// newWorld makes a world whose instances are ready to sell.
func newWorld(t *testing.T, p plan) *world {
	t.Helper()
	return makeWorld(t, t, p)
}

// makeWorld is newWorld for a test that is the first to need it, with a life that may be longer.
func makeWorld(t *testing.T, life life, p plan) *world {
	t.Helper()
	if p.chain == nil {
		p.chain = sharedChain(t)
	}
	if p.databaseURL == "" {
		p.databaseURL = storetest.URL(life)
	}
	w := &world{t: t, life: life, issuer: newIssuer(life, p.issuer), databaseURL: p.databaseURL,
		rpcURL: p.chain.RPCURL, log: p.log, telemetry: p.telemetry, told: &told{}}
	w.issuer.t = t
	if w.log == nil {
		w.log = worldLog(life)
	}
	w.db = openDatabase(life, p.databaseURL)
	w.node = dialNode(life, p.chain.RPCURL)
	payee, relayer := newKey(t), newKey(t)
	w.payTo, w.relayer = addressOf(payee), addressOf(relayer)
	w.giveGas(w.relayer)
	w.fromBlock = w.blockNumber()
	w.since = w.fromBlock
	w.config = app.Config{
		BaseURL: origin, Environment: app.Sandbox, DatabaseURL: secret.New(p.databaseURL),
		RPCURLs: []string{p.chain.RPCURL}, PaidAt: "latest", DeadAt: "safe",
		PayTo: w.payTo, Asset: usdc(), AssetName: "USD Coin",
		RelayerKeys:    []secret.Text{secret.New(hexutil.Encode(crypto.FromECDSA(relayer)))},
		IssuerProvider: "sandbox", IssuerURL: w.issuer.url, IssuerKey: secret.New(sandbox.DevKey),
		IssuerPoll: 50 * time.Millisecond, IssuerDeadline: time.Hour,
		// Longer than the sandbox takes to execute anything, and than it is told to be late.
		IssuerCallTimeout: 2 * time.Second, IssuerVisibilityDelay: 3 * time.Second,
		QuoteKey: secret.New(strings.Repeat("5a", 32)), ReceiptKeys: []secret.Text{secret.New(strings.Repeat("4c", 32))},
		ProductConfig: app.ProductConfig{Esim: app.EsimConfig{
			Provider: "sandbox", URL: w.issuer.url, Key: secret.New(sandbox.DevKey),
			Keys:     secret.New("k1:" + strings.Repeat("c4", 32)),
			TokenKey: secret.New(strings.Repeat("7e", 32)), MarginBPS: 2500, SyncEvery: time.Hour, StaleAfter: 24 * time.Hour,
			Poll: 50 * time.Millisecond, Deadline: time.Hour, Waiters: 5000,
		}},
		Slots: 8, LeaseTTL: 3 * time.Second, Wait: 8 * time.Second,
		// Tests count what the node is asked, and look themselves.
		ChainWatch: time.Hour, ReorgCalm: time.Second,
		// Each connection costs the database a process.
		Database: app.DatabaseConfig{MaxConns: 8},
	}
	if p.change != nil {
		p.change(&w.config)
	}
	if p.bare {
		return w
	}
	for range max(1, p.instances) {
		w.start(w.config)
	}
	for _, i := range w.instances {
		w.awaitReady(i)
	}
	return w
}

// instance is one process's worth of the program.
type instance struct {
	url string
	// metrics is where the metrics are shown; empty when they are not.
	metrics string
	// stop ends it as a signal would, and waits.
	stop func()
	// pid is its process, when it is one of its own.
	pid int
}

// start adds an instance.
func (w *world) start(cfg app.Config) *instance {
	w.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	cfg.Addr = listener.Addr().String()
	waits, cancelWait := waitContext(w.t)
	defer cancelWait()
	a, err := app.New(w.life.Context(), cfg, app.Options{Log: w.log, Listener: listener, Telemetry: w.telemetry})
	for err != nil && strings.Contains(err.Error(), "no RPC endpoint answers") && waits.Err() == nil {
		// A busy node took longer than a start waits: whoever runs the program starts it again.
		a, err = app.New(w.life.Context(), cfg, app.Options{Log: w.log, Listener: listener, Telemetry: w.telemetry})
	}
	if err != nil {
		listener.Close()
		w.t.Fatalf("start an instance: %v", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.life.Context()))
	ended := make(chan error, 1)
	go func() {
		err := a.Run(ctx)
		if ctx.Err() == nil {
			endedByItself(w.life, fmt.Sprintf("an instance ended by itself: %v", err))
		}
		ended <- err
	}()
	i := &instance{url: "http://" + cfg.Addr, metrics: a.MetricsURL()}
	i.stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-ended, a.Close()); err != nil {
			w.life.Errorf("end an instance: %v", err)
		}
	})
	w.life.Cleanup(i.stop)
	w.instances = append(w.instances, i)
	return i
}

func (w *world) awaitReady(i *instance) {
	w.t.Helper()
	eventually(w.t, func() (bool, string) {
		a := w.send(get("/ready").on(i))
		return a.status == http.StatusOK, "not ready: " + string(a.body)
	})
}

// awaitCaughtUp waits until an instance, ready or not, has read what was paid: before it takes no payment, whatever
// else keeps it from selling.
func (w *world) awaitCaughtUp(i *instance) *instance {
	w.t.Helper()
	eventually(w.t, func() (bool, string) {
		a := w.send(get("/ready").on(i))
		behind := a.status != http.StatusOK && strings.Contains(string(a.body), "transfers")
		return !behind, "not caught up: " + string(a.body)
	})
	return i
}

// worldLog writes what the program logs into the file that ROAMCARD_TEST_LOG names, for the hunt.
func worldLog(t testing.TB) *slog.Logger {
	path := os.Getenv("ROAMCARD_TEST_LOG")
	if path == "" {
		return slog.New(slog.DiscardHandler)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return slog.New(slog.NewTextHandler(file, nil)).With("test", t.Name())
}

// chains is the test binary's shared chain: in memory, and ended by the kernel with this process.
var chains struct {
	sync.Mutex
	shared *devnet.Chain
}

func sharedChain(t *testing.T) *devnet.Chain {
	t.Helper()
	chains.Lock()
	defer chains.Unlock()
	if chains.shared == nil {
		chain, err := devnet.StartChain(context.Background(), devnet.ChainConfig{BlockEvery: time.Second})
		if err != nil {
			t.Fatalf("start the chain: %v", err)
		}
		chains.shared = chain
	}
	return chains.shared
}

// ownChain is a chain that a test may do anything to.
func ownChain(t *testing.T) *devnet.Chain {
	t.Helper()
	chain, err := devnet.StartChain(t.Context(), devnet.ChainConfig{BlockEvery: time.Second})
	if err != nil {
		t.Fatalf("start a chain: %v", err)
	}
	t.Cleanup(func() { chain.Close() })
	return chain
}

func openDatabase(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 4
	cfg.ConnConfig.RuntimeParams["application_name"] = "the test"
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(t.Context()), cfg)
	if err != nil {
		t.Fatalf("open the database: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// exec changes the database without the program's knowledge.
func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.db.Exec(context.WithoutCancel(w.t.Context()), sql, args...); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

// count is the one number that a query returns.
func (w *world) count(sql string, args ...any) int {
	w.t.Helper()
	return queryOne[int](w, sql, args...)
}

// queryOne is the one value that a query returns.
func queryOne[T any](w *world, sql string, args ...any) (value T) {
	w.t.Helper()
	if err := w.db.QueryRow(context.WithoutCancel(w.t.Context()), sql, args...).Scan(&value); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func dialNode(t testing.TB, url string) *rpc.Client {
	t.Helper()
	node, err := rpc.DialContext(t.Context(), url)
	if err != nil {
		t.Fatalf("dial the chain: %v", err)
	}
	t.Cleanup(node.Close)
	return node
}

// rpc asks the chain itself, past whatever stands between it and the instances.
func (w *world) rpc(result any, method string, args ...any) {
	w.t.Helper()
	if err := w.node.CallContext(context.WithoutCancel(w.t.Context()), result, method, args...); err != nil {
		w.t.Fatalf("%s: %v", method, err)
	}
}

func (w *world) blockNumber() uint64 {
	w.t.Helper()
	var n hexutil.Uint64
	w.rpc(&n, "eth_blockNumber")
	return uint64(n)
}

// pauseMining stops the chain from making blocks.
func (w *world) pauseMining() {
	w.t.Helper()
	w.rpc(nil, "evm_setIntervalMining", 0)
	w.rpc(nil, "evm_setAutomine", false)
}

// resumeMining makes a block each second again, and one for each transaction.
func (w *world) resumeMining() {
	w.t.Helper()
	w.rpc(nil, "evm_setAutomine", true)
	w.rpc(nil, "evm_setIntervalMining", 1)
}

// mine makes blocks at once.
func (w *world) mine(blocks int) {
	w.t.Helper()
	w.rpc(nil, "anvil_mine", hexutil.EncodeUint64(uint64(blocks)))
}

// giveGas gives an account 1,000 ETH.
func (w *world) giveGas(account x402.Address) {
	w.t.Helper()
	w.rpc(nil, "anvil_setBalance", account.String(), "0x3635c9adc5dea00000")
}

// balance is what an account holds in USDC.
func (w *world) balance(of x402.Address) money.USDC {
	w.t.Helper()
	var word hexutil.Bytes
	w.rpc(&word, "eth_call", map[string]any{"to": usdc().String(), "data": hexutil.Encode(x402.BalanceCall(of))}, "latest")
	return money.USDC(common.BytesToHash(word).Big().Int64())
}

// fund sets what an account holds in USDC.
func (w *world) fund(account x402.Address, amount money.USDC) {
	w.t.Helper()
	slot, value := balanceSlot(account, amount)
	w.rpc(nil, "anvil_setStorageAt", usdc().String(), slot, value)
	// Only a block made after it holds it for good: the service asks about blocks by their hash.
	w.mine(1)
}

// balanceSlot is a balance in the token's storage: it keeps them in its slot 2.
func balanceSlot(account x402.Address, amount money.USDC) (slot, value common.Hash) {
	var at [64]byte
	copy(at[12:], account[:])
	at[63] = 2
	return crypto.Keccak256Hash(at[:]), common.BigToHash(amount.Big())
}

func usdc() x402.Address { return x402.Address(common.HexToAddress(devnet.USDCAddress)) }

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func addressOf(key *ecdsa.PrivateKey) x402.Address {
	return x402.Address(crypto.PubkeyToAddress(key.PublicKey))
}

func purchaseBody(key string) string { return fmt.Sprintf(`{"idempotencyKey":%s}`, jsonText(key)) }

func jsonText(s string) string {
	encoded, _ := json.Marshal(s) // a string always marshals
	return string(encoded)
}
