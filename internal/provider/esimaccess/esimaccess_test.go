package esimaccess_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/esim/esimtest"
	"github.com/roamcard/roamcard/internal/provider/esimaccess"
	"github.com/roamcard/roamcard/internal/provider/esimaccess/esimaccessfake"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

// clock is a time that moves when a test says so.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 3, 1, 12, 0, 30, 123456789, time.UTC)} }

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

// bench is a running vendor and an adapter that calls it.
type bench struct {
	*testing.T
	*esimaccess.Supplier
	fake  *esimaccessfake.Server
	web   *httptest.Server
	clock *clock
}

// start runs a vendor on a clock of its own, which allocates when the test says so.
func start(t *testing.T, cfg esimaccessfake.Config) *bench {
	t.Helper()
	b := &bench{T: t, clock: newClock()}
	cfg.Now = b.clock.now
	if cfg.AllocateAfter == 0 {
		cfg.AllocateAfter = time.Hour
	}
	b.fake = esimaccessfake.New(cfg)
	b.web = httptest.NewServer(b.fake)
	t.Cleanup(b.web.Close)
	b.Supplier = b.dial()
	return b
}

// dial makes another adapter, which remembers nothing.
func (b *bench) dial() *esimaccess.Supplier {
	b.Helper()
	s, err := esimaccess.Dial(esimaccess.Config{
		URL: b.web.URL, HTTP: b.web.Client(), AccessCode: secret.New(esimaccessfake.DevAccessCode),
		Secret: secret.New(esimaccessfake.DevSecret), PerSecond: 10_000, Now: b.clock.now,
	})
	if err != nil {
		b.Fatalf("dial: %v", err)
	}
	return s
}

func (b *bench) handles() fulfilmenttest.Handles {
	return fulfilmenttest.Handles{
		Traits: b.Traits(), Settle: b.fake.Settle,
		Fault: func(op fulfilmenttest.Op, mode fulfilmenttest.Mode) bool {
			return b.fake.Fault(string(op), vendorfake.Mode(mode))
		},
		Executed: b.executed,
	}
}

// executed is how many orders the vendor has under a reference.
func (b *bench) executed(ref fulfilment.Ref) (n int) {
	for _, o := range b.fake.Orders() {
		if strings.HasPrefix(o.Transaction, ref.String()) {
			n++
		}
		for _, t := range o.Topups {
			if strings.HasPrefix(t.Transaction, ref.String()) {
				n++
			}
		}
	}
	return n
}

// request asks for a package of the fake's catalogue at any price.
func request(code string) esim.Request {
	return esim.Request{Ref: fulfilmenttest.NewRef(), Code: code, MaxCost: 100_000_000}
}

// ordered orders a package.
func (b *bench) ordered(code string) (fulfilment.Ref, esim.Purchase) {
	b.Helper()
	r := request(code)
	p, err := b.Order(b.Context(), r)
	if err != nil {
		b.Fatalf("order: %v", err)
	}
	return r.Ref, p
}

// lost orders a package, and the answer is lost.
func (b *bench) lost(mode vendorfake.Mode) fulfilment.Ref {
	b.Helper()
	b.fake.Fault("order", mode)
	r := request(france)
	_, err := b.Order(b.Context(), r)
	b.handles().WantUnknown(b.T, err)
	return r.Ref
}

// france is a package of 1 GB for 7 days, for 0.75 dollars.
const france = "FKE004"

func TestSupplierPassesTheKit(t *testing.T) {
	b := start(t, esimaccessfake.Config{})
	esimtest.Run(t, esimtest.Harness{
		Handles: b.handles(), Supplier: b.Supplier, NamedLate: true, Capabilities: b.Capabilities(),
		ToppedUp: esimtest.Profile,
		Use:      func(p esim.Purchase, bytes int64) { b.use(p.ID, "IN_USE", "ENABLED", bytes) },
	})
}

// use makes a device install a profile and use it.
func (b *bench) use(id, status, smdp string, bytes int64) {
	for _, o := range b.fake.Orders() {
		if o.ProfileNo == id {
			b.fake.Edit(o.No, func(o *esimaccessfake.Order) { o.ESIMStatus, o.SMDPStatus, o.Used = status, smdp, bytes })
		}
	}
}

// A restart forgets the numbers of orders: what is known of them then is what the vendor lists.
func TestSupplierPassesTheKitWithoutMemory(t *testing.T) {
	b := start(t, esimaccessfake.Config{})
	h := b.handles()
	h.Fault = func(op fulfilmenttest.Op, mode fulfilmenttest.Mode) bool {
		if op == esimtest.Ordered && mode == fulfilmenttest.WrongOwner {
			// A list of everybody's orders may well have none of ours.
			return false
		}
		return b.fake.Fault(string(op), vendorfake.Mode(mode))
	}
	esimtest.Run(t, esimtest.Harness{Handles: h, Supplier: forgetful{b}, NamedLate: true})
}

// forgetful is an adapter that is dialled for each call.
type forgetful struct{ b *bench }

func (f forgetful) Listings(ctx context.Context) ([]esim.Listing, error) {
	return f.b.dial().Listings(ctx)
}

func (f forgetful) Check(ctx context.Context, code string) (esim.Stock, error) {
	return f.b.dial().Check(ctx, code)
}

func (f forgetful) Order(ctx context.Context, r esim.Request) (esim.Purchase, error) {
	return f.b.dial().Order(ctx, r)
}

func (f forgetful) Ordered(ctx context.Context, ref fulfilment.Ref) (esim.Purchase, error) {
	return f.b.dial().Ordered(ctx, ref)
}

func TestDialTakesOnlyWhatItCanSignAndSendSafely(t *testing.T) {
	whole := esimaccess.Config{AccessCode: secret.New("code"), Secret: secret.New("secret")}
	for name, change := range map[string]func(*esimaccess.Config){
		"plain http":     func(c *esimaccess.Config) { c.URL = "http://api.example.com" },
		"another scheme": func(c *esimaccess.Config) { c.URL = "ftp://127.0.0.1" },
		"no host":        func(c *esimaccess.Config) { c.URL = "https://" },
		"a password":     func(c *esimaccess.Config) { c.URL = "https://user:hidden@api.example.com" },
		"a query":        func(c *esimaccess.Config) { c.URL = "https://api.example.com?key=hidden" },
		"no access code": func(c *esimaccess.Config) { c.AccessCode = secret.Text{} },
		"no secret":      func(c *esimaccess.Config) { c.Secret = secret.Text{} },
		"negative rate":  func(c *esimaccess.Config) { c.PerSecond = -1 },
	} {
		cfg := whole
		change(&cfg)
		if _, err := esimaccess.Dial(cfg); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, url := range []string{
		"", "https://api.example.com", "http://localhost:80", "http://127.0.0.1:80", "http://[::1]",
	} {
		cfg := whole
		cfg.URL = url
		if _, err := esimaccess.Dial(cfg); err != nil {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestProbeMakesEveryCallThatCostsNothing(t *testing.T) {
	b := start(t, esimaccessfake.Config{Balance: 123_400})
	said, err := b.Probe(t.Context())
	if err != nil || said != "15 plans, a balance of 12.340000 USD" {
		t.Errorf("Probe = %q, %v", said, err)
	}
	seen := b.fake.Requests()
	for _, op := range []string{"plans", "check", "balance", "ordered"} {
		if seen[op] != 1 {
			t.Errorf("%d requests of %s", seen[op], op)
		}
	}
	if seen["order"]+seen["cancel"] != 0 {
		t.Errorf("the probe made %v", seen)
	}
	for _, op := range []string{"plans", "check", "balance", "ordered"} {
		b.fake.Fault(op, vendorfake.Unauthorized)
		if _, err := b.Probe(t.Context()); err == nil {
			t.Errorf("the probe does not notice a key that %s refuses", op)
		}
	}
}
