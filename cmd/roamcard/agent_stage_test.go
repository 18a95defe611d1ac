package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/roamcard/roamcard/clients/agent"
	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/clients/go/roamcard/roamcardtest"
	"github.com/roamcard/roamcard/internal/testing/apptest"
	"github.com/roamcard/roamcard/internal/testing/devserver"
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
			time.Sleep(50 * time.Millisecond) // clock: it is no test that waits here
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

// browse is a browser whose person presses the buttons of the page, and keeps what it was called with, what it shows in
// the end, and where.
func browse(url, file string) error {
	for _, variable := range os.Environ() {
		if strings.HasPrefix(variable, "ROAMCARD_") {
			return errors.New("the browser was given what belongs to the wallet")
		}
	}
	page, err := roamcardtest.Look(context.Background(), url)
	if err != nil {
		return err
	}
	shown := strings.Join(os.Args, " ") + "\n" + page.URL + "\n" + page.HTML
	if err := os.WriteFile(file+".new", []byte(shown), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
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

// stage is a running service, a wallet with 1000 dollars, and the folder of an agent that may spend of them.
type stage struct {
	devserver.Server
	t        *testing.T
	dir      string
	signer   *roamcard.KeySigner
	key      string
	settings agent.Settings
}

func newStage(t *testing.T) *stage {
	t.Helper()
	return newStageAt(t, devserver.Start(t))
}

func newStageAt(t *testing.T, at devserver.Server) *stage {
	t.Helper()
	s := &stage{Server: at, t: t, dir: t.TempDir()}
	s.key, s.signer = s.Wallet(1_000_000_000)
	if err := os.WriteFile(filepath.Join(s.dir, "wallet"), []byte(s.key), 0o600); err != nil {
		t.Fatal(err)
	}
	s.settings = agent.Settings{
		Origin: s.BaseURL, PayTo: s.PayTo, Asset: s.USDC, Mode: roamcard.Autonomous, MaxPerPaymentUSDCents: 10_000,
		MaxPerDayUSDCents: 20_000,
		Journal:           filepath.Join(s.dir, "journal"), Presenter: agent.Browser,
	}
	return s
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
	cmd.Env = append(os.Environ(), "TEST_COMMAND=1", "ROAMCARD_WALLET_KEY=", "ROAMCARD_WALLET_KEY_FILE="+filepath.Join(
		s.dir, "wallet"),
		"ROAMCARD_SIGNER=", "ROAMCARD_READY_FILE=", "ROAMCARD_JOURNAL="+
			filepath.Join(s.dir, "other"), "ROAMCARD_RPC_URL=", "ROAMCARD_LOG__LEVEL=debug")
	if dial != "" {
		cmd.Env = append(cmd.Env,
			"TEST_DIAL="+strings.TrimPrefix(s.BaseURL, "http://")+"="+strings.TrimPrefix(dial, "http://"))
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
	Currency                                                 string
	BillingAddress                                           struct{ PostalCode string }
	Transactions                                             []struct{ Merchant string }
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
	var got told
	apptest.Await(a.t, "the purchase is paid", func() error {
		got = a.call("get_order", map[string]any{"purchaseKey": key})
		if got.Status == "paid" {
			return nil
		}
		if got.Status != "processing" && got.Code != "payment_outcome_unknown" {
			a.t.Fatalf("%s is %+v\n%s", key, got, a.stderr)
		}
		return fmt.Errorf("%s is %+v\n%s", key, got, a.stderr)
	})
	return got
}

// transfers reads from the chain what the wallet has paid the service, in cents.
func (s *stage) transfers() (all []int64) {
	s.t.Helper()
	for _, units := range s.Transfers(s.signer.Address()) {
		all = append(all, units/10_000)
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

// between is a fault proxy that stands before the service.
type between struct {
	*devserver.Proxy
	t *testing.T
}

type fault = devserver.Fault

// await waits until a request of the kind has come.
func (b *between) await(paid bool) {
	b.t.Helper()
	apptest.Await(b.t, "such a request came", func() error {
		seen := b.Requests()
		for _, r := range seen {
			if strings.Contains(r.Path, "Purchase") && (r.Payment != "") == paid {
				return nil
			}
		}
		return fmt.Errorf("%d others came", len(seen))
	})
}
