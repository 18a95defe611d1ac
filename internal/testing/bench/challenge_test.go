package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/devtools/dev"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/x402"
)

// connections is how many callers ask at once.
const connections = 16

const purchaseBody = `{"idempotencyKey":"7d1c9bb8-4f0c-4b3a-9a6e-0c2f8f0d1e55"}`

// BenchmarkChallenge is the answer to a purchase without a payment, over loopback: by the whole program as it
// serves, and by a handler that writes the same bytes.
func BenchmarkChallenge(b *testing.B) {
	p := newProgram(b)
	stop := p.serve(b)
	defer stop()
	for _, route := range []struct{ name, path string }{
		{"rest", "/api/card/purchase"}, {"connect", "/roamcard.v1.CardService/PurchaseCard"},
	} {
		bare := echoing(b, ask(b, p.addr, route.path))
		b.Run(route.name+"-bare", func(b *testing.B) { load(b, bare, route.path) })
		b.Run(route.name, func(b *testing.B) { load(b, p.addr, route.path) })
	}
}

// BenchmarkChallengeBooks counts what challenges do to the database and to the chain's node: the difference between a
// run of the program with one challenge and a run with b.N more. A connection reports all its statistics only when it
// is closed.
func BenchmarkChallengeBooks(b *testing.B) {
	p := newProgram(b)
	life := func(challenges int) (activity, int) {
		before, calls := activityOf(b, p.db), asked(p.chain)
		stop := p.serve(b)
		ask(b, p.addr, "/api/card/purchase")
		inParallel(challenges, connections, func(int, int) { ask(b, p.addr, "/api/card/purchase") })
		stop()
		after := activityOf(b, p.db)
		return activity{after.transactions - before.transactions, after.written - before.written}, asked(p.chain) - calls
	}
	one, oneCalls := life(0)
	b.ResetTimer()
	begin := time.Now()
	all, allCalls := life(b.N)
	seconds := time.Since(begin).Seconds()
	// What a program does without being asked differs by a few from run to run.
	reads := max(0, all.transactions-one.transactions)
	b.ReportMetric(float64(max(0, all.written-one.written)), "rows-written")
	b.ReportMetric(float64(max(0, allCalls-oneCalls)), "rpc-calls")
	b.ReportMetric(float64(reads), "reads")
	b.ReportMetric(float64(reads)/seconds, "reads/s")
}

// program is everything that a serving process needs around it.
type program struct {
	config app.Config
	addr   string
	db     string
	chain  *devnet.Chain
}

func newProgram(b *testing.B) *program {
	b.Helper()
	return newProgramOn(b, devnet.ChainConfig{BlockEvery: time.Second})
}

func newProgramOn(b *testing.B, blocks devnet.ChainConfig) *program {
	b.Helper()
	db := durable(b)
	node, err := devnet.StartChain(b.Context(), blocks)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { node.Close() })
	issuer, err := dev.StartSandbox(dev.SandboxConfig{Addr: "127.0.0.1:0"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { issuer.Close() })
	p := &program{chain: node}
	p.db = db.URL()
	announceWorker(b, db.URL())
	relayer := devnet.WalletsOf(devnet.RoleRelayer)[0]
	p.config = app.Config{
		BaseURL: "https://cards.example", Environment: app.Sandbox, DatabaseURL: secret.New(db.URL()),
		RPCURLs: []string{node.RPCURL}, PaidAt: "latest", DeadAt: "safe", PayTo: payee, Asset: usdc(), AssetName: "USD Coin",
		RelayerKeys: []secret.Text{secret.New(relayer.PrivateKey)}, IssuerProvider: "sandbox", IssuerURL: issuer.URL,
		IssuerKey: secret.New(sandbox.DevKey), IssuerPoll: time.Second, IssuerDeadline: time.Hour,
		IssuerCallTimeout: 5 * time.Second, IssuerVisibilityDelay: 10 * time.Second,
		ProductConfig: app.ProductConfig{Esim: app.EsimConfig{
			Provider: "sandbox", URL: issuer.URL,
			Keys: secret.New("k1:" + strings.Repeat("c4", 32)), TokenKey: secret.New(strings.Repeat("7e", 32)),
			SyncEvery: time.Hour, StaleAfter: 24 * time.Hour, Waiters: 1,
		}},
		QuoteKey: secret.New(strings.Repeat("5a", 32)), Slots: 8, LeaseTTL: 20 * time.Second, Wait: 20 * time.Second,
		NoWorker: true,
	}
	return p
}

// fund gives the issuer's float an amount.
func (p *program) fund(b *testing.B, float money.Cents) {
	b.Helper()
	res, err := http.Post(p.config.IssuerURL+"/control/float", "application/json",
		strings.NewReader(fmt.Sprintf(`{"cents":%d}`, float)))
	if err != nil {
		b.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusOK {
		b.Fatalf("the float is not set: %s", res.Status)
	}
}

// announceWorker makes a process that only serves believe in a worker, whose own work would show in the books.
func announceWorker(b *testing.B, db string) {
	b.Helper()
	s, err := store.Open(b.Context(), store.Config{URL: db})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	kinds := []job.Kind{settlement.Fulfilling, settlement.Confirming, card.FeeJob}
	if err := s.Jobs().Announce(b.Context(), "elsewhere", kinds, 24*time.Hour); err != nil {
		b.Fatal(err)
	}
}

// serve runs the program until it is stopped. It logs as in production, into nothing.
func (p *program) serve(b *testing.B) (stop func()) {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	p.addr = listener.Addr().String()
	a, err := app.New(b.Context(), p.config, app.Options{
		Log: telemetry.NewLogger(io.Discard, p.config.LogLevel, true), Listener: listener,
	})
	if err != nil {
		listener.Close()
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		a.Close()
	}
}

func request(path string) []byte {
	return fmt.Appendf(nil,
		"POST %s HTTP/1.1\r\nHost: cards.example\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, len(purchaseBody), purchaseBody)
}

// answer is a challenge as it came.
type answer struct {
	header http.Header
	body   []byte
}

// ask asks for a challenge, and again while a program that has just started reads what has been paid.
func ask(b *testing.B, addr, path string) answer {
	b.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		res, err := http.Post("http://"+addr+path, "application/json", strings.NewReader(purchaseBody))
		if err != nil {
			b.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err == nil && res.StatusCode == http.StatusPaymentRequired && res.Header.Get(x402.HeaderRequired) != "" {
			return answer{res.Header, body}
		}
		if err != nil || res.StatusCode != http.StatusServiceUnavailable || time.Now().After(end) {
			b.Fatalf("no challenge: %d %s (%v)", res.StatusCode, body, err)
		}
	}
}

// echoing serves an answer again, and nothing else.
func echoing(b *testing.B, a answer) string {
	b.Helper()
	a.header.Del("Date")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for name, values := range a.header {
			w.Header()[name] = values
		}
		w.WriteHeader(http.StatusPaymentRequired)
		_, _ = w.Write(a.body)
	}))
	b.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// load asks b.N times over kept connections, reading no more of an answer than its length: what a client
// costs is in both sides of the ratio.
func load(b *testing.B, addr, path string) {
	question := request(path)
	conns := make([]*bufio.ReadWriter, connections)
	for i := range conns {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		conns[i] = bufio.NewReadWriter(bufio.NewReaderSize(conn, 16<<10), bufio.NewWriter(conn))
	}
	b.ResetTimer()
	inParallel(b.N, connections, func(worker, _ int) {
		c := conns[worker]
		_, err := c.Write(question)
		if err == nil {
			err = c.Flush()
		}
		if err == nil {
			err = skip(c.Reader)
		}
		if err != nil {
			b.Error(err)
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
}

// skip reads one answer.
func skip(r *bufio.Reader) error {
	status, err := r.ReadSlice('\n')
	if err != nil || !bytes.HasPrefix(status, []byte("HTTP/1.1 402 ")) {
		return fmt.Errorf("answer %q: %w", status, err)
	}
	for length := 0; ; {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			_, err := r.Discard(length)
			return err
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
}
