package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/agent"
	"github.com/roamcard/roamcard/internal/app"
)

// standIn lets the test's own program stand for the programs around an agent: the command itself, with its network led
// elsewhere, a browser, and a wallet that never answers.
func standIn() {
	if file := os.Getenv("TEST_BROWSER"); file != "" {
		os.Exit(exitCode(browse(os.Args[len(os.Args)-1], file)))
	}
	if file := os.Getenv("TEST_HOLD"); file != "" {
		parent := os.Getppid()
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			os.Exit(exitFailure)
		}
		for os.Getppid() == parent {
			time.Sleep(50 * time.Millisecond)
		}
		os.Exit(exitFailure)
	}
	if os.Getenv("TEST_COMMAND") != "" {
		_ = os.Unsetenv("TEST_COMMAND") // what it starts is something else
		if from, to, ok := strings.Cut(os.Getenv("TEST_DIAL"), "="); ok {
			http.DefaultTransport.(*http.Transport).DialContext = instead(from, to)
		}
		os.Exit(run())
	}
}

func browse(url, file string) error {
	res, err := http.Get(url)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	page, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte(url+"\n"), page...), 0o600)
}

// instead is a network where one address leads to another, so that a client sees the service's own.
func instead(from, to string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == from {
			address = to
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
}

var devServer struct {
	once  sync.Once
	ready app.Ready
	err   error
	stop  func() error
}

// stage is a running service, a wallet with 1000 dollars, and the folder of an agent that may spend of them.
type stage struct {
	app.Ready
	t        *testing.T
	dir      string
	signer   *roamcard.KeySigner
	key      string
	settings agent.Settings
}

func newStage(t *testing.T) *stage {
	t.Helper()
	devServer.once.Do(func() {
		devServer.ready, devServer.stop, devServer.err = app.StartDev(context.Background(),
			app.DevConfig{Addr: "127.0.0.1:0", Log: app.DevLogger(io.Discard, ""), Out: io.Discard})
	})
	if devServer.err != nil {
		t.Fatal(devServer.err)
	}
	s := &stage{Ready: devServer.ready, t: t, dir: t.TempDir()}
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	s.key = hex.EncodeToString(crypto.FromECDSA(key))
	if s.signer, err = roamcard.NewKeySigner(s.key); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "wallet"), []byte(s.key), 0o600); err != nil {
		t.Fatal(err)
	}
	// The token of the development chain keeps balances in its third slot.
	slot := crypto.Keccak256Hash(common.LeftPadBytes(common.HexToAddress(s.signer.Address()).Bytes(), 32), common.LeftPadBytes([]byte{2}, 32))
	s.rpc("anvil_setStorageAt", nil, s.USDC, slot, common.BigToHash(big.NewInt(1_000_000_000)))
	s.settings = agent.Settings{
		Origin: s.BaseURL, PayTo: s.PayTo, Asset: s.USDC, Mode: roamcard.Autonomous, MaxPerPaymentUSDCents: 10_000, MaxPerDayUSDCents: 20_000,
		Journal: filepath.Join(s.dir, "journal"), Presenter: agent.Browser,
	}
	return s
}

func stopDevServer() int {
	if devServer.stop == nil {
		return 0
	}
	if err := devServer.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "the development server:", err)
		return 1
	}
	return 0
}

func (s *stage) settingsFile() string {
	s.t.Helper()
	data, err := json.Marshal(s.settings)
	path := filepath.Join(s.dir, "agent.json")
	if err := errors.Join(err, os.WriteFile(path, data, 0o600)); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// command is the program, with this stage's wallet and network.
func (s *stage) command(dial string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "TEST_COMMAND=1", "ROAMCARD_WALLET_KEY=", "ROAMCARD_WALLET_KEY_FILE="+filepath.Join(s.dir, "wallet"),
		"ROAMCARD_SIGNER=", "ROAMCARD_READY_FILE=", "ROAMCARD_JOURNAL="+filepath.Join(s.dir, "other"), "ROAMCARD_RPC_URL=", "ROAMCARD_LOG__LEVEL=debug")
	if dial != "" {
		cmd.Env = append(cmd.Env, "TEST_DIAL="+strings.TrimPrefix(s.BaseURL, "http://")+"="+strings.TrimPrefix(dial, "http://"))
	}
	return cmd
}

// session is a client's with a server of its own.
type session struct {
	*mcp.ClientSession
	t       *testing.T
	process *exec.Cmd
	// wire has every message of both sides, stderr what the process logged.
	wire, stderr *recording
}

// recording is a text that several goroutines write and a test reads.
type recording struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *recording) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *recording) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// serve starts the real command and connects to it. dial leads its network elsewhere; opts are the client's.
func (s *stage) serve(dial string, opts *mcp.ClientOptions) *session {
	s.t.Helper()
	return s.serveAt("", dial, opts)
}

// serveAt does it in a version of the protocol.
func (s *stage) serveAt(version, dial string, opts *mcp.ClientOptions) *session {
	s.t.Helper()
	cmd := s.command(dial, "mcp", "serve", "--config", s.settingsFile())
	a := &session{t: s.t, process: cmd, wire: &recording{}, stderr: &recording{}}
	cmd.Stderr = a.stderr
	return a.connect(version, &mcp.CommandTransport{Command: cmd}, opts)
}

func (a *session) connect(version string, to mcp.Transport, opts *mcp.ClientOptions) *session {
	a.t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts)
	var err error
	if a.ClientSession, err = client.Connect(a.t.Context(), &mcp.LoggingTransport{Transport: to, Writer: a.wire},
		&mcp.ClientSessionOptions{ProtocolVersion: version}); err != nil {
		a.t.Fatalf("%v\n%s", err, a.stderr)
	}
	a.t.Cleanup(func() { _ = a.Close() }) // which may have been killed
	return a
}

// kill ends the server as a power cut would.
func (a *session) kill() {
	a.t.Helper()
	if err := a.process.Process.Kill(); err != nil {
		a.t.Fatal(err)
	}
	_ = a.Close()
}

// told is what a tool answers, whichever it is.
type told struct {
	Failed                                                   bool `json:"-"`
	Code, Detail, NextAction, PurchaseKey, OrderID, Status   string
	SafeToPayAgain, Replayed, Shown, MayPay, Allowed         bool
	Reason, Address, Refusal, DeniedBecause, BalanceUSDC     string
	SpentTodayUSDCents, LeftTodayUSDCents, AvailableUSDCents int64
	NeedsApproval                                            bool
	Order                                                    struct{ OrderID, Status, Kind, Transaction string }
	Pending                                                  []struct{ PurchaseKey string }
	Plans                                                    []struct{ PlanID string }
	Cards                                                    []struct{ CardID, Status string }
	AmountUSDCents, MaxPerPaymentUSDCents, MaxPerDayUSDCents int64
	Mode                                                     string
	Total                                                    int
}

func (a *session) call(tool string, arguments map[string]any) told {
	a.t.Helper()
	got, err := a.try(tool, arguments)
	if err != nil {
		a.t.Fatalf("%s: %v\n%s", tool, err, a.stderr)
	}
	return got
}

func (a *session) try(tool string, arguments map[string]any) (told, error) {
	return a.tryFor(a.t.Context(), tool, arguments)
}

func (a *session) tryFor(ctx context.Context, tool string, arguments map[string]any) (told, error) {
	res, err := a.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return told{}, err
	}
	structured, err := json.Marshal(res.StructuredContent)
	if err != nil {
		return told{}, err
	}
	got := told{Failed: res.IsError}
	if err := json.Unmarshal(structured, &got); err != nil {
		return told{}, err
	}
	var text map[string]any
	if content, ok := res.Content[0].(*mcp.TextContent); !ok || json.Unmarshal([]byte(content.Text), &text) != nil {
		return told{}, fmt.Errorf("the text is no JSON object: %v", res.Content[0])
	}
	return got, nil
}

// settles asks for a purchase until it is known to be paid.
func (a *session) settles(key string) told {
	a.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		got := a.call("get_order", map[string]any{"purchaseKey": key})
		if got.Status == "paid" {
			return got
		}
		if got.Status != "processing" && got.Code != "payment_outcome_unknown" || time.Now().After(end) {
			a.t.Fatalf("%s is %+v\n%s", key, got, a.stderr)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// transfers reads from the chain what the wallet has paid the service, in cents.
func (s *stage) transfers() (all []int64) {
	s.t.Helper()
	word := func(address string) common.Hash { return common.BytesToHash(common.HexToAddress(address).Bytes()) }
	var logs []struct{ Data string }
	topics := []common.Hash{crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)")), word(s.signer.Address()), word(s.PayTo)}
	s.rpc("eth_getLogs", &logs, map[string]any{"address": s.USDC, "topics": topics, "fromBlock": "0x0", "toBlock": "latest"})
	for _, log := range logs {
		all = append(all, common.HexToHash(log.Data).Big().Int64()/10_000)
	}
	return all
}

// paid checks on the chain what the wallet has paid, and in the journal how many payments were signed.
func (s *stage) paid(signatures int, want ...int64) {
	s.t.Helper()
	if got := s.transfers(); fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Errorf("transfers on the chain %v, want %v", got, want)
	}
	if n := s.signatures(); n != signatures {
		s.t.Errorf("signed %d payments, want %d", n, signatures)
	}
}

func (s *stage) signatures() (n int) {
	s.t.Helper()
	for _, e := range s.book().Purchases {
		n += len(e.Authorizations)
	}
	return n
}

// settled says whether the journal has a purchase as paid.
func (s *stage) settled(key string) bool {
	s.t.Helper()
	for _, e := range s.book().Purchases {
		if e.Key == key && e.State == roamcard.Settled {
			return true
		}
	}
	return false
}

func (s *stage) book() roamcard.Book {
	s.t.Helper()
	store, err := roamcard.NewFileStore(s.settings.Journal)
	if err != nil {
		s.t.Fatal(err)
	}
	b, err := store.Read(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return b
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

// between is a program of clients/testing that stands before the service.
type between struct {
	URL     string `json:"baseUrl"`
	Control string `json:"controlUrl"`
	t       *testing.T
}

func (s *stage) between(program string, args ...string) *between {
	s.t.Helper()
	cmd := exec.Command("node", append([]string{"../../clients/testing/" + program}, args...)...)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = errors.Join(in.Close(), cmd.Wait()) })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	b := &between{t: s.t}
	if err := errors.Join(err, json.Unmarshal(line, b)); err != nil {
		s.t.Fatal(err)
	}
	return b
}

type fault map[string]any

func (b *between) inject(faults ...fault) {
	exchange(b.t, b.Control, append([]fault{}, faults...), new([]any))
}

// await waits until a request of the kind has come.
func (b *between) await(paid bool) {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var all []struct {
			Path    string
			Payment *string
		}
		res, err := http.Get(b.Control)
		if err != nil {
			b.t.Fatal(err)
		}
		err = errors.Join(json.NewDecoder(res.Body).Decode(&all), res.Body.Close())
		if err != nil {
			b.t.Fatal(err)
		}
		for _, r := range all {
			if strings.Contains(r.Path, "Purchase") && (r.Payment != nil) == paid {
				return
			}
		}
	}
	b.t.Fatal("no such request came")
}
