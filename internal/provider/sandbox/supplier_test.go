package sandbox_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/esim/esimtest"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/provider/sandbox/scenario"
)

// supply is a running server and a client of its supplier.
func supply(t *testing.T, cfg sandbox.Config) (*bench, *sandbox.Supplier) {
	t.Helper()
	b := start(t, cfg)
	s, err := sandbox.DialSupplier(sandbox.ClientConfig{
		URL: b.url, APIKey: cfg.APIKey, HTTP: b.web.Client(), Timeout: 300 * time.Millisecond, Now: b.clock.now,
	})
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	return b, s
}

// shownEsims is what the tests read of the supplier's books.
type shownEsims struct {
	Float    int64 `json:"floatMicros"`
	Executed map[string]int
	Sent     map[string]int
}

func (b *bench) esims() shownEsims {
	b.t.Helper()
	var shown shownEsims
	b.control(http.MethodGet, "esim/books", nil, &shown)
	return shown
}

func TestSupplierPassesTheKit(t *testing.T) {
	b, s := supply(t, sandbox.Config{Dir: t.TempDir(), AllocateAfter: time.Hour})
	esimtest.Run(t, esimtest.Harness{
		Handles: b.handles("esim/", s.Traits(), func() map[string]int { return b.esims().Executed }), Supplier: s,
		Capabilities: s.Capabilities(), Use: func(p esim.Purchase, bytes int64) {
			b.control(http.MethodPost, "esim/profiles/"+p.ID, map[string]any{"status": "enabled", "usedBytes": bytes}, nil)
		},
		SellOut: func(code string) { b.control(http.MethodPost, "esim/plans/"+code, map[string]any{"units": 0}, nil) },
	})
}

func TestCatalogueIsWideAndDeterministic(t *testing.T) {
	_, s := supply(t, sandbox.Config{})
	first, err := s.Listings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	countries, regions := map[string]bool{}, map[string]bool{}
	for _, l := range first {
		if l.Type == esim.Country {
			countries[l.Countries[0]] = true
		} else {
			regions[l.Name] = true
		}
		for _, c := range l.Countries {
			if _, ok := esim.ParseCountry(c); !ok {
				t.Errorf("%s is for %q, which is no country", l.Code, c)
			}
		}
		if price, ok := esim.PriceOf(l.Cost, 2500); !ok || price > 10_000 {
			t.Errorf("%s would be sold at %s", l.Code, price)
		}
	}
	if len(first) < 150 || len(countries) < 60 || len(regions) < 8 {
		t.Errorf("%d plans in %d countries and %d regions", len(first), len(countries), len(regions))
	}
	_, other := supply(t, sandbox.Config{})
	second, err := other.Listings(t.Context())
	if err != nil || len(second) != len(first) {
		t.Fatalf("%d plans the second time, %v", len(second), err)
	}
	for i := range first {
		if first[i].Code != second[i].Code || first[i].Cost != second[i].Cost {
			t.Errorf("%+v the first time, %+v the second", first[i], second[i])
		}
	}
}

func TestSuppliersBooksSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	b, s := supply(t, sandbox.Config{Dir: dir, AllocateAfter: time.Hour})
	b.control(http.MethodPost, "esim/plans/fr-500mb-1d", map[string]any{"costMicros": 123_456, "units": 2}, nil)
	ref := fulfilmenttest.NewRef()
	ordered, err := s.Order(t.Context(), esim.Request{Ref: ref, Code: "fr-500mb-1d", MaxCost: 200_000})
	if err != nil || ordered.State != esim.PurchasePending || ordered.Cost != 123_456 {
		t.Fatalf("order = %+v, %v", ordered, err)
	}
	before := b.esims()
	b.stop()

	again, s := supply(t, sandbox.Config{Dir: dir})
	if after := again.esims(); after.Float != before.Float || after.Executed[ref.String()] != 1 {
		t.Errorf("books %+v, before the restart %+v", after, before)
	}
	if stock, err := s.Check(t.Context(), "fr-500mb-1d"); err != nil || stock.Units != 1 || stock.Cost != 123_456 {
		t.Errorf("stock %+v, %v", stock, err)
	}
	again.clock.pass(2 * time.Hour)
	got, err := s.Ordered(t.Context(), ref)
	if err != nil || got.State != esim.PurchaseReady || got.ID != ordered.ID {
		t.Errorf("reads back as %+v, %v", got, err)
	}
}

func TestScenariosOfAnESIM(t *testing.T) {
	b, s := supply(t, sandbox.Config{AllocateAfter: time.Second, SlowAfter: time.Minute})
	order := func(played string) fulfilment.Ref {
		t.Helper()
		ref := fulfilmenttest.NewRef()
		if _, err := s.Order(scenario.With(t.Context(), played),
			esim.Request{Ref: ref, Code: "jp-1024mb-7d", MaxCost: 10_000_000}); err != nil {
			t.Fatalf("%q: %v", played, err)
		}
		return ref
	}
	want := func(ref fulfilment.Ref, state esim.PurchaseState) {
		t.Helper()
		if got, err := s.Ordered(t.Context(), ref); err != nil || got.State != state {
			t.Errorf("%+v, %v; want %s", got, err, state)
		}
	}
	float := b.esims().Float
	plain, stuck, rejected, slow := order(""), order("001"), order("002"), order("005")
	b.clock.pass(2 * time.Second)
	want(plain, esim.PurchaseReady)
	want(stuck, esim.PurchasePending)
	want(rejected, esim.PurchaseRejected)
	want(slow, esim.PurchasePending)
	b.clock.pass(time.Hour)
	want(slow, esim.PurchaseReady)
	want(stuck, esim.PurchasePending)
	stock, err := s.Check(t.Context(), "jp-1024mb-7d")
	if err != nil {
		t.Fatal(err)
	}
	if paid := float - b.esims().Float; paid != 3*int64(stock.Cost) {
		t.Errorf("paid %d for three eSIMs of %d; what was rejected costs nothing", paid, stock.Cost)
	}
}

func TestSupplierRefusesWithoutMoney(t *testing.T) {
	b, s := supply(t, sandbox.Config{})
	b.control(http.MethodPost, "esim/float", map[string]any{"micros": 10}, nil)
	_, err := s.Order(t.Context(), esim.Request{Ref: fulfilmenttest.NewRef(), Code: "fr-500mb-1d", MaxCost: 10_000_000})
	if no, ok := errors.AsType[*fulfilment.Refusal](err); !ok || no.Code != fulfilment.RefusedFloat {
		t.Errorf("order = %v, want %s", err, fulfilment.RefusedFloat)
	}
}
