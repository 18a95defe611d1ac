package goclient_test

import (
	"context"
	"flag"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/testing/devserver"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// A scenario mostly waits, for the chain and for the issuer.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.Exit(max(code, devserver.Stop()))
}

// stage is the development server behind a fault proxy of a test's own, and the wallets that the test made.
type stage struct {
	devserver.Server
	*proxy
	t       *testing.T
	wallets []*wallet
	// accounts are the smart accounts that the test made.
	accounts []string
}

type (
	proxy = devserver.Proxy
	fault = devserver.Fault
)

func newStage(t *testing.T) *stage {
	t.Helper()
	s := devserver.Start(t)
	return &stage{Server: s, proxy: s.Faulty(), t: t}
}

// newStageWithout is a stage whose clients have no proxy before the server.
func newStageWithout(t *testing.T) *stage {
	t.Helper()
	return &stage{Server: devserver.Start(t), t: t}
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

// walletWith makes a wallet with so many units.
func (s *stage) walletWith(units uint64) *wallet {
	s.t.Helper()
	w := new(wallet)
	w.key, w.KeySigner = s.Wallet(units)
	s.wallets = append(s.wallets, w)
	return w
}

// buyer is a client of the wallet, whose network leads through the proxy.
func (s *stage) buyer(w roamcard.Signer, changes ...func(*roamcard.Config)) *roamcard.Client {
	s.t.Helper()
	cfg := roamcard.Config{
		BaseURL: s.BaseURL, Signer: w, Poll: 100 * time.Millisecond,
		Policy: roamcard.Policy{Mode: roamcard.Autonomous, MaxPerPayment: 25_000, MaxPerDay: 100_000},
	}
	if s.proxy != nil {
		cfg.HTTP = through(s.proxy.URL)
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
func (s *stage) transfers(wallets ...*wallet) (all []int64) {
	s.t.Helper()
	for _, w := range wallets {
		all = append(all, s.Transfers(w.Address())...)
	}
	return all
}

// fromAccounts counts the transfers of the smart accounts to the service.
func (s *stage) fromAccounts() (n int) {
	s.t.Helper()
	for _, account := range s.accounts {
		n += len(s.Transfers(account))
	}
	return n
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

// sent counts the payments that went out, and how many different ones.
func (s *stage) sent() (all, different int) {
	s.t.Helper()
	seen := map[string]bool{}
	for _, r := range s.Requests() {
		if r.Payment != "" {
			all++
			seen[r.Payment] = true
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
