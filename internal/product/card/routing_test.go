package card_test

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/x402"
)

// fleet is a shelf over two issuers, one and two, and a retired one.
type fleet struct {
	*shelf
	one, two, old *cardtest.Issuer
	// preferred is what the routing says.
	preferred []string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{shelf: newShelf(t, careful), preferred: []string{"one", "two", "old"}}
	cfg := f.Config
	cfg.Providers = nil
	for _, of := range []struct {
		name string
		at   **cardtest.Issuer
	}{{"one", &f.one}, {"two", &f.two}, {"old", &f.old}} {
		i := cardtest.NewIssuer(cardtest.Config{Instant: true, Limits: of.name == "two", Traits: careful})
		*of.at = i
		cfg.Providers = append(cfg.Providers, card.Provider{
			Name: of.name, Programme: of.name + "'s programme", Issuer: i, Vault: i, Stock: i, Lister: i, Controls: i,
			Traits: careful, Capabilities: i.Capabilities(), Retired: of.name == "old",
		})
	}
	cfg.Route = func(money.Cents) []string { return f.preferred }
	f.Cards = card.New(cfg)
	f.made.Deliver = f.Deliver
	return f
}

// reserved is the order of a purchase, as it is claimed now.
func (f *fleet) reserved(n byte) (order.Order, error) {
	o := order.Order{
		ID: order.NewID(time.Now()), Kind: card.Kind, Owner: x402.Address{0: 0xaa, 19: n}, Price: card.Price,
		UpdatedAt: time.Now(),
	}
	offer, err := offered(f.Context(), f.Cards, nil)
	if err != nil {
		return o, err
	}
	claim, err := f.Reserve(f.Context(), o.Owner, offer)
	o.Item = claim.Item
	return o, err
}

func (f *fleet) opened() string {
	return strconv.Itoa(len(f.one.Opened())) + " " + strconv.Itoa(len(f.two.Opened())) + " " +
		strconv.Itoa(len(f.old.Opened()))
}

func TestFirstIssuerThatCanSellIsChosen(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*fleet)
		want   string
		code   fault.Code
	}{
		"the preferred one":    {func(*fleet) {}, "one", ""},
		"another preference":   {func(f *fleet) { f.preferred = []string{"two", "one"} }, "two", ""},
		"its float is short":   {func(f *fleet) { f.one.SetFloat(card.Price - 1) }, "two", ""},
		"it has no open range": {func(f *fleet) { f.one.SetBINs() }, "two", ""},
		"it does not answer": {func(f *fleet) {
			for range 10 {
				f.one.Fault(cardtest.Stock, fulfilmenttest.TimeoutBefore)
			}
		}, "two", ""},
		"a retired one is listed": {func(f *fleet) { f.preferred = []string{"old", "two"} }, "two", ""},
		"none can": {func(f *fleet) {
			f.one.SetFloat(0)
			f.two.SetBINs()
		}, "", fault.FloatUnavailable},
		"none is left": {func(f *fleet) { f.preferred = []string{"old"} }, "", fault.IssuePaused},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			tc.change(f)
			o, err := f.reserved(1)
			wantFault(t, err, tc.code)
			if want := `{"provider":"` + tc.want + `"}`; err == nil && string(o.Item) != want {
				t.Errorf("the order names %s, want %s", o.Item, want)
			}
		})
	}
	f := newFleet(t)
	offer, err := offered(t.Context(), f.Cards, nil)
	if err != nil || string(offer.Item) != "{}" {
		t.Errorf("the offer tells %s, %v: the issuer is chosen when the buyer is known", offer.Item, err)
	}
}

// TestChosenIssuerIsKept: an unpaid order is paid and delivered with the issuer that it names, or not at all.
func TestChosenIssuerIsKept(t *testing.T) {
	f := newFleet(t)
	o, err := f.reserved(1)
	if err != nil {
		t.Fatal(err)
	}
	f.preferred = []string{"two", "one"}
	promised := &order.Offer{Price: o.Price, Item: o.Item}
	claim, err := f.Reserve(t.Context(), o.Owner, *promised)
	if err != nil || string(claim.Item) != string(o.Item) || claim.Reservations[1].Resource != "float/card/one" {
		t.Errorf("paid with %s of %+v, %v", claim.Item, claim.Reservations, err)
	}
	f.one.SetFloat(0)
	g := newFleet(t)
	g.one.SetFloat(0)
	_, err = offered(t.Context(), g.Cards, promised)
	wantFault(t, err, fault.FloatUnavailable)
	_, err = g.Reserve(t.Context(), o.Owner, *promised)
	wantFault(t, err, fault.FloatUnavailable)
}

// TestEverythingOfACardGoesToItsIssuer, whatever the routing says after the order.
func TestEverythingOfACardGoesToItsIssuer(t *testing.T) {
	fleetStory(t, func(f *fleet) {
		first, err := f.reserved(1)
		if err != nil {
			f.Fatal(err)
		}
		f.preferred = []string{"two"}
		second, err := f.reserved(2)
		if err != nil {
			f.Fatal(err)
		}
		f.preferred = []string{"one"}
		f.made.Begin(f.T, first)
		f.made.Begin(f.T, second)
		f.pass(10 * time.Minute)
		if got := f.opened(); got != "1 1 0" {
			f.Fatalf("opened %s, want one at each issuer", got)
		}
		for n, want := range map[byte]card.Card{
			1: {Provider: "one", Programme: "one's programme", Load: card.Price},
			2: {Provider: "two", Programme: "two's programme", Load: card.Remaining}, // an issuer with limits
		} {
			owner := x402.Address{0: 0xaa, 19: n}
			cards, err := f.List(f.Context(), owner)
			if err != nil || len(cards) != 1 {
				f.Fatalf("%d: %+v, %v", n, cards, err)
			}
			on := cards[0]
			if on.Provider != want.Provider || on.Programme != want.Programme || on.Load != want.Load ||
				on.Holder != card.HolderProgramme || on.Status != card.Active {
				f.Errorf("stored %+v, want %+v", on, want)
			}
			id, provider, err := f.Fundable(f.Context(), owner, 0)
			if err != nil || id != on.ID || provider != want.Provider {
				f.Errorf("a top-up of %s is of %q, %v", id, provider, err)
			}
			if _, err := f.Balance(f.Context(), on.ID, owner); err != nil {
				f.Error(err)
			}
			if _, err := f.Freeze(f.Context(), on.ID, owner); err != nil {
				f.Error(err)
			}
		}
		for i, at := range []*cardtest.Issuer{f.one, f.two} {
			a, err := at.Account(f.Context(), at.Opened()[0])
			if err != nil || a.State != card.AccountFrozen {
				f.Errorf("at issuer %d the card is %+v, %v", i, a, err)
			}
		}
	})
}

// TestTopUpIsALoadOfTheCardsOwnIssuer, whichever is preferred now.
func TestTopUpIsALoadOfTheCardsOwnIssuer(t *testing.T) {
	fleetStory(t, func(f *fleet) {
		f.preferred = []string{"two"}
		bought, err := f.reserved(1)
		if err != nil {
			f.Fatal(err)
		}
		f.made.Begin(f.T, bought)
		f.pass(10 * time.Minute)
		f.preferred = []string{"one"}
		on := f.card(bought.ID)
		topups := topup.Topups{Cards: f.Cards}
		f.made.Deliver = topups.Deliver
		claim, err := topups.Reserve(f.Context(), on.Owner, order.Offer{Item: marshal(f.T, topup.SplitOf(2500))})
		if err != nil || claim.Reservations[0].Resource != "float/card/two" || claim.Provider != "two" {
			f.Fatalf("reserved %+v, %v", claim, err)
		}
		o := order.Order{
			ID: order.NewID(time.Now()), Kind: topup.Kind, Owner: on.Owner, Price: 2500, Item: claim.Item, Delivery: 1,
			UpdatedAt: time.Now(),
		}
		f.made.Begin(f.T, o)
		f.pass(10 * time.Minute)
		if at := f.ended(o.ID); at.State != order.Delivered || f.two.Limit(on.Account) != card.Remaining+2450 {
			f.Errorf("ended as %+v, with a limit of %s", at, f.two.Limit(on.Account))
		}
	})
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fleetStory runs a test with a worker in a bubble of time of its own.
func fleetStory(t *testing.T, tell func(*fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.made.Work(t, map[job.Kind]job.Handler{card.FeeJob: f.WithdrawFee}, func() { tell(f) })
	})
}

// TestWhatAnotherIssuerSaysOfACardIsIgnored: its list, and its events.
func TestWhatAnotherIssuerSaysOfACardIsIgnored(t *testing.T) {
	f := newFleet(t)
	on := card.Card{
		ID: uuid.New(), Owner: owner, Status: card.Active, Ref: fulfilment.Ref{1}, Provider: "one", Account: "crd_1",
	}
	f.store.Put(on)
	for provider, want := range map[string]int{"one": 1, "two": 0} {
		found, err := f.store.ByNames(t.Context(), provider, []string{"crd_1"}, []fulfilment.Ref{on.Ref})
		if err != nil || len(found) != want {
			t.Errorf("%s has %d cards, %v", provider, len(found), err)
		}
	}
	changed, err := f.store.Observe(t.Context(), card.Seen{Ref: on.Ref, Status: card.Closed, Provider: "two"})
	if err != nil || len(changed) != 0 {
		t.Errorf("another issuer closed %+v, %v", changed, err)
	}
}

// TestOrderWaitsForAProcessThatKnowsItsIssuer: while one process after the other gets a new configuration, some do not
// know it yet. It is never delivered by another one, and an operator looks when nobody knows it for as long as an
// issuer may take.
func TestOrderWaitsForAProcessThatKnowsItsIssuer(t *testing.T) {
	fleetStory(t, func(f *fleet) {
		o, err := f.reserved(1)
		if err != nil {
			f.Fatal(err)
		}
		o.Item = []byte(`{"provider":"gone"}`)
		f.made.Begin(f.T, o)
		f.pass(deadline / 2)
		if got := f.ended(o.ID); got.State != order.Waiting {
			f.Errorf("before the deadline it is %+v", got)
		}
		f.pass(deadline)
		if got := f.ended(o.ID); got.State != order.Doubtful || got.Reason != "the issuer gone is not configured" {
			f.Errorf("ended as %+v", got)
		}
		if got := f.opened(); got != "0 0 0" {
			f.Errorf("opened %s", got)
		}
	})
}

// pages is a Book of so many lines, a page each.
type pages int

func (p pages) Changes(_ context.Context, after string) (card.Page, error) {
	at, _ := strconv.Atoi(after)
	if at >= int(p) {
		return card.Page{Next: after}, nil
	}
	next := strconv.Itoa(at + 1)
	line := card.Line{ID: "line" + next, Movement: &card.MovementRecord{}}
	return card.Page{Lines: []card.Line{line}, Next: next, More: at+1 < int(p)}, nil
}

func TestBooksOfAllIssuersAreReadToTheirEnds(t *testing.T) {
	read := func(b card.Books, after string) (ids []string, next string) {
		t.Helper()
		next, ended, err := card.EachLine(t.Context(), b, after, 100, func(lines []card.Line) error {
			for _, l := range lines {
				ids = append(ids, l.ID)
				if l.Provider == "" {
					t.Errorf("line %s is nobody's", l.ID)
				}
			}
			return nil
		})
		if err != nil || !ended {
			t.Fatal(ended, err)
		}
		return ids, next
	}
	ids, at := read(card.Books{{Provider: "one", Book: pages(2)}, {Provider: "two", Book: pages(1)}}, "")
	if want := []string{"one/line1", "one/line2", "two/line1"}; !slices.Equal(ids, want) {
		t.Errorf("read %v, want %v", ids, want)
	}
	// Later: only what is new, and all of a book that is added.
	ids, _ = read(card.Books{
		{Provider: "one", Book: pages(2)}, {Provider: "two", Book: pages(3)}, {Provider: "three", Book: pages(1)},
	}, at)
	if want := []string{"two/line2", "two/line3", "three/line1"}; !slices.Equal(ids, want) {
		t.Errorf("read %v, want %v", ids, want)
	}
}

// TestClosedIssuerSellsNothing: the next one sells, the closed one's cards get no top-ups, and what is paid goes on.
func TestClosedIssuerSellsNothing(t *testing.T) {
	closed := func(f *fleet, names ...string) {
		var all []order.Kind
		for _, name := range names {
			all = append(all, availability.OfProvider(name))
		}
		f.Switches = availability.NewSwitches(switches{paused: all}, time.Now)
	}
	fleetStory(t, func(f *fleet) {
		bought, err := f.reserved(1)
		if err != nil || string(bought.Item) != `{"provider":"one"}` {
			f.Fatalf("%s, %v", bought.Item, err)
		}
		claim, err := f.Reserve(f.Context(), x402.Address{8}, order.Offer{Price: card.Price})
		if err != nil || claim.Provider != "one" {
			f.Errorf("the claim is over %q, %v", claim.Provider, err)
		}
		closed(f, "one")
		next, err := f.reserved(2)
		if err != nil || string(next.Item) != `{"provider":"two"}` {
			f.Errorf("while the preferred one is closed: %s, %v", next.Item, err)
		}
		if _, err := f.Reserve(f.Context(), x402.Address{9}, order.Offer{
			Price: card.Price, Item: bought.Item,
		}); fault.Of(err) != fault.IssuePaused {
			f.Errorf("an unpaid order that names it: %v", err)
		}
		for _, r := range f.Availability().Ready(f.Context()) {
			if r.Err != nil && r.Name == "issuer" {
				f.Errorf("ready: %v", r.Err)
			}
		}
		f.made.Begin(f.T, bought)
		f.pass(10 * time.Minute)
		if at := f.ended(bought.ID); at.State != order.Delivered {
			f.Errorf("what was paid ended as %+v", at)
		}
		topups := topup.Topups{Cards: f.Cards, Switches: f.Switches}
		if err := topups.Invite(f.Context(), unpaid(bought.Owner)); fault.Of(err) != fault.TopupPaused {
			f.Errorf("a top-up of its card: %v", err)
		}
		closed(f, "two")
		if err := topups.Invite(f.Context(), unpaid(bought.Owner)); err != nil {
			f.Errorf("a top-up while another one is closed: %v", err)
		}
		closed(f, "one", "two")
		_, err = f.reserved(3)
		wantFault(f.T, err, fault.IssuePaused)
		if paused, err := f.Availability().Paused(f.Context()); err != nil || !paused {
			f.Errorf("all are closed: %t, %v", paused, err)
		}
		if paused, err := (topup.Topups{Cards: f.Cards, Switches: f.Switches}).Availability().Paused(
			f.Context()); err != nil || paused {
			f.Errorf("top-ups, while a retired one is open: %t, %v", paused, err)
		}
	})
}

// lateBooks are books that agree, and whose comparison of one provider is old.
type lateBooks struct{ provider string }

// Compared implements availability.Standings.
func (lateBooks) Compared(context.Context) (time.Time, bool, error) { return time.Now(), false, nil }

// Blocked implements availability.Standings.
func (lateBooks) Blocked(context.Context, x402.Address) (bool, error) { return false, nil }

// Read implements availability.Standings.
func (b lateBooks) Read(_ context.Context, provider string) (time.Time, error) {
	if provider == b.provider {
		return time.Now().Add(-time.Hour), nil
	}
	return time.Now(), nil
}

// TestTermsOfATopUpDependOnTheCardsOwnIssuer: what another one has or lacks does not matter.
func TestTermsOfATopUpDependOnTheCardsOwnIssuer(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(f *fleet, topups *topup.Topups)
		code   fault.Code
	}{
		"all is well":          {func(*fleet, *topup.Topups) {}, ""},
		"its float is short":   {func(f *fleet, _ *topup.Topups) { f.one.SetFloat(2449) }, fault.FloatUnavailable},
		"its float is enough":  {func(f *fleet, _ *topup.Topups) { f.one.SetFloat(2450) }, ""},
		"another one's is not": {func(f *fleet, _ *topup.Topups) { f.two.SetFloat(0) }, ""},
		"its books are old": {func(_ *fleet, topups *topup.Topups) {
			topups.Books = booksOf("one")
		}, fault.TreasuryUnreconciled},
		"another one's books are old": {func(_ *fleet, topups *topup.Topups) { topups.Books = booksOf("two") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			fleetStory(t, func(f *fleet) {
				bought, err := f.reserved(1)
				if err != nil {
					f.Fatal(err)
				}
				f.made.Begin(f.T, bought)
				f.pass(10 * time.Minute)
				topups := topup.Topups{Cards: f.Cards}
				tc.change(f, &topups)
				f.pass(time.Minute) // what is cached is read again
				wantFault(f.T, topups.Invite(f.Context(), unpaid(bought.Owner)), tc.code)
			})
		})
	}
}

func booksOf(late string) *availability.Books {
	return availability.NewBooks(availability.BooksConfig{
		Standings: lateBooks{late}, MaxAge: 30 * time.Minute, Now: time.Now,
	})
}

// TestFeeWaitsForAProcessThatKnowsItsIssuer, and then for an operator.
func TestFeeWaitsForAProcessThatKnowsItsIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		old := f.Config
		old.Providers = nil
		f.made.Work(t, map[job.Kind]job.Handler{card.FeeJob: card.New(old).WithdrawFee}, func() {
			o, err := f.reserved(1)
			if err != nil {
				t.Fatal(err)
			}
			f.made.Begin(t, o)
			f.pass(deadline / 2)
			if fee := f.fee(o.ID); fee.Status != job.Queued {
				t.Errorf("before the deadline the fee is %s", fee.Status)
			}
			f.pass(deadline)
			if fee := f.fee(o.ID); fee.Status != job.OperatorReview || len(f.one.Opened()) != 1 {
				t.Errorf("after the deadline the fee is %s", fee.Status)
			}
		})
	})
}
