package esimaccess_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/esimaccess/esimaccessfake"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

const gigabyte = 1 << 30

// spain is a package that can be sold.
func spain() esimaccessfake.Package {
	return esimaccessfake.Package{
		Code: "P1", Slug: "ES_1_7", Name: "Spain 1GB 7Days", Price: 7_001, Currency: "USD", Volume: gigabyte, DataType: 1,
		Duration: 7, DurationUnit: "DAY", Location: "ES", LocationCode: "ES", ActiveType: 1,
	}
}

func TestPackagesAreListedInOurUnits(t *testing.T) {
	listed := esim.Listing{
		Code: "P1", Name: "Spain 1GB 7Days", Type: esim.Country, Countries: []string{"ES"}, DataMB: 1024, ValidityDays: 7,
		Cost: 700_100, InStock: true,
	}
	for name, c := range map[string]struct {
		change func(*esimaccessfake.Package)
		want   func(*esim.Listing)
	}{
		"as it is":      {func(*esimaccessfake.Package) {}, func(*esim.Listing) {}},
		"first network": {func(p *esimaccessfake.Package) { p.ActiveType = 2 }, func(*esim.Listing) {}},
		"half a gigabyte": {
			func(p *esimaccessfake.Package) { p.Volume = 500 << 20 }, func(l *esim.Listing) { l.DataMB = 500 },
		},
		"no whole number of megabytes": {
			func(p *esimaccessfake.Package) { p.Volume = 107_374_182 }, func(l *esim.Listing) { l.DataMB = 102 },
		},
		"a region": {
			func(p *esimaccessfake.Package) { p.Location, p.LocationCode = "PT, ES,fr", "EU-3" },
			func(l *esim.Listing) { l.Type, l.Countries = esim.Region, []string{"ES", "FR", "PT"} },
		},
		"a region with an area that is no country": {
			func(p *esimaccessfake.Package) { p.Location, p.LocationCode = "ES,IC,US-HI", "EU-3" },
			func(l *esim.Listing) { l.Type = esim.Region },
		},
		"a region of one country": {
			func(p *esimaccessfake.Package) { p.LocationCode = "EU-1" },
			func(l *esim.Listing) { l.Type = esim.Region },
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, want := spain(), listed
			c.change(&p)
			c.want(&want)
			b := start(t, esimaccessfake.Config{Packages: []esimaccessfake.Package{p}, Balance: 12_345})
			got, err := b.Listings(t.Context())
			if diff := cmp.Diff([]esim.Listing{want}, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			stock, err := b.Check(t.Context(), "P1")
			if err != nil || stock != (esim.Stock{Cost: want.Cost, Units: esim.Plenty, Float: 1_234_500}) {
				t.Errorf("Check = %+v, %v", stock, err)
			}
		})
	}
}

// What the port has no words for is not sold: it is on no list, cannot be checked, and cannot be ordered.
func TestPackagesThatThePortCannotSayAreNotSold(t *testing.T) {
	for name, change := range map[string]func(*esimaccessfake.Package){
		"a slower day":        func(p *esimaccessfake.Package) { p.DataType = 2 },
		"a day that is cut":   func(p *esimaccessfake.Package) { p.DataType = 3 },
		"unlimited for weeks": func(p *esimaccessfake.Package) { p.DataType = 4 },
		"a new kind of data":  func(p *esimaccessfake.Package) { p.DataType = 5 },
		"begins at purchase":  func(p *esimaccessfake.Package) { p.ActiveType = 3 },
		"months":              func(p *esimaccessfake.Package) { p.DurationUnit = "MONTH" },
		"less than a MB":      func(p *esimaccessfake.Package) { p.Volume = 1024 },
		"nowhere":             func(p *esimaccessfake.Package) { p.Location, p.LocationCode = "", "" },
		"no country":          func(p *esimaccessfake.Package) { p.Location, p.LocationCode = "!GL", "GL" },
		"a top-up of a plan":  func(p *esimaccessfake.Package) { p.Code = "TOPUP_P1" },
		"another name of one": func(p *esimaccessfake.Package) { p.Code = "TOPUP_P1"; p.Location = "FR" },
	} {
		t.Run(name, func(t *testing.T) {
			p, other := spain(), spain()
			other.Code = "P2"
			change(&p)
			b := start(t, esimaccessfake.Config{Packages: []esimaccessfake.Package{p, other}})
			if got, err := b.Listings(t.Context()); err != nil || len(got) != 1 || got[0].Code != "P2" {
				t.Errorf("Listings = %+v, %v", got, err)
			}
			if _, err := b.Check(t.Context(), p.Code); !errors.Is(err, esim.ErrNoPlan) {
				t.Errorf("Check = %v, want ErrNoPlan", err)
			}
			_, err := b.Order(t.Context(), request(p.Code))
			if no := refusal(err); no == nil || no.Code != esim.RefusedPlan || b.fake.Requests()["order"] != 0 {
				t.Errorf("Order = %v after %v", err, b.fake.Requests())
			}
		})
	}
}

func TestUnlimitedPackageIsSoldForOneDay(t *testing.T) {
	p := spain()
	p.DataType, p.Duration, p.Volume, p.FairUse = 4, 1, 0, "1 Mbps above 2 GB"
	b := start(t, esimaccessfake.Config{Packages: []esimaccessfake.Package{p}})
	got, err := b.Listings(t.Context())
	if err != nil || len(got) != 1 || !got[0].Unlimited || got[0].DataMB != 0 || got[0].ValidityDays != 1 ||
		got[0].FairUse != p.FairUse {
		t.Fatalf("Listings = %+v, %v", got, err)
	}
	ref, _ := b.ordered(p.Code)
	b.fake.Settle()
	if made, err := b.Ordered(t.Context(), ref); err != nil || made.State != esim.PurchaseReady {
		t.Errorf("Ordered = %+v, %v", made, err)
	}
	if days := b.fake.Orders()[0].Days; days != 1 {
		t.Errorf("ordered for %d days", days)
	}
}

// What is not whole is left out of the list, but it is not said to be gone.
func TestPackagesThatAreNotWholeSettleNothing(t *testing.T) {
	for name, change := range map[string]func(*esimaccessfake.Package){
		"free":             func(p *esimaccessfake.Package) { p.Price = 0 },
		"a refund":         func(p *esimaccessfake.Package) { p.Price = -1 },
		"beyond any price": func(p *esimaccessfake.Package) { p.Price = 1_000_000_001 },
		"another currency": func(p *esimaccessfake.Package) { p.Currency = "EUR" },
		"no name":          func(p *esimaccessfake.Package) { p.Name = "" },
		"no days":          func(p *esimaccessfake.Package) { p.Duration = 0 },
		"negative data":    func(p *esimaccessfake.Package) { p.Volume = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			p, other := spain(), spain()
			other.Code = "P2"
			change(&p)
			b := start(t, esimaccessfake.Config{Packages: []esimaccessfake.Package{p, other}})
			if got, err := b.Listings(t.Context()); err != nil || len(got) != 1 || got[0].Code != "P2" {
				t.Errorf("Listings = %+v, %v", got, err)
			}
			_, err := b.Check(t.Context(), p.Code)
			b.handles().WantUnknown(t, err)
			if errors.Is(err, esim.ErrNoPlan) {
				t.Errorf("Check = %v", err)
			}
			_, err = b.Order(t.Context(), request(p.Code))
			b.handles().WantUnknown(t, err)
		})
	}
	for _, mode := range []vendorfake.Mode{
		vendorfake.Inexact, vendorfake.WrongUnit, vendorfake.WrongCurrency,
	} {
		b := start(t, esimaccessfake.Config{})
		b.fake.Fault("plans", mode)
		if got, err := b.Listings(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("%s: %d plans, %v", mode, len(got), err)
		}
	}
}

func TestPackageAtTwoTermsIsNoCatalogue(t *testing.T) {
	costlier := spain()
	costlier.Price++
	b := start(t, esimaccessfake.Config{Packages: []esimaccessfake.Package{spain(), spain()}})
	if got, err := b.Listings(t.Context()); err != nil || len(got) != 1 {
		t.Errorf("the same twice: %d plans, %v", len(got), err)
	}
	b = start(t, esimaccessfake.Config{Packages: []esimaccessfake.Package{spain(), costlier}})
	if got, err := b.Listings(t.Context()); err == nil || got != nil {
		t.Errorf("two prices: %d plans, %v", len(got), err)
	}
}

func TestCheckKnowsOnlyThePackageThatItAskedFor(t *testing.T) {
	b := start(t, esimaccessfake.Config{})
	b.fake.Remove(france)
	if _, err := b.Check(t.Context(), france); !errors.Is(err, esim.ErrNoPlan) {
		t.Errorf("Check of a package that is gone = %v", err)
	}
	b.fake.Fault("check", vendorfake.WrongOwner)
	if _, err := b.Check(t.Context(), "FKE001"); !errors.Is(err, esim.ErrNoPlan) {
		t.Errorf("Check of a package that another is shown for = %v", err)
	}
	b.fake.Fault("balance", vendorfake.ErrorBefore)
	_, err := b.Check(t.Context(), "FKE001")
	b.handles().WantUnknown(t, err)
	b.fake.SetBalance(-1)
	_, err = b.Check(t.Context(), "FKE001")
	b.handles().WantUnknown(t, err)
}

func TestBothFormsOfSuccessAreRead(t *testing.T) {
	b := start(t, esimaccessfake.Config{})
	for _, op := range []string{"plans", "check", "balance", "order", "ordered"} {
		b.fake.Fault(op, esimaccessfake.Documented)
	}
	if got, err := b.Listings(t.Context()); err != nil || len(got) != 15 {
		t.Errorf("%d plans, %v", len(got), err)
	}
	if _, err := b.Check(t.Context(), france); err != nil {
		t.Errorf("Check: %v", err)
	}
	ref, _ := b.ordered(france)
	b.fake.Settle()
	if got, err := b.Ordered(t.Context(), ref); err != nil || got.State != esim.PurchaseReady {
		t.Errorf("Ordered = %+v, %v", got, err)
	}
}
