package roamcard_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/app"
)

// server is the development server of all tests: the one that ROAMCARD_READY names, or one that starts when it
// is first needed.
var server struct {
	once  sync.Once
	ready app.Ready
	err   error
	stop  func() error
}

func TestMain(m *testing.M) {
	flag.Parse()
	// A scenario mostly waits, for the chain and for the issuer.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	code := m.Run()
	if server.stop != nil {
		if err := server.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "the development server:", err)
			code = 1
		}
	}
	os.Exit(code)
}

func start() (app.Ready, func() error, error) {
	if path := os.Getenv("ROAMCARD_READY"); path != "" {
		r, err := app.ReadReady(path)
		return r, nil, err
	}
	r, stop, err := app.StartDev(context.Background(), app.DevConfig{Addr: "127.0.0.1:0", Log: app.DevLogger(io.Discard, ""), Out: io.Discard})
	if err != nil {
		return r, nil, fmt.Errorf("start the development server: %w", err)
	}
	return r, stop, nil
}

// stage is a running service behind a fault proxy of a test's own, and the wallets that the test made.
type stage struct {
	app.Ready
	*proxy
	t       *testing.T
	wallets []*wallet
}

func newStage(t *testing.T) *stage {
	t.Helper()
	server.once.Do(func() { server.ready, server.stop, server.err = start() })
	if server.err != nil {
		t.Fatal(server.err)
	}
	return &stage{Ready: server.ready, proxy: startBefore(t, "fault-proxy.mjs", server.ready.BaseURL), t: t}
}

// wallet is a wallet of its own for a test; it counts the payments it signed.
type wallet struct {
	*roamcard.KeySigner
	key string

	mu     sync.Mutex
	nonces []any
}

func (w *wallet) SignTypedData(ctx context.Context, doc roamcard.TypedData) ([]byte, error) {
	w.mu.Lock()
	w.nonces = append(w.nonces, doc.Message["nonce"])
	w.mu.Unlock()
	return w.KeySigner.SignTypedData(ctx, doc)
}

func (w *wallet) signed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.nonces)
}

// wallet makes one with 1000 dollars.
func (s *stage) wallet() *wallet { return s.walletWith(1_000_000_000) }

// walletWith makes a wallet with so many units: the token of the development chain keeps balances in its third slot.
func (s *stage) walletWith(units int64) *wallet {
	s.t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		s.t.Fatal(err)
	}
	w := &wallet{key: hex.EncodeToString(crypto.FromECDSA(key))}
	if w.KeySigner, err = roamcard.NewKeySigner(w.key); err != nil {
		s.t.Fatal(err)
	}
	slot := crypto.Keccak256Hash(common.LeftPadBytes(common.HexToAddress(w.Address()).Bytes(), 32), common.LeftPadBytes([]byte{2}, 32))
	s.rpc("anvil_setStorageAt", nil, s.USDC, slot, common.BigToHash(big.NewInt(units)))
	s.wallets = append(s.wallets, w)
	return w
}

// buyer is a client of the wallet, whose network leads through the proxy.
func (s *stage) buyer(w roamcard.Signer, changes ...func(*roamcard.Config)) *roamcard.Client {
	s.t.Helper()
	cfg := roamcard.Config{
		BaseURL: s.BaseURL, Signer: w, HTTP: through(s.proxy.URL), Poll: 100 * time.Millisecond,
		Policy: roamcard.Policy{Mode: roamcard.Autonomous, MaxPerPayment: 25_000, MaxPerDay: 100_000},
	}
	for _, change := range changes {
		change(&cfg)
	}
	c, err := roamcard.New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func capped(payment, day roamcard.Cents) func(*roamcard.Config) {
	return func(c *roamcard.Config) { c.Policy.MaxPerPayment, c.Policy.MaxPerDay = payment, day }
}

// storedIn gives a client the store of a file, as another program would open it.
func (s *stage) storedIn(path string) func(*roamcard.Config) {
	s.t.Helper()
	store, err := roamcard.NewFileStore(path)
	if err != nil {
		s.t.Fatal(err)
	}
	return func(c *roamcard.Config) { c.Store = store }
}

// transfers reads from the chain what the wallets have paid the service, in units, one after the other.
func (s *stage) transfers(wallets ...*wallet) []int64 {
	s.t.Helper()
	word := func(address string) common.Hash { return common.BytesToHash(common.HexToAddress(address).Bytes()) }
	var all []int64
	for _, w := range wallets {
		var logs []struct {
			Data string `json:"data"`
		}
		topics := []common.Hash{crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)")), word(w.Address()), word(s.PayTo)}
		s.rpc("eth_getLogs", &logs, map[string]any{"address": s.USDC, "topics": topics, "fromBlock": "0x0", "toBlock": "latest"})
		for _, log := range logs {
			all = append(all, common.HexToHash(log.Data).Big().Int64())
		}
	}
	return all
}

// paid checks on chain what the wallet has paid the service, and how often it signed for that.
func (s *stage) paid(w *wallet, signed int, want ...roamcard.Cents) {
	s.t.Helper()
	var units []int64
	for _, cents := range want {
		units = append(units, int64(cents)*10_000)
	}
	if got := s.transfers(w); !slices.Equal(got, units) {
		s.t.Errorf("transfers on chain %v, want %v", got, units)
	}
	if w.signed() != signed {
		s.t.Errorf("signed %d payments, want %d", w.signed(), signed)
	}
}

func (s *stage) rpc(method string, result any, params ...any) {
	s.t.Helper()
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  any             `json:"error"`
	}
	exchange(s.t, s.RPCURL, map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, &answer)
	if answer.Error != nil {
		s.t.Fatalf("%s: %v", method, answer.Error)
	}
	if result != nil {
		if err := json.Unmarshal(answer.Result, result); err != nil {
			s.t.Fatal(err)
		}
	}
}

func exchange(t *testing.T, url string, request, answer any) {
	t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(answer); err != nil {
		t.Fatal(err)
	}
}

// fault is one of clients/testing/fault-proxy.mjs.
type fault map[string]any

// proxy is a program of clients/testing that stands before the service: the fault proxy, or a service that lies.
type proxy struct {
	URL     string `json:"baseUrl"`
	Control string `json:"controlUrl"`
}

// startBefore starts such a program, which ends with the test.
func startBefore(t *testing.T, program string, args ...string) *proxy {
	t.Helper()
	cmd := exec.Command("node", append([]string{"../../testing/" + program}, args...)...)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(in.Close(), cmd.Wait()) })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	p := new(proxy)
	if err := errors.Join(err, json.Unmarshal(line, p)); err != nil {
		t.Fatal(err)
	}
	return p
}

func (s *stage) inject(faults ...fault) {
	s.t.Helper()
	exchange(s.t, s.proxy.Control, faults, new([]any))
}

// sent counts the payments that went out, and how many different ones.
func (s *stage) sent() (all, different int) {
	s.t.Helper()
	seen := map[string]bool{}
	for _, r := range s.requests() {
		if r.Payment != "" {
			all++
			seen[r.Payment] = true
		}
	}
	return all, len(seen)
}

type request struct{ Path, Payment string }

// requests are those that came to the proxy.
func (s *stage) requests() (all []request) {
	s.t.Helper()
	res, err := http.Get(s.proxy.Control)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(&all); err != nil {
		s.t.Fatal(err)
	}
	return all
}

// through is a network that leads to the proxy whatever is dialled, so that the client sees the service's own
// address.
func through(proxyURL string) http.RoundTripper {
	address := strings.TrimPrefix(proxyURL, "http://")
	return &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
}
