package esimgo_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/esim/esimtest"
	"github.com/roamcard/roamcard/internal/provider/esimgo"
	"github.com/roamcard/roamcard/internal/provider/esimgo/esimgofake"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/store/memory"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

// clock is a time that moves when a test says so.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// bench is a running vendor and an adapter to it.
type bench struct {
	*esimgo.Supplier
	t       *testing.T
	clock   *clock
	vendor  *esimgofake.Server
	web     *httptest.Server
	journal esim.Journal
	config  esimgo.Config
}

func start(t *testing.T, cfg esimgofake.Config) *bench {
	t.Helper()
	b := &bench{
		t: t, clock: &clock{at: time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)},
		journal: memory.New(nil).SupplierJournal("esimgo"),
	}
	cfg.Now = b.clock.now
	b.vendor = esimgofake.New(cfg)
	b.web = httptest.NewServer(b.vendor)
	t.Cleanup(b.web.Close)
	b.config = esimgo.Config{
		URL: b.web.URL, APIKey: secret.New(esimgofake.DevKey), Journal: b.journal, HTTP: b.web.Client(),
		Timeout: 10 * time.Second, VisibilityDelay: time.Minute, OrderGap: time.Nanosecond, Now: b.clock.now,
	}
	b.Supplier = b.dial()
	t.Cleanup(func() {
		if err := b.vendor.Check(); err != nil {
			t.Errorf("the vendor's books: %v", err)
		}
	})
	return b
}

// dial is another process: it shares the journal only.
func (b *bench) dial() *esimgo.Supplier {
	b.t.Helper()
	s, err := esimgo.Dial(b.config)
	if err != nil {
		b.t.Fatalf("dial: %v", err)
	}
	return s
}

func (b *bench) fault(op string, mode vendorfake.Mode) {
	b.t.Helper()
	if !b.vendor.Fault(op, mode) {
		b.t.Fatalf("the fake cannot %s on %s", mode, op)
	}
}

const (
	france = "esim_1GB_7D_FR_V2"
	japan  = "esim_1GB_7D_JP_V2"
)

func asking(code string) esim.Request {
	return esim.Request{Ref: fulfilmenttest.NewRef(), Code: code, MaxCost: 10_000_000}
}

// apart is the adapter under the kit: orders of different requests are an hour apart, so that what an earlier one left
// unknown does not make a later one ambiguous. It counts what the vendor makes for each request.
type apart struct {
	*bench
	mu       sync.Mutex
	executed map[fulfilment.Ref]int
}

func (a *apart) Listings(ctx context.Context) ([]esim.Listing, error) {
	a.clock.pass(time.Hour)
	return a.bench.Listings(ctx)
}

func (a *apart) Topups(ctx context.Context, h esim.Held) ([]esim.Listing, error) {
	a.clock.pass(time.Hour)
	return a.bench.Topups(ctx, h)
}

func (a *apart) Order(ctx context.Context, r esim.Request) (esim.Purchase, error) {
	return a.counted(r.Ref, func() (esim.Purchase, error) { return a.bench.Order(ctx, r) })
}

func (a *apart) TopUp(ctx context.Context, r esim.TopUpRequest) (esim.Purchase, error) {
	return a.counted(r.Ref, func() (esim.Purchase, error) { return a.bench.TopUp(ctx, r) })
}

func (a *apart) counted(ref fulfilment.Ref, send func() (esim.Purchase, error)) (esim.Purchase, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := len(a.vendor.Orders())
	p, err := send()
	a.executed[ref] += len(a.vendor.Orders()) - before
	return p, err
}

func TestSupplierPassesTheKit(t *testing.T) {
	for name, cfg := range map[string]esimgofake.Config{
		"at once": {}, "later": {Pending: true}, "in small pages": {PageSize: 2},
		"oldest first": {PageSize: 3, OldestFirst: true}, "assigned apart": {Bare: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := &apart{bench: start(t, cfg), executed: map[fulfilment.Ref]int{}}
			esimtest.Run(t, esimtest.Harness{
				Handles: fulfilmenttest.Handles{
					Traits: a.Traits(), Settle: a.vendor.Settle,
					Fault: func(op fulfilmenttest.Op, mode fulfilmenttest.Mode) bool {
						return a.vendor.Fault(string(op), vendorfake.Mode(mode))
					},
					Executed: func(ref fulfilment.Ref) int { return a.executed[ref] },
				},
				Supplier: a, Capabilities: a.Capabilities(), Use: func(p esim.Purchase, bytes int64) {
					a.vendor.Put(p.ID, esimgofake.Use{Profile: "Enabled", Bundle: "Active", Used: bytes})
				},
			})
		})
	}
}

// between is a network that a test changes: before sees each request, and after may change an answer.
type between struct {
	before func(*http.Request)
	after  func(r *http.Request, status int, body string) (int, string)
}

func (n between) RoundTrip(r *http.Request) (*http.Response, error) {
	if n.before != nil {
		n.before(r)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || n.after == nil {
		return resp, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	status, text := n.after(r, resp.StatusCode, string(body))
	resp.StatusCode, resp.ContentLength, resp.Body = status, int64(len(text)), io.NopCloser(strings.NewReader(text))
	return resp, nil
}

// over is another process, behind such a network.
func (b *bench) over(n between) *esimgo.Supplier {
	b.t.Helper()
	cfg := b.config
	cfg.HTTP = &http.Client{Transport: n}
	s, err := esimgo.Dial(cfg)
	if err != nil {
		b.t.Fatalf("dial: %v", err)
	}
	return s
}

// isTransaction recognises the request that makes an order.
func isTransaction(t *testing.T, r *http.Request) bool {
	t.Helper()
	if r.Method != http.MethodPost {
		return false
	}
	body, err := r.GetBody()
	if err != nil {
		t.Error(err)
		return false
	}
	text, err := io.ReadAll(body)
	if err != nil {
		t.Error(err)
	}
	return strings.Contains(string(text), `"transaction"`)
}

func refusalOf(err error) string {
	if no, ok := errors.AsType[*fulfilment.Refusal](err); ok {
		return no.Code
	}
	return ""
}

// wantUnknown wants an error that neither refunds nor lets anything be sent again.
func wantUnknown(t *testing.T, err error) {
	t.Helper()
	if err == nil || refusalOf(err) != "" || errors.Is(err, fulfilment.ErrNoRef) || errors.Is(err, fulfilment.ErrNotSent) {
		t.Errorf("the outcome is %v, want one that is unknown", err)
	}
}

func TestDialTakesNoAddressThatOthersRead(t *testing.T) {
	journal, key := memory.New(nil).SupplierJournal("esimgo"), secret.New("key")
	for url, want := range map[string]bool{
		"https://api.esim-go.com/v2.4": true, "http://127.0.0.1:8080": true, "http://localhost/v2.4": true,
		"http://[::1]:80": true, "http://api.esim-go.com/v2.4": false, "http://127.0.0.1.example.com": false,
		"http://10.0.0.1": false, "ftp://127.0.0.1": false, "": false, "https://": false, "https://u:p@example.com": false,
		"https://example.com/?a=b": false,
	} {
		if _, err := esimgo.Dial(esimgo.Config{URL: url, APIKey: key, Journal: journal}); (err == nil) != want {
			t.Errorf("Dial(%q) = %v", url, err)
		}
	}
	for _, cfg := range []esimgo.Config{
		{URL: "https://example.com", Journal: journal}, {URL: "https://example.com", APIKey: key},
	} {
		if _, err := esimgo.Dial(cfg); err == nil {
			t.Errorf("Dial took %+v", cfg)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	b := start(t, esimgofake.Config{})
	var followed bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		followed = r.URL.Path == "/elsewhere"
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer elsewhere.Close()
	b.config.URL = elsewhere.URL
	if _, err := b.dial().Listings(t.Context()); err == nil || followed {
		t.Errorf("Listings = %v, followed %v", err, followed)
	}
}

func TestProbeReadsOnly(t *testing.T) {
	b := start(t, esimgofake.Config{Balance: 12_340_000})
	if said, err := b.Probe(t.Context()); err != nil || said != "5 plans, 12.340000 USD left" {
		t.Errorf("Probe = %q, %v", said, err)
	}
	if b.vendor.Requests()["order"]+b.vendor.Requests()["check"] != 0 {
		t.Error("the probe orders")
	}
	b.fault("organisation", vendorfake.WrongCurrency)
	if said, err := b.Probe(t.Context()); err == nil {
		t.Errorf("Probe of an organisation in another currency = %q", said)
	}
	b.fault("organisation", vendorfake.Unauthorized)
	if said, err := b.Probe(t.Context()); err == nil {
		t.Errorf("Probe with a bad key = %q", said)
	}
}
