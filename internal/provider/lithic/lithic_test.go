package lithic_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/provider/lithic"
	"github.com/roamcard/roamcard/internal/provider/lithic/lithicfake"
	"github.com/roamcard/roamcard/internal/secret"
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

// bench is a running vendor and an adapter that calls it.
type bench struct {
	*testing.T
	*lithic.Issuer
	fake   *lithicfake.Server
	web    *httptest.Server
	clock  *clock
	config lithic.Config
}

// start runs a vendor on a clock of its own.
func start(t *testing.T, cfg lithicfake.Config, inline bool) *bench {
	t.Helper()
	b := &bench{T: t, clock: &clock{at: time.Date(2026, 3, 1, 12, 0, 30, 123456789, time.UTC)}}
	cfg.Now = b.clock.now
	cfg.Numbers = inline
	b.fake = lithicfake.New(cfg)
	b.web = httptest.NewServer(b.fake)
	t.Cleanup(b.web.Close)
	b.config = configOf(b.web.URL, b.web.Client())
	b.config.Inline, b.config.Now = inline, b.clock.now
	b.Issuer = dial(t, b.config)
	return b
}

func configOf(url string, client *http.Client) lithic.Config {
	return lithic.Config{
		URL: url, HTTP: client, Key: secret.New(lithicfake.DevKey), Float: uuid.MustParse(lithicfake.Float),
		Program: uuid.MustParse(lithicfake.Program), Timeout: time.Minute,
		Transfer:  lithic.Transfer{Category: "TRANSFER", Type: "ACCOUNT_TO_ACCOUNT", Subtype: "load"},
		Billing:   &billing,
		Challenge: card.Challenge{Method: card.ChallengeOutOfBand, Instructions: "Approve it with the operator."},
	}
}

var billing = card.Billing{
	Name: "Programme Inc", Line1: "1 Programme Street", City: "Dover", Region: "DE", PostalCode: "19901", Country: "US",
}

func dial(t *testing.T, cfg lithic.Config) *lithic.Issuer {
	t.Helper()
	i, err := lithic.Dial(cfg)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	return i
}

// handles are what the kit holds of the vendor. A card counts as opened with its load, so an answer that is lost after
// the opening is that to the load.
func (b *bench) handles() fulfilmenttest.Handles {
	return fulfilmenttest.Handles{
		Traits: b.Traits(), Settle: func() {},
		Fault: func(op fulfilmenttest.Op, mode fulfilmenttest.Mode) bool {
			if op == cardtest.Open && (mode == fulfilmenttest.ErrorAfter || mode == fulfilmenttest.TimeoutAfter) {
				op = cardtest.Move
			}
			switch op {
			case cardtest.Details: // nothing is asked
				return false
			case cardtest.ReadLimits:
				op = "sensitive"
			case cardtest.Lock, cardtest.End, cardtest.SetLimits:
				op = "state"
			case cardtest.Left:
				op = "balance"
			}
			return b.fake.Fault(string(op), vendorfake.Mode(mode))
		},
		Executed: b.executed,
	}
}

// executed is how many loaded cards, or transfers, the vendor has under a reference.
func (b *bench) executed(ref fulfilment.Ref) (n int) {
	opened := 0
	for _, c := range b.fake.Cards() {
		if strings.Contains(c.Memo, ref.String()) {
			opened++
			for _, t := range b.fake.Transfers() {
				if t.To == c.Token && strings.HasSuffix(t.Memo, "opening") && t.Status == "SETTLED" {
					n++
				}
			}
		}
	}
	if opened > 1 {
		b.Errorf("%d cards for one reference", opened)
	}
	for _, t := range b.fake.Transfers() {
		if t.Token == ref.String() {
			n++
		}
	}
	return n
}

func (b *bench) harness() cardtest.Harness {
	return cardtest.Harness{
		Handles: b.handles(), Issuer: b, Vault: b, Stock: b, Lister: b, Controls: b, Charge: b.charge, Closer: b,
		Hold: func(_ *testing.T, account string, amount money.Cents) func(bool) {
			return b.fake.Hold(account, int64(amount))
		},
		Capabilities: b.Capabilities(),
	}
}

func TestLithicPassesTheKit(t *testing.T) {
	cardtest.Run(t, start(t, lithicfake.Config{PageSize: 3}, false).harness())
}

func TestLithicPassesTheKitWhereNumbersMayBeRead(t *testing.T) {
	cardtest.Run(t, start(t, lithicfake.Config{}, true).harness())
}

// The vendor does not say what it answers to a token that was used for another request.
func TestLithicPassesTheKitWhenTheVendorReplays(t *testing.T) {
	cardtest.Run(t, start(t, lithicfake.Config{Replays: true}, false).harness())
}

func opening(load money.Cents) card.Opening {
	return card.Opening{Ref: fulfilmenttest.NewRef(), Load: load, Buyer: uuid.NewString()}
}

// opened opens a card with a load.
func (b *bench) opened(load money.Cents) card.Account {
	b.Helper()
	a, err := b.Open(b.Context(), opening(load))
	if err != nil || a.State != card.AccountActive {
		b.Fatalf("open: %+v, %v", a, err)
	}
	return a
}

func (b *bench) wantBalance(account string, want money.Cents) {
	b.Helper()
	got, err := b.Balance(b.Context(), account)
	if err != nil || got.Available != want {
		b.Errorf("the balance is %v, %v; want %v", got.Available, err, want)
	}
}

func TestDialRefusesWhatCannotWork(t *testing.T) {
	good := configOf("https://api.example.com", nil)
	for name, spoil := range map[string]func(*lithic.Config){
		"no https":      func(c *lithic.Config) { c.URL = "http://api.example.com" },
		"no URL":        func(c *lithic.Config) { c.URL = "" },
		"no key":        func(c *lithic.Config) { c.Key = secret.Text{} },
		"no float":      func(c *lithic.Config) { c.Float = uuid.Nil },
		"no programme":  func(c *lithic.Config) { c.Program = uuid.Nil },
		"no subtype":    func(c *lithic.Config) { c.Transfer.Subtype = "" },
		"no type":       func(c *lithic.Config) { c.Transfer.Type = "" },
		"no category":   func(c *lithic.Config) { c.Transfer.Category = "" },
		"another host":  func(c *lithic.Config) { c.URL = "http://127.0.0.1.example.com" },
		"a query":       func(c *lithic.Config) { c.URL += "?a=b" },
		"a user's name": func(c *lithic.Config) { c.URL = "https://a@api.example.com" },
	} {
		bad := good
		spoil(&bad)
		if _, err := lithic.Dial(bad); err == nil {
			t.Errorf("%s: dialled", name)
		}
	}
	if _, err := lithic.Dial(good); err != nil {
		t.Error(err)
	}
}

func TestProbeReadsAndChangesNothing(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	b.opened(2500)
	before := b.fake.Requests()
	said, err := b.Probe(t.Context())
	if err != nil || said != "range 52304803, a float of 99975.00 USD, 1 cards on the first page" {
		t.Errorf("Probe = %q, %v", said, err)
	}
	for _, op := range []string{"open", "move", "state"} {
		if b.fake.Requests()[op] != before[op] {
			t.Errorf("the probe sent %s", op)
		}
	}
	for _, op := range []string{"account", "moved", "stock", "program", "accounts", "events"} {
		b.fake.Fault(op, vendorfake.ErrorBefore)
		if said, err := b.Probe(t.Context()); err == nil {
			t.Errorf("Probe without %s = %q", op, said)
		}
	}
}
