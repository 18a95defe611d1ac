package esim_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/esim/esimtest"
	"github.com/roamcard/roamcard/internal/x402"
)

// market is a shop over two suppliers, one and two. All that two sells is costlier.
type market struct {
	*shop
	one, two *esimtest.Supplier
	now      time.Time
}

func newMarket(t *testing.T, change func(*esim.Config)) *market {
	t.Helper()
	traits := fulfilment.Traits{Deduplicates: true}
	m := &market{
		shop: newShop(t, traits), one: esimtest.NewSupplier(true, traits), two: esimtest.NewSupplier(true, traits),
		now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC),
	}
	for code, cost := range map[string]money.USDC{"fr-1": 900_000, "jp-1": 1_300_000, "eu-5": 7_000_000} {
		m.two.SetCost(code, cost)
	}
	m.made = fulfilmenttest.NewDeliveries()
	m.store = m.made.Store.Esims()
	cfg := m.Config
	cfg.Store, cfg.Log, cfg.Now = m.store, slog.New(slog.DiscardHandler), func() time.Time { return m.now }
	cfg.Providers = []esim.Provider{
		{Name: "one", Supplier: m.one, Traits: traits}, {Name: "two", Supplier: m.two, Traits: traits},
	}
	if change != nil {
		change(&cfg)
	}
	m.Esims = esim.New(cfg)
	m.made.Deliver = m.Deliver
	m.sync()
	return m
}

// later lets what is cached go stale.
func (m *market) later() { m.now = m.now.Add(10 * time.Second) }

// shownPlans are the plans of the catalogue by supplier and code, in their order.
func (m *market) shownPlans() string {
	m.Helper()
	plans, err := m.Plans(m.Context(), esim.Filter{})
	if err != nil {
		m.Fatal(err)
	}
	var all []string
	for _, p := range plans {
		all = append(all, p.Provider+"/"+p.Code)
	}
	return strings.Join(all, " ")
}

// chosen is the supplier of what is offered where no plan is named.
func (m *market) chosen() (string, error) {
	m.Helper()
	offer, err := m.offered(`{}`, nil)
	if err != nil {
		return "", err
	}
	item, err := esim.ItemOf(order.Order{Item: offer.Item})
	if err != nil {
		m.Fatal(err)
	}
	p, err := m.store.Plan(m.Context(), item.Plan)
	if err != nil {
		m.Fatal(err)
	}
	if strings.Contains(string(offer.Item)+offer.Description, p.Provider) {
		m.Errorf("the offer tells the supplier: %s, %s", offer.Item, offer.Description)
	}
	return p.Provider, nil
}

func TestCheapestPlanOfAllSuppliersThatCanSellIsChosen(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*market)
		want   string
		code   fault.Code
	}{
		"the cheapest":         {func(*market) {}, "one", ""},
		"its float is short":   {func(m *market) { m.one.SetFloat(799_999) }, "two", ""},
		"it does not answer":   {func(m *market) { m.one.Fault(esimtest.Check, fulfilmenttest.TimeoutBefore) }, "two", ""},
		"all floats are short": {func(m *market) { m.one.SetFloat(1); m.two.SetFloat(1) }, "", fault.FloatUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMarket(t, nil)
			if got, want := m.shownPlans(), "one/fr-1 two/fr-1 one/jp-1 two/jp-1 one/eu-5 two/eu-5"; got != want {
				t.Fatalf("the catalogue is %s, want %s", got, want)
			}
			tc.change(m)
			got, err := m.chosen()
			if fault.Of(err) != tc.code || got != tc.want {
				t.Errorf("%q, %v; want %q, %q", got, err, tc.want, tc.code)
			}
		})
	}
}

// TestPlansOfAStaleSupplierAreNotSold, while another one is fresh.
func TestPlansOfAStaleSupplierAreNotSold(t *testing.T) {
	m := newMarket(t, nil)
	m.now = m.now.Add(stale - time.Minute)
	m.one.Fault(esimtest.Plans, fulfilmenttest.TimeoutBefore)
	m.syncsLater()
	m.now = m.now.Add(2 * time.Minute)
	if got, want := m.shownPlans(), "two/fr-1 two/jp-1 two/eu-5"; got != want {
		t.Errorf("the catalogue is %s, want %s", got, want)
	}
	if got, err := m.chosen(); got != "two" || err != nil {
		t.Errorf("chosen %q, %v", got, err)
	}
	m.now = m.now.Add(stale)
	if _, err := m.offered(`{}`, nil); fault.Of(err) != fault.DependencyDown {
		t.Errorf("all are stale, and %v", err)
	}
}

// TestRuledPlansAreOfTheFirstSupplierThatCanSell.
func TestRuledPlansAreOfTheFirstSupplierThatCanSell(t *testing.T) {
	m := newMarket(t, func(c *esim.Config) {
		c.Route = func(p esim.Plan) [][]string {
			if slices.Equal(p.Countries, []string{"FR"}) {
				return [][]string{{"two"}, {"one"}}
			}
			return [][]string{{"one", "two"}}
		}
	})
	const ruled = "two/fr-1 one/jp-1 two/jp-1 one/eu-5 two/eu-5"
	if got := m.shownPlans(); got != ruled {
		t.Errorf("the catalogue is %s, want %s", got, ruled)
	}
	if got, err := m.chosen(); got != "two" || err != nil {
		t.Errorf("chosen %q, %v", got, err)
	}
	hidden := ""
	plans, _, err := m.store.Plans(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plans {
		if p.Provider == "one" && p.Code == "fr-1" {
			hidden = `{"planId":"` + string(p.ID) + `"}`
		}
	}
	if _, err := m.offered(hidden, nil); fault.Of(err) != fault.TermsChanged {
		t.Errorf("a plan that the rule gives to another supplier: %v", err)
	}
	m.two.Fault(esimtest.Check, fulfilmenttest.TimeoutBefore)
	m.later()
	if got, err := m.chosen(); got != "one" || err != nil {
		t.Errorf("chosen %q, %v, while the preferred one does not answer", got, err)
	}
	if _, err := m.offered(hidden, nil); err != nil {
		t.Errorf("meanwhile the other supplier's plan is refused: %v", err)
	}
	m.later()
	if got := m.shownPlans(); got != ruled {
		t.Errorf("when it answers again the catalogue is %s, want %s", got, ruled)
	}
}

// TestRetiredSupplierSellsNothingAndDelivers what it has sold.
func TestRetiredSupplierSellsNothingAndDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { retiredSupplierDelivers(newMarket(t, nil)) })
}

func retiredSupplierDelivers(m *market) {
	t := m.T
	offer, err := m.offered(`{}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	claim, err := m.Reserve(t.Context(), x402.Address{1}, offer)
	if err != nil || claim.Reservations[0].Resource != "float/esim/one" || claim.Provider != "one" {
		t.Fatalf("reserved %+v, %v", claim, err)
	}
	cfg := m.Config
	cfg.Providers = slices.Clone(cfg.Providers)
	cfg.Providers[0].Retired = true
	m.Esims = esim.New(cfg)
	if got, want := m.shownPlans(), "two/fr-1 two/jp-1 two/eu-5"; got != want {
		t.Errorf("the catalogue is %s, want %s", got, want)
	}
	o := order.Order{
		ID: order.NewID(m.now), Kind: esim.Kind, Status: order.Provisioning, Owner: x402.Address{1}, Price: offer.Price,
		Item: claim.Item, CreatedAt: m.now, UpdatedAt: m.now,
	}
	m.store.Orders().Put(o)
	m.made.Deliver = m.Deliver
	m.made.Work(t, nil, func() {
		m.made.Begin(t, o)
		for at := m.ended(o.ID); at.State == order.Waiting; at = m.ended(o.ID) {
			fulfilmenttest.Pass(time.Second)
		}
	})
	profiles, err := m.store.Profiles(t.Context(), o.ID)
	if err != nil || profiles[o.ID].Status != esim.Ready || profiles[o.ID].Provider != "one" {
		t.Errorf("delivered %+v, %v", profiles[o.ID], err)
	}
	cfg.Providers = cfg.Providers[1:]
	m.Esims = esim.New(cfg)
	if got, err := m.Deliver(t.Context(), nil, o); err != nil || got.State != order.Waiting {
		t.Errorf("at a process that does not know its supplier: %+v, %v", got, err)
	}
	o.UpdatedAt = m.now.Add(-deadline - time.Second)
	if got, err := m.Deliver(t.Context(), nil, o); err != nil || got.State != order.Doubtful ||
		got.Reason != "the supplier one is not configured" {
		t.Errorf("without its supplier: %+v, %v", got, err)
	}
}

// closed keeps the switches of closed providers. down says that they cannot be read.
type closed struct {
	names []string
	down  error
}

// Switches implements availability.SwitchStore.
func (c *closed) Switches(context.Context) (all []availability.Switch, err error) {
	if c.down != nil {
		return nil, c.down
	}
	for _, name := range c.names {
		all = append(all, availability.Switch{Product: availability.OfProvider(name), Paused: true})
	}
	return all, nil
}

// TestClosedSupplierSellsNothing: its plans are not in the catalogue, and nothing of them is claimed.
func TestClosedSupplierSellsNothing(t *testing.T) {
	for name, route := range map[string]esim.Route{
		"without rules": nil, "with rules": func(esim.Plan) [][]string { return [][]string{{"one"}, {"two"}} },
	} {
		t.Run(name, func(t *testing.T) {
			var m *market
			off := &closed{}
			m = newMarket(t, func(c *esim.Config) {
				c.Route = route
				c.Switches = availability.NewSwitches(off, func() time.Time { return m.now })
			})
			mine, err := m.offered(`{}`, nil)
			if got, _ := m.chosen(); err != nil || got != "one" {
				t.Fatalf("chosen %q, %v", got, err)
			}
			off.names = []string{"one"}
			m.later()
			if got, want := m.shownPlans(), "two/fr-1 two/jp-1 two/eu-5"; got != want {
				t.Errorf("the catalogue is %s, want %s", got, want)
			}
			if got, err := m.chosen(); got != "two" || err != nil {
				t.Errorf("chosen %q, %v", got, err)
			}
			if _, err := m.Reserve(t.Context(), x402.Address{1}, mine); fault.Of(err) != fault.EsimPaused {
				t.Errorf("a plan of the closed supplier's is claimed: %v", err)
			}
			if paused, err := m.Availability().Paused(t.Context()); err != nil || paused {
				t.Errorf("paused while one is open: %t, %v", paused, err)
			}
			off.down = fault.New(fault.DependencyDown, "The database does not answer.")
			m.later()
			if _, err := m.Plans(t.Context(), esim.Filter{}); !errors.Is(err, off.down) {
				t.Errorf("plans, while nobody knows what is closed: %v", err)
			}
			off.names, off.down = []string{"one", "two"}, nil
			m.later()
			if _, err := m.offered(`{}`, nil); fault.Of(err) != fault.EsimPaused {
				t.Errorf("all are closed: %v", err)
			}
			if paused, err := m.Availability().Paused(t.Context()); err != nil || !paused {
				t.Errorf("all are closed: %t, %v", paused, err)
			}
		})
	}
}
