package hostile_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/testing/apptest"
	"github.com/roamcard/roamcard/internal/testing/invariants"
)

// world is one running program, and everything that it depends on, each a process of its own.
type world struct {
	t    testing.TB
	dir  string
	base string
	// settings are the program's environment, and operator a token of it.
	settings []string
	operator string
	// programs are the processes that serve; the first one is at base.
	programs []*process
	books    invariants.Books
	// proxy is the node that the program talks to first, and others are more of them, where there are several.
	proxy  *proxy
	others []*proxy
	http   *http.Client

	// callers counts the client addresses given out, and unmatched what was sent to the payee outside any purchase.
	callers   atomic.Uint32
	unmatched atomic.Int64
	answers   struct {
		sync.Mutex
		all []invariants.Answer
	}
	secrets struct {
		sync.Mutex
		all map[string]string
	}
}

// plenty is the issuer's float when it does not matter.
const plenty = 100_000_000

// newWorld starts a chain, a database and the sandbox's providers.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), http: &http.Client{Timeout: time.Minute}}
	w.secrets.all = map[string]string{}
	chain, err := devnet.StartChain(t.Context(), devnet.ChainConfig{BlockEvery: time.Second})
	if err != nil {
		t.Fatalf("start the chain: %v", err)
	}
	t.Cleanup(func() { _ = chain.Close() }) // killed with the tests at the latest
	ready := filepath.Join(w.dir, "sandbox.json")
	launchUntil(t, ready, nil, "sandbox", "--addr", "127.0.0.1:0", "--data", filepath.Join(w.dir, "sandbox"))
	var providers struct{ SandboxURL string }
	readJSON(t, ready, &providers)
	w.books = invariants.Books{
		DatabaseURL: storetest.URL(t), RPCURL: chain.RPCURL, USDC: chain.USDC, SandboxURL: providers.SandboxURL,
		PayTo: devnet.WalletsOf(devnet.RolePayee)[0].Address, Treasury: devnet.WalletsOf(devnet.RoleTreasury)[0].Address,
		Relayers: []string{devnet.WalletsOf(devnet.RoleRelayer)[0].Address},
	}
	w.proxy = w.newProxy()
	w.sandbox("POST", "/control/float", map[string]any{"cents": plenty}, nil)
	return w
}

// start runs the program as in production, with only the required settings; more settings are names and values in
// turn. A second start adds a process on the same database.
func (w *world) start(more ...string) *world {
	w.t.Helper()
	if w.settings == nil {
		w.settings = w.defaults()
	}
	addr := apptest.FreeAddr(w.t)
	env := append(slices.Clone(w.settings), "ROAMCARD_ADDR="+addr, "ROAMCARD_BASE_URL=http://"+addr)
	for i := 0; i+1 < len(more); i += 2 {
		env = append(env, "ROAMCARD_"+more[i]+"="+more[i+1])
	}
	p := launch(w.t, env, "serve")
	p.base = "http://" + addr
	w.programs = append(w.programs, p)
	w.base = w.programs[0].base
	// It is ready when one product is; who is told here asks for either.
	for _, path := range []string{"/ready", "/api/esim/ready"} {
		p.Await(w.t, "the program is ready", func() error {
			res, err := w.http.Get(p.base + path)
			if err != nil {
				return err
			}
			defer func() { _ = res.Body.Close() }()
			if res.StatusCode != http.StatusOK {
				text, _ := io.ReadAll(res.Body) // said when it does not come up
				return fmt.Errorf("%d %s", res.StatusCode, text)
			}
			return nil
		})
	}
	return w
}

// defaults are the settings that have no default, and shorter pauses between looks at a card, for the tests' sake.
func (w *world) defaults() []string {
	secret := func(name string) string {
		raw := make([]byte, 32)
		_, _ = rand.Read(raw) // never fails
		text := hex.EncodeToString(raw)
		w.keep(name, text)
		return text
	}
	w.operator = "rco_" + secret("the operator's token")
	hash := sha256.Sum256([]byte(w.operator))
	relayer, treasury := devnet.WalletsOf(devnet.RoleRelayer)[0].PrivateKey,
		devnet.WalletsOf(devnet.RoleTreasury)[0].PrivateKey
	w.keep("the relayer's key", relayer)
	w.keep("the treasury's key", treasury)
	return []string{
		"ROAMCARD_ENVIRONMENT=sandbox", "ROAMCARD_DATABASE__URL=" + w.books.DatabaseURL,
		"ROAMCARD_CHAIN__RPC_URL=" + w.proxy.url,
		"ROAMCARD_PAYMENT__PAY_TO=" + w.books.PayTo, "ROAMCARD_RELAYER__KEYS=" + relayer,
		"ROAMCARD_TREASURY__KEY=" + treasury,
		"ROAMCARD_ISSUER__URL=" + w.books.SandboxURL, "ROAMCARD_ISSUER__KEY=" + sandbox.DevKey,
		"ROAMCARD_SUPPLIER__URL=" + w.books.SandboxURL, "ROAMCARD_SUPPLIER__KEY=" + sandbox.DevKey,
		"ROAMCARD_QUOTE__KEY=" + secret("the quote key"), "ROAMCARD_ESIM__KEYS=k1:" + secret("the eSIMs' key"),
		"ROAMCARD_ESIM__TOKEN_KEY=" + secret("the delivery tokens' key"),
		"ROAMCARD_OPERATORS=suite:" + hex.EncodeToString(hash[:]),
		"ROAMCARD_ISSUER__POLL=200ms", "ROAMCARD_SUPPLIER__POLL=200ms", "ROAMCARD_LOG__LEVEL=debug",
	}
}

// keep remembers a secret that must never be written down.
func (w *world) keep(name, secret string) {
	w.secrets.Lock()
	defer w.secrets.Unlock()
	w.secrets.all[fmt.Sprintf("%s %d", name, len(w.secrets.all))] = secret
}

// rpc makes a call to the real chain that must succeed.
func (w *world) rpc(into any, method string, params ...any) {
	w.t.Helper()
	if params == nil {
		params = []any{}
	}
	var answer struct {
		Result json.RawMessage
		Error  json.RawMessage
	}
	w.call("POST", w.books.RPCURL, map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, &answer)
	if answer.Error != nil {
		w.t.Fatalf("%s: %s", method, answer.Error)
	}
	if into != nil {
		if err := json.Unmarshal(answer.Result, into); err != nil {
			w.t.Fatalf("read the answer of %s: %v", method, err)
		}
	}
}

// sandbox makes a call to the providers' control API.
func (w *world) sandbox(method, path string, body, into any) {
	w.t.Helper()
	w.call(method, w.books.SandboxURL+path, body, into)
}

// operate makes a call as an operator of the service.
func (w *world) operate(method, path, key string, body, into any) {
	w.t.Helper()
	c := w.caller()
	headers := []string{"Authorization", "Bearer " + w.operator}
	if key != "" {
		headers = append(headers, "Idempotency-Key", key)
	}
	a := c.send(w.t.Context(), method, path, body, headers...)
	if a.status != http.StatusOK {
		w.t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
	}
	a.into(w.t, into)
}

func (w *world) call(method, url string, body, into any) {
	w.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(context.WithoutCancel(w.t.Context()), method, url, bytes.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := w.http.Do(req)
	if err != nil {
		w.t.Fatalf("%s: %v", url, err)
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: %d %v %.300s", url, res.StatusCode, err, got)
	}
	if into != nil {
		if err := json.Unmarshal(got, into); err != nil {
			w.t.Fatalf("read %s: %v", url, err)
		}
	}
}

// address is an address of loopback that no caller has had.
func (w *world) address() net.IP {
	n := w.callers.Add(1)
	return net.IPv4(127, byte(1+n>>16), byte(n>>8), byte(n))
}

// fund gives a wallet so many millionths of a dollar.
func (w *world) fund(to common.Address, units int64) {
	w.t.Helper()
	const balances = 2 // the slot of the token's balances
	slot := crypto.Keccak256Hash(common.LeftPadBytes(to.Bytes(), 32), common.BigToHash(big.NewInt(balances)).Bytes())
	w.rpc(nil, "anvil_setStorageAt", w.books.USDC, slot, common.BigToHash(big.NewInt(units)))
}

// units is what a wallet has, in millionths of a dollar.
func (w *world) units(of common.Address) int64 {
	w.t.Helper()
	var word hexutil.Bytes
	data := append(selector("balanceOf(address)"), common.LeftPadBytes(of.Bytes(), 32)...)
	w.rpc(&word, "eth_call", map[string]any{"to": w.books.USDC, "data": hexutil.Encode(data)}, "latest")
	return new(big.Int).SetBytes(word).Int64()
}

// transact sends a transaction from any account, whose ether is topped up, and waits until it is in a block.
func (w *world) transact(from common.Address, to string, data []byte) (hash string, worked bool) {
	w.t.Helper()
	w.rpc(nil, "anvil_setBalance", from.Hex(), "0x3635c9adc5dea00000")
	w.rpc(nil, "anvil_impersonateAccount", from.Hex())
	w.rpc(&hash, "eth_sendTransaction", map[string]string{
		"from": from.Hex(), "to": to, "data": hexutil.Encode(data), "gas": "0xf00000",
	})
	var receipt *struct{ Status string }
	w.await("the transaction is in a block", func() error {
		if w.rpc(&receipt, "eth_getTransactionReceipt", hash); receipt == nil {
			return fmt.Errorf("no receipt of %s", hash)
		}
		return nil
	})
	return hash, receipt.Status == "0x1"
}

// goods is what the providers have really made and moved, by their own books.
type goods struct{ Cards, Loads, Esims int }

func (w *world) goods() goods {
	w.t.Helper()
	var issuer struct {
		Cards     []struct{ Status string }
		Movements []struct{ Direction, Status string }
	}
	w.sandbox("GET", "/control/books", nil, &issuer)
	var supplier struct{ Esims []struct{ Status string } }
	w.sandbox("GET", "/control/esim/books", nil, &supplier)
	g := goods{Cards: len(issuer.Cards), Esims: len(supplier.Esims)}
	for _, m := range issuer.Movements {
		if m.Direction == "in" {
			g.Loads++
		}
	}
	return g
}

// has is what a payer paid and got, in all books.
func (w *world) has(p *wallet) invariants.Tally {
	w.t.Helper()
	got, err := invariants.Tell(w.t.Context(), w.books, p.address.Hex())
	if err != nil {
		w.t.Fatalf("count what %s has: %v", p.address, err)
	}
	return got
}

// await polls what the programs bring about, and fails when one of them has ended.
func (w *world) await(what string, holds func() error) {
	w.t.Helper()
	apptest.Await(w.t, what, func() error {
		err := holds()
		for _, p := range w.programs {
			if err != nil && p.Ended() {
				w.t.Fatalf("a program ended before: %s: %v: %v\n%s", what, err, p.Cmd.ProcessState, p.Log.Tail())
			}
		}
		return err
	})
}

func (w *world) saw(a invariants.Answer) {
	w.answers.Lock()
	defer w.answers.Unlock()
	w.answers.all = append(w.answers.all, a)
}

func readJSON(t testing.TB, file string, into any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func unmarshal(t testing.TB, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v: %.300s", err, text)
	}
}

func selector(signature string) []byte { return keccak(signature)[:4] }

func keccak(text string) []byte { return crypto.Keccak256([]byte(text)) }
