package roamcard_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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

const cardUnits = 25_000_000

// stage is a running service, behind a fault proxy of each test's own: the stage of the list of tests that
// the clients of every language stand.
type stage struct{ app.Ready }

// wallet is a wallet of its own for a test; it counts the payments it signed.
type wallet struct {
	*roamcard.KeySigner
	key string

	mu     sync.Mutex
	signed int
	nonces []any
}

func (w *wallet) SignTypedData(ctx context.Context, doc roamcard.TypedData) ([]byte, error) {
	w.mu.Lock()
	w.signed++
	w.nonces = append(w.nonces, doc.Message["nonce"])
	w.mu.Unlock()
	return w.KeySigner.SignTypedData(ctx, doc)
}

// wallet makes one with 1000 dollars: the token of the development chain keeps balances in its third slot.
func (s stage) wallet(t *testing.T) *wallet {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	w := &wallet{key: hex.EncodeToString(crypto.FromECDSA(key))}
	if w.KeySigner, err = roamcard.NewKeySigner(w.key); err != nil {
		t.Fatal(err)
	}
	slot := crypto.Keccak256Hash(common.LeftPadBytes(common.HexToAddress(w.Address()).Bytes(), 32), common.LeftPadBytes([]byte{2}, 32))
	s.rpc(t, "anvil_setStorageAt", nil, s.USDC, slot, common.BigToHash(big.NewInt(1_000_000_000)))
	return w
}

// paid checks on chain that the wallet has paid the service 25.00 so many times.
func (s stage) paid(t *testing.T, w *wallet, times int) {
	t.Helper()
	s.paidUnits(t, w, slices.Repeat([]int64{cardUnits}, times)...)
}

// paidUnits checks on chain what the wallet has paid the service, one transfer each.
func (s stage) paidUnits(t *testing.T, w *wallet, want ...int64) {
	t.Helper()
	var logs []struct {
		Data string `json:"data"`
	}
	word := func(address string) common.Hash { return common.BytesToHash(common.HexToAddress(address).Bytes()) }
	topics := []common.Hash{crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)")), word(w.Address()), word(s.PayTo)}
	s.rpc(t, "eth_getLogs", &logs, map[string]any{"address": s.USDC, "topics": topics, "fromBlock": "0x0", "toBlock": "latest"})
	var got []int64
	for _, log := range logs {
		got = append(got, common.HexToHash(log.Data).Big().Int64())
	}
	if !slices.Equal(got, want) {
		t.Fatalf("transfers on chain %v, want %v", got, want)
	}
}

func (s stage) rpc(t *testing.T, method string, result any, params ...any) {
	t.Helper()
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  any             `json:"error"`
	}
	exchange(t, s.RPCURL, map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, &answer)
	if answer.Error != nil {
		t.Fatalf("%s: %v", method, answer.Error)
	}
	if result != nil {
		if err := json.Unmarshal(answer.Result, result); err != nil {
			t.Fatal(err)
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

// proxy is a fault proxy before the service.
type proxy struct {
	BaseURL    string `json:"baseUrl"`
	ControlURL string `json:"controlUrl"`
}

func (s stage) proxy(t *testing.T) *proxy {
	t.Helper()
	cmd := exec.Command("node", "../../testing/fault-proxy.mjs", s.BaseURL)
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

func (p *proxy) inject(t *testing.T, faults ...fault) {
	t.Helper()
	exchange(t, p.ControlURL, faults, new([]any))
}

// sent counts the payments that went out, and how many different ones.
func (p *proxy) sent(t *testing.T) (all, different int) {
	t.Helper()
	res, err := http.Get(p.ControlURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var requests []struct {
		Payment *string `json:"payment"`
	}
	if err := json.NewDecoder(res.Body).Decode(&requests); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range requests {
		if r.Payment != nil {
			all++
			seen[*r.Payment] = true
		}
	}
	return all, len(seen)
}

// through is a network that leads to the proxy whatever is dialled, so that the client sees the service's own
// address.
func through(proxyURL string) http.RoundTripper {
	address := strings.TrimPrefix(proxyURL, "http://")
	return &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
}

func buyerOf(t *testing.T, baseURL, proxyURL string, s roamcard.Signer, change func(*roamcard.Config)) *roamcard.Client {
	t.Helper()
	cfg := roamcard.Config{
		BaseURL: baseURL, Signer: s, HTTP: through(proxyURL), Poll: 100 * time.Millisecond,
		Policy: roamcard.Policy{Mode: roamcard.Autonomous, MaxPerPayment: 25_000, MaxPerDay: 100_000},
	}
	if change != nil {
		change(&cfg)
	}
	c, err := roamcard.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestThroughTheFaultProxy is the list of tests that the clients of every language stand.
func TestThroughTheFaultProxy(t *testing.T) {
	s := stage{serve(t)}
	for name, faults := range map[string][]fault{
		"a reply dropped before its first byte": {{"on": "paid", "cut": 0}},
		"a reply dropped in its headers":        {{"on": "paid", "cut": 100}},
		"a reply dropped in its body":           {{"on": "paid", "cut": -5}},
		"a connection lost meanwhile":           {{"on": "paid", "cut": "request"}},
		"503 after it was taken":                {{"on": "paid", "status": 503}},
		"503 before it came through":            {{"on": "paid", "status": 503, "forward": false}},
		"one after the other":                   {{"on": "paid", "cut": 0}, {"on": "paid", "status": 503}, {"on": "paid", "cut": 40}},
	} {
		t.Run(name, func(t *testing.T) { s.costsOnePayment(t, faults) })
	}
	t.Run("a reply that takes too long is asked for again", s.slowReplyIsAskedForAgain)
	t.Run("a top-up and a reveal", s.topsUpAndReveals)
	t.Run("a lost journal cannot pay twice", s.lostJournalPaysOnce)
	t.Run("the cap of a day holds between clients that share a journal", s.capOfADayIsShared)
	t.Run("only a payment that is proven dead gets another nonce", s.deadPaymentGetsAnotherNonce)
	t.Run("one purchase over both protocols", s.onePurchaseOverBothProtocols)
	t.Run("an eSIM is bought by its plan and shown to a person only", s.esimIsBoughtAndShown)
	t.Run("the cheapest eSIM is bought once", s.cheapestESIMIsBoughtOnce)
	t.Run("an eSIM at another price is refused before anything is signed", s.dearESIMIsRefused)
	for name, faults := range map[string][]fault{
		"nowhere":                        nil,
		"in the middle of its first":     {{"cutMessage": 1}},
		"in the middle of its second":    {{"cutMessage": 2}},
		"again and again":                {{"cutMessage": 2}, {"cutMessage": 1}, {"cutMessage": 2}, {"cutMessage": 1}},
		"before it begins, and for good": slices.Repeat([]fault{{"status": 501, "forward": false}}, 10),
	} {
		t.Run("a stream that is cut "+name+" misses no change", func(t *testing.T) { s.isFollowed(t, faults) })
	}
	t.Run("a killed client resumes from its journal", s.killedClientResumes)
	t.Run("parallel calls with one key sign once", s.parallelCallsSignOnce)
	t.Run("wrong terms are refused before anything is signed", s.wrongTermsAreRefused)
	t.Run("a cap is held before anything is signed", s.capIsHeld)
	t.Run("the README's program is the example and runs", s.readmeRuns)
}

func (s stage) costsOnePayment(t *testing.T, faults []fault) {
	w, p := s.wallet(t), s.proxy(t)
	p.inject(t, faults...)
	if _, err := buyerOf(t, s.BaseURL, p.BaseURL, w, nil).BuyCard(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	s.paid(t, w, 1)
	if all, different := p.sent(t); all != len(faults)+1 || different != 1 || w.signed != 1 {
		t.Errorf("signed %d, sent %d, different %d; want 1, %d, 1", w.signed, all, different, len(faults)+1)
	}
}

func (s stage) killedClientResumes(t *testing.T) {
	w, p, journal := s.wallet(t), s.proxy(t), filepath.Join(t.TempDir(), "journal.json")
	buyer := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-test.run=^TestBuyerProcess$")
		cmd.Env = append(os.Environ(), "BUYER_KEY="+w.key, "BUYER_BASE="+s.BaseURL, "BUYER_PROXY="+p.BaseURL, "BUYER_JOURNAL="+journal)
		cmd.Stderr = os.Stderr
		return cmd
	}
	p.inject(t, fault{"on": "paid", "delayMs": 60_000})
	first := buyer()
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if all, _ := p.sent(t); all == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the first buyer sent no payment")
		}
	}
	_ = first.Process.Kill()
	_ = first.Wait()
	if out, err := buyer().Output(); err != nil || !strings.Contains(string(out), "replayed: true") {
		t.Fatalf("the second buyer: %v\n%s", err, out)
	}
	s.paid(t, w, 1)
	if _, different := p.sent(t); different != 1 {
		t.Errorf("%d different payments were sent", different)
	}
}

// TestBuyerProcess is no test: it is the buyer that is killed.
func TestBuyerProcess(t *testing.T) {
	if os.Getenv("BUYER_KEY") == "" {
		t.Skip("run by TestThroughTheFaultProxy")
	}
	signer, err := roamcard.NewKeySigner(os.Getenv("BUYER_KEY"))
	if err != nil {
		t.Fatal(err)
	}
	journal, err := roamcard.NewFileJournal(os.Getenv("BUYER_JOURNAL"))
	if err != nil {
		t.Fatal(err)
	}
	c := buyerOf(t, os.Getenv("BUYER_BASE"), os.Getenv("BUYER_PROXY"), signer, func(cfg *roamcard.Config) { cfg.Journal = journal })
	order, err := c.BuyCard(t.Context(), "the killed buyer's card")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = os.Stdout.WriteString("replayed: " + map[bool]string{true: "true", false: "false"}[order.GetReplayed()] + "\n")
}

func (s stage) parallelCallsSignOnce(t *testing.T) {
	w, p := s.wallet(t), s.proxy(t)
	c := buyerOf(t, s.BaseURL, p.BaseURL, w, nil)
	var calls sync.WaitGroup
	orders := make([]string, 8)
	for i := range orders {
		calls.Go(func() {
			order, err := c.BuyCard(t.Context(), "one key for all")
			if err != nil {
				t.Error(err)
			}
			orders[i] = order.GetOrderId()
		})
	}
	calls.Wait()
	for _, id := range orders {
		if id != orders[0] {
			t.Errorf("orders %v, want one", orders)
		}
	}
	if _, different := p.sent(t); different != 1 || w.signed != 1 {
		t.Errorf("signed %d, different %d; want 1, 1", w.signed, different)
	}
	s.paid(t, w, 1)
}

func (s stage) wrongTermsAreRefused(t *testing.T) {
	const stranger = "0x000000000000000000000000000000000000dEaD"
	w, p := s.wallet(t), s.proxy(t)
	c := buyerOf(t, s.BaseURL, p.BaseURL, w, nil)
	for _, terms := range []map[string]any{
		{"payTo": stranger}, {"amount": "25010000"}, {"amount": "10000"}, {"asset": stranger}, {"network": "eip155:1"}, {"scheme": "upto"},
		{"resource": "https://elsewhere.example/"}, {"extra": map[string]any{"name": "USDC", "version": "2"}},
	} {
		p.inject(t, fault{"on": "unpaid", "terms": terms})
		if _, err := c.BuyCard(t.Context(), ""); !errors.Is(err, roamcard.ErrTermsMismatch) {
			t.Errorf("%v: %v, want ErrTermsMismatch", terms, err)
		}
	}
	if all, _ := p.sent(t); all != 0 || w.signed != 0 {
		t.Errorf("signed %d, sent %d; want none", w.signed, all)
	}
	s.paid(t, w, 0)
}

func (s stage) capIsHeld(t *testing.T) {
	w, p := s.wallet(t), s.proxy(t)
	c := buyerOf(t, s.BaseURL, p.BaseURL, w, func(cfg *roamcard.Config) { cfg.Policy.MaxPerPayment = 2499 })
	if _, err := c.BuyCard(t.Context(), ""); !errors.Is(err, roamcard.ErrPolicyDenied) {
		t.Errorf("%v, want ErrPolicyDenied", err)
	}
	if all, _ := p.sent(t); all != 0 || w.signed != 0 {
		t.Errorf("signed %d, sent %d; want none", w.signed, all)
	}
	s.paid(t, w, 0)
}

// readmeRuns buys a card as a reader of the README would.
func (s stage) readmeRuns(t *testing.T) {
	readme, err1 := os.ReadFile("../README.md")
	source, err2 := os.ReadFile("../examples/buycard/main.go")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```go\n")
	snippet, _, _ := strings.Cut(rest, "```")
	if snippet == "" || !strings.HasSuffix(string(source), snippet) {
		t.Fatal("the README shows another program than examples/buycard")
	}
	// With the address of this run's service in place of the one that people use.
	w, home := s.wallet(t), t.TempDir()
	edited, binary := filepath.Join(home, "main.go"), filepath.Join(home, "buycard")
	if err := os.WriteFile(edited, []byte(strings.ReplaceAll(snippet, "http://127.0.0.1:8402", s.BaseURL)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", binary, edited).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(binary)
	cmd.Dir, cmd.Env = home, append(os.Environ(), "WALLET_KEY="+w.key)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "is ACTIVE.") {
		t.Fatalf("%v\n%s", err, out)
	}
	s.paid(t, w, 1)
}
