package stripe_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/provider/stripe"
	"github.com/roamcard/roamcard/internal/provider/stripe/stripefake"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

var _ provider.IssuerClient = (*stripe.Issuer)(nil)

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
	*stripe.Issuer
	fake  *stripefake.Server
	web   *httptest.Server
	clock *clock
}

func start(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, clock: newClock()}
	b.fake = stripefake.New(stripefake.Config{Now: b.clock.now})
	b.web = httptest.NewServer(b.fake)
	t.Cleanup(b.web.Close)
	b.Issuer = b.dial(b.web.Client().Transport)
	return b
}

// dial makes another adapter, which remembers nothing.
func (b *bench) dial(through http.RoundTripper) *stripe.Issuer {
	b.Helper()
	return b.dialWith(stripe.Config{HTTP: &http.Client{Transport: through}, FloatEvery: -1})
}

func (b *bench) dialWith(cfg stripe.Config) *stripe.Issuer {
	b.Helper()
	cfg.URL, cfg.Now = b.web.URL, b.clock.now
	cfg.Key, cfg.Cardholder = secret.New(stripefake.DevKey), stripefake.DevCardholder
	cfg.Publishable, cfg.Elements = stripefake.DevPublishable, b.web.URL+"/elements.js"
	i, err := stripe.Dial(cfg)
	if err != nil {
		b.Fatalf("dial: %v", err)
	}
	return i
}

// ops are the vendor's requests that the kit spoils by the names of the port's calls.
var ops = map[fulfilmenttest.Op]string{
	cardtest.Open: "open", cardtest.Account: "card", cardtest.Move: "move", cardtest.Moved: "card",
	cardtest.Lock: "lock", cardtest.Purchases: "authorizations", cardtest.Left: "authorizations", cardtest.End: "lock",
	cardtest.ReadLimits: "card", cardtest.SetLimits: "move", cardtest.Details: "cardholder",
}

func (b *bench) handles() fulfilmenttest.Handles {
	return fulfilmenttest.Handles{
		Traits: b.Traits(), Settle: func() {}, // all is done at once
		Fault: func(op fulfilmenttest.Op, mode fulfilmenttest.Mode) bool {
			named, ok := ops[op]
			return ok && b.fake.Fault(named, vendorfake.Mode(mode))
		},
		Executed: func(ref fulfilment.Ref) int { return b.fake.Executed(ref.String()) },
	}
}

func (b *bench) harness() cardtest.Harness {
	return cardtest.Harness{
		Handles: b.handles(), Issuer: b, Vault: b, Stock: b, Lister: b, Controls: b, Charge: b.charge, Closer: b,
		Hold:         b.hold,
		Capabilities: b.Capabilities(), Unbounded: true,
	}
}

// hold is an authorization that the merchant captures, or gives back.
func (b *bench) hold(t *testing.T, account string, amount money.Cents) func(taken bool) {
	t.Helper()
	id, approved := b.fake.Authorize(account, int64(amount))
	if !approved {
		t.Fatal("the authorization was declined")
	}
	return func(taken bool) {
		if taken {
			b.fake.Capture(id, int64(amount))
		} else {
			b.fake.Reverse(id)
		}
	}
}

func TestStripeKeepsToTheSuite(t *testing.T) { cardtest.Run(t, start(t).harness()) }

const load money.Cents = 1500

// opened opens a card.
func (b *bench) opened() card.Account {
	b.Helper()
	a, err := b.Open(b.Context(), opening())
	if err != nil {
		b.Fatalf("open: %v", err)
	}
	return a
}

// seeded are so many cards that were opened before, one every half minute.
func (b *bench) seeded(cards int) (all []card.Account) {
	for range cards {
		ref := fulfilmenttest.NewRef()
		id := b.fake.Add([]stripefake.Limit{{Amount: int64(load), Interval: "all_time"}}, map[string]string{
			"roamcard_ref": ref.String(), "roamcard_load": fmt.Sprint(int64(load)),
		})
		all = append(all, card.Account{ID: id, Ref: ref})
		b.clock.pass(30 * time.Second)
	}
	return all
}

func opening() card.Opening {
	return card.Opening{Ref: fulfilmenttest.NewRef(), Load: load, Limit: true, Buyer: "a buyer"}
}

func onto(a card.Account, amount, target money.Cents) card.Movement {
	return card.Movement{
		Ref: fulfilmenttest.NewRef(), Account: a.ID, Direction: card.Load, Amount: amount, Target: target,
	}
}

// book reads all of the books from a cursor on, page by page.
func (b *bench) book(after string) (lines []card.Line, next string) {
	b.Helper()
	for range 1000 {
		p, err := b.Changes(b.Context(), after)
		if err != nil {
			b.Fatalf("read the books: %v", err)
		}
		lines, after = append(lines, p.Lines...), p.Next
		if !p.More {
			return lines, after
		}
	}
	b.Fatal("the books do not end")
	return nil, ""
}

// TestUnknownOutcomes: whatever is not a documented refusal leaves the outcome open, and is not quoted.
func TestUnknownOutcomes(t *testing.T) {
	b := start(t)
	on := b.opened()
	target := load
	for _, mode := range []vendorfake.Mode{
		vendorfake.ErrorBefore, vendorfake.ErrorAfter, vendorfake.TimeoutBefore, vendorfake.TimeoutAfter,
		stripefake.Idempotency, vendorfake.Conflict, stripefake.Locked, vendorfake.RateLimited, vendorfake.Unauthorized,
		stripefake.Forbidden, stripefake.Strange, stripefake.Plain, stripefake.Moved, stripefake.Accepted,
		vendorfake.Malformed, vendorfake.Truncated, vendorfake.Huge, vendorfake.WrongAmount, vendorfake.Inexact,
		vendorfake.WrongCurrency, vendorfake.WrongUnit, vendorfake.WrongOwner, vendorfake.Partial,
	} {
		t.Run(string(mode), func(t *testing.T) {
			for op, send := range map[string]func() error{
				"open": func() error { _, err := b.Open(t.Context(), opening()); return err },
				"move": func() error {
					target += 100
					_, err := b.Move(t.Context(), onto(on, 100, target))
					return err
				},
				"card": func() error { _, err := b.Account(t.Context(), on.Ref); return err },
			} {
				if op == "card" && (mode == vendorfake.WrongAmount || mode == vendorfake.WrongUnit) {
					continue // the account of a card does not say its limit
				}
				if !b.fake.Fault(op, mode) {
					continue
				}
				err := send()
				b.handles().WantUnknown(t, err)
				if text := fulfilmenttest.Shown(t, err); strings.Contains(text, on.ID) ||
					strings.Contains(text, stripefake.DevKey) || strings.Contains(text, "issuing.card") {
					t.Errorf("%s: the error quotes the vendor: %v", op, err)
				}
			}
		})
	}
}

func TestRefusalsHaveNeutralCodes(t *testing.T) {
	b := start(t)
	on := b.opened()
	b.fake.SetHolder("inactive", "")
	_, err := b.Open(t.Context(), opening())
	wantRefused(t, err, card.RefusedHolder)
	b.fake.SetHolder("active", "")
	b.fake.Fault("move", vendorfake.Refused)
	_, err = b.Move(t.Context(), onto(on, 100, 1600))
	wantRefused(t, err, fulfilment.RefusedRequest)
	b.fake.Edit(on.ID, func(c *stripefake.Card) { c.Status = "canceled" })
	_, err = b.Move(t.Context(), onto(on, 100, 1600))
	wantRefused(t, err, card.RefusedState)
}

func wantRefused(t *testing.T, err error, code string) {
	t.Helper()
	if no, ok := errors.AsType[*fulfilment.Refusal](err); !ok || no.Code != code {
		t.Errorf("refused with %v, want %s", err, code)
	}
}

// TestLostAnswerAndAnotherBodyIsUnknown: the first request did happen, so that Stripe's idempotency_error refuses
// nothing.
func TestLostAnswerAndAnotherBodyIsUnknown(t *testing.T) {
	b := start(t)
	o := opening()
	b.fake.Fault("open", vendorfake.TimeoutAfter)
	_, err := b.Open(t.Context(), o)
	b.handles().WantUnknown(t, err)
	// What the adapter would find first is not listed yet.
	id := b.fake.Cards()[0].ID
	b.fake.Edit(id, func(c *stripefake.Card) { c.Hidden = true })
	other := o
	other.Load++
	_, err = b.Open(t.Context(), other)
	b.handles().WantUnknown(t, err)
	b.fake.Reveal()
	_, err = b.Open(t.Context(), other)
	b.handles().WantUnknown(t, err)
	if a, err := b.Open(t.Context(), o); err != nil || a.ID != id || len(b.fake.Cards()) != 1 {
		t.Errorf("opened %+v, %v, and there are %d cards", a, err, len(b.fake.Cards()))
	}

	on := card.Account{ID: id}
	m := onto(on, 500, 2000)
	b.fake.Fault("move", vendorfake.TimeoutAfter)
	_, err = b.Move(t.Context(), m)
	b.handles().WantUnknown(t, err)
	another := m
	another.Target += 500
	_, err = b.Move(t.Context(), another)
	b.handles().WantUnknown(t, err)
	if limit := b.fake.Cards()[0].Limits[0].Amount; limit != 2000 {
		t.Errorf("the limit is %d", limit)
	}
}

// TestReferenceIsTakenOnceForEver: Stripe forgets it after a day.
func TestReferenceIsTakenOnceForEver(t *testing.T) {
	b := start(t)
	o := opening()
	a, err := b.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	first, second := onto(a, 500, 2000), onto(a, 700, 2700)
	for _, m := range []card.Movement{first, second} {
		if _, err := b.Move(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	b.clock.pass(48 * time.Hour)
	for _, i := range []*stripe.Issuer{b.Issuer, b.dial(nil)} {
		if again, err := i.Open(t.Context(), o); err != nil || again != a {
			t.Errorf("opened again as %+v, %v", again, err)
		}
		if again, err := i.Move(t.Context(), first); err != nil || again.Target != 2000 {
			t.Errorf("loaded again as %+v, %v", again, err)
		}
	}
	all := b.fake.Cards()
	if len(all) != 1 || all[0].Limits[0].Amount != 2700 || b.fake.Executed(first.Ref.String()) != 1 {
		t.Errorf("there are %+v", all)
	}
}

// TestCardThatIsListedLateIsFound: its answer was lost, too.
func TestCardThatIsListedLateIsFound(t *testing.T) {
	b := start(t)
	o := opening()
	b.fake.Fault("open", vendorfake.Late)
	_, err := b.Open(t.Context(), o)
	b.handles().WantUnknown(t, err)
	for range 3 {
		b.opened()
		b.clock.pass(time.Minute)
	}
	if _, err := b.Account(t.Context(), o.Ref); !errors.Is(err, fulfilment.ErrNoRef) {
		t.Fatalf("a card that is not listed: %v", err)
	}
	b.fake.Reveal()
	if a, err := b.Account(t.Context(), o.Ref); err != nil || a.ID != b.fake.Cards()[0].ID {
		t.Errorf("found %+v, %v", a, err)
	}
}

func TestManyCardsAreFoundInPages(t *testing.T) {
	b := start(t)
	const cards = 250
	var all []card.Account
	for range 2 {
		b.fake.Add([]stripefake.Limit{{Amount: 700, Interval: "all_time"}}, nil) // another program's
		all = append(all, b.seeded(cards/2)...)
	}
	fresh := b.dial(nil)
	for _, one := range []card.Account{all[0], all[120], all[cards-1]} {
		if a, err := fresh.Account(t.Context(), one.Ref); err != nil || a.ID != one.ID {
			t.Errorf("found %+v, %v", a, err)
		}
	}
	// From now on, only what is new is read.
	before := b.fake.Requests()["cards"]
	for range 3 {
		if _, err := fresh.Account(t.Context(), fulfilmenttest.NewRef()); !errors.Is(err, fulfilment.ErrNoRef) {
			t.Errorf("found %v", err)
		}
	}
	if asked := b.fake.Requests()["cards"] - before; asked != 3 {
		t.Errorf("%d lists were read for three references", asked)
	}

	b.Issuer = fresh
	lines, next := b.book("")
	seen := map[fulfilment.Ref]bool{}
	for n, l := range lines {
		if seen[l.Ref()] || l.Ref() != all[n].Ref {
			t.Fatalf("line %d is of %s", n, l.Ref())
		}
		seen[l.Ref()] = true
	}
	if again, _ := b.book(next); len(lines) != cards || len(again) != cards {
		t.Errorf("the books have %d cards, then %d", len(lines), len(again))
	}
	if stock, err := fresh.Stock(t.Context()); err != nil || stock.Float != 10_000_000-cards*load-2*700 {
		t.Errorf("stock is %+v, %v", stock, err)
	}
}

// TestInterruptedReadingGoesOn: a reading that takes longer than one call may take still ends.
func TestInterruptedReadingGoesOn(t *testing.T) {
	b := start(t)
	first := b.seeded(250)[0]
	through := &pages{next: b.web.Client().Transport}
	fresh := b.dial(through)
	for _, read := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := fresh.Account(ctx, first.Ref); return err },
		func(ctx context.Context) error { _, err := fresh.Stock(ctx); return err },
	} {
		tries := 0
		for ; tries < 10; tries++ {
			ctx, cancel := context.WithCancel(t.Context())
			through.allow(1, cancel)
			err := read(ctx)
			cancel()
			if err == nil {
				break
			}
			b.handles().WantUnknown(t, err)
		}
		if tries < 2 || tries > 4 {
			t.Errorf("read at the try %d", tries+1)
		}
	}
}

// pages lets so many pages of cards through, and ends the call at the next.
type pages struct {
	next http.RoundTripper
	mu   sync.Mutex
	left int
	end  func()
}

func (p *pages) allow(n int, end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.end = n, end
}

func (p *pages) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/v1/issuing/cards" && r.Method == http.MethodGet {
		p.mu.Lock()
		if p.left--; p.left < 0 {
			p.end()
		}
		p.mu.Unlock()
	}
	return p.next.RoundTrip(r)
}

// TestCardHasRoomForSoManyLoads: Stripe's metadata do not take more.
func TestCardHasRoomForSoManyLoads(t *testing.T) {
	b := start(t)
	on := b.opened()
	target, made := load, 0
	for {
		target += 100
		_, err := b.Move(t.Context(), onto(on, 100, target))
		if no, ok := errors.AsType[*fulfilment.Refusal](err); ok {
			if no.Code != fulfilment.RefusedRequest {
				t.Errorf("refused with %v", no)
			}
			break
		}
		if err != nil || made > 60 {
			t.Fatalf("load %d: %v", made, err)
		}
		made++
	}
	if made != 46 || b.fake.Cards()[0].Limits[0].Amount != int64(load)+4600 {
		t.Errorf("%d loads, %+v", made, b.fake.Cards()[0].Limits)
	}
}

// TestOtherLimitsStay: an owner's limit to each payment is not ours to take away.
func TestOtherLimitsStay(t *testing.T) {
	b := start(t)
	on := b.opened()
	b.fake.Edit(on.ID, func(c *stripefake.Card) {
		c.Limits = append([]stripefake.Limit{
			{Amount: 900, Interval: "per_authorization"},
			{Amount: 100, Interval: "all_time", Categories: []string{"airlines_air_carriers"}},
		}, c.Limits...)
	})
	if _, err := b.Move(t.Context(), onto(on, 500, 2000)); err != nil {
		t.Fatal(err)
	}
	limits := b.fake.Cards()[0].Limits
	if len(limits) != 3 || limits[0].Amount != 2000 || limits[1].Amount != 900 || limits[2].Amount != 100 ||
		len(limits[2].Categories) != 1 {
		t.Errorf("limits are %+v", limits)
	}
}

func TestReferenceOfTwoCardsIsNobodys(t *testing.T) {
	b := start(t)
	a := b.opened()
	b.fake.Add([]stripefake.Limit{{Amount: 1500, Interval: "all_time"}}, b.fake.Cards()[0].Metadata)
	_, err := b.dial(nil).Account(t.Context(), a.Ref)
	b.handles().WantUnknown(t, err)
}

func TestNothingIsDialledThatIsNotSafe(t *testing.T) {
	for name, cfg := range map[string]stripe.Config{
		"http":          {URL: "http://stripe.example", Key: secret.New("k"), Cardholder: "ich_1"},
		"a query":       {URL: "https://stripe.example/?a=b", Key: secret.New("k"), Cardholder: "ich_1"},
		"a user":        {URL: "https://me@stripe.example", Key: secret.New("k"), Cardholder: "ich_1"},
		"no key":        {URL: "https://stripe.example", Cardholder: "ich_1"},
		"no cardholder": {URL: "https://stripe.example", Key: secret.New("k")},
		"a path of a cardholder": {
			URL: "https://stripe.example", Key: secret.New("k"), Cardholder: "../balance",
		},
		"a secret key for pages": {
			URL: "https://stripe.example", Key: secret.New("k"), Cardholder: "ich_1", Publishable: "sk_1",
		},
		"a script over http": {
			URL: "https://stripe.example", Key: secret.New("k"), Cardholder: "ich_1", Elements: "http://js.example/",
		},
	} {
		if cfg.Publishable == "" {
			cfg.Publishable = "pk_1"
		}
		if _, err := stripe.Dial(cfg); err == nil {
			t.Errorf("%s is dialled", name)
		}
	}
	if _, err := stripe.Dial(stripe.Config{Key: secret.New("k"), Cardholder: "ich_1", Publishable: "pk_1"}); err != nil {
		t.Errorf("the vendor itself: %v", err)
	}
}

// leaving is a transport whose caller leaves while it waits for an answer.
type leaving struct{ leave context.CancelFunc }

func (l leaving) RoundTrip(r *http.Request) (*http.Response, error) {
	l.leave()
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestCallerWhoLeavesIsNoOutage: what became of the request is unknown, and nobody says that Stripe is down.
func TestCallerWhoLeavesIsNoOutage(t *testing.T) {
	b := start(t)
	on := b.opened()
	for op, send := range map[string]func(ctx context.Context, i *stripe.Issuer) error{
		"open": func(ctx context.Context, i *stripe.Issuer) error { _, err := i.Open(ctx, opening()); return err },
		"move": func(ctx context.Context, i *stripe.Issuer) error {
			_, err := i.Move(ctx, onto(on, 100, load+100))
			return err
		},
		"card": func(ctx context.Context, i *stripe.Issuer) error { _, err := i.Account(ctx, on.Ref); return err },
	} {
		ctx, leave := context.WithCancel(t.Context())
		err := send(ctx, b.dial(leaving{leave}))
		b.handles().WantUnknown(t, err)
		if fault.Of(err) != fault.Canceled {
			t.Errorf("%s: %v, want that the caller has left", op, err)
		}
	}
}
