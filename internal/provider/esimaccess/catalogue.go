package esimaccess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

const (
	// microsPerUnit is what the vendor counts money in, a ten thousandth of a dollar.
	microsPerUnit = 100
	// maxUnits is 100,000 dollars: above any price, and small enough that sums never overflow.
	maxUnits = 1_000_000_000
	// maxBalance is the largest float that is believed, a billion dollars.
	maxBalance = 10_000_000_000_000
	megabyte   = 1 << 20
	maxBytes   = 1 << 50
	maxDays    = 3650
)

// The values of a package that the port can say. A daily allowance that ends in a cut or a lower speed is no total of
// data; a plan that begins with its purchase has less than its days when it is installed.
const (
	totalData      = "1"
	unlimitedData  = "4"
	atInstallation = "1"
	atFirstNetwork = "2"
)

// Listings implements esim.Supplier. It leaves out what the port cannot say, and packages that are not whole.
func (s *Supplier) Listings(ctx context.Context) ([]esim.Listing, error) {
	packages, err := s.packages(ctx, request{
		op: "plans", most: maxCatalogue, body: map[string]string{"type": "BASE"},
	})
	if err != nil {
		return nil, fmt.Errorf("read the catalogue: %w", err)
	}
	all, at := make([]esim.Listing, 0, len(packages)), map[string]int{}
	for _, p := range packages {
		l, err := p.listing()
		if err != nil {
			continue
		}
		if n, twice := at[l.Code]; twice {
			if !sameTerms(all[n], l) {
				return nil, fmt.Errorf("read the catalogue: %w", wire.Unclear("a package is listed at two terms"))
			}
			continue
		}
		at[l.Code], all = len(all), append(all, l)
	}
	return all, nil
}

func sameTerms(a, b esim.Listing) bool {
	return a.Cost == b.Cost && a.DataMB == b.DataMB && a.Unlimited == b.Unlimited && a.ValidityDays == b.ValidityDays &&
		slices.Equal(a.Countries, b.Countries)
}

// Check implements esim.Supplier. The vendor does not count what it has of a package.
func (s *Supplier) Check(ctx context.Context, code string) (esim.Stock, error) {
	plan, err := s.plan(ctx, code)
	if err != nil {
		return esim.Stock{}, fmt.Errorf("check a plan: %w", err)
	}
	return s.stock(ctx, plan)
}

// stock is what can be had of a plan, with what is left of our money.
func (s *Supplier) stock(ctx context.Context, plan esim.Listing) (esim.Stock, error) {
	var got struct {
		Balance wire.Text `json:"balance"`
	}
	if err := s.send(ctx, request{op: "balance", path: "balance/query", body: struct{}{}}, &got); err != nil {
		return esim.Stock{}, fmt.Errorf("read the balance: %w", err)
	}
	balance, ok := got.Balance.Units(maxBalance)
	if !ok {
		return esim.Stock{}, fmt.Errorf("read the balance: %w", wire.Undocumented)
	}
	return esim.Stock{Cost: plan.Cost, Units: esim.Plenty, Float: money.USDC(balance * microsPerUnit)}, nil
}

// plan reads one package as it is listed now. esim.ErrNoPlan when it is not, or not as one that the port can say.
func (s *Supplier) plan(ctx context.Context, code string) (esim.Listing, error) {
	packages, err := s.packages(ctx, request{
		op: "check", most: maxCatalogue, body: map[string]string{"type": "BASE", "packageCode": code},
		known: func(code, _ string) error {
			if code == codeNoPackage || code == codeNoPlan {
				return esim.ErrNoPlan
			}
			return nil
		},
	})
	if err != nil {
		return esim.Listing{}, err
	}
	// The answer may hold more than was asked for.
	i := slices.IndexFunc(packages, func(p packageAnswer) bool { return p.Code == code })
	if i < 0 {
		return esim.Listing{}, esim.ErrNoPlan
	}
	l, err := packages[i].listing()
	if errors.Is(err, errUnsaid) {
		return esim.Listing{}, esim.ErrNoPlan
	}
	return l, err
}

const (
	planTries = 3
	planPause = 200 * time.Millisecond
)

// planToOrder reads a package again when there is no clear answer: an order that fails here was not sent, but nobody
// after it can tell that from one whose answer was lost.
func (s *Supplier) planToOrder(ctx context.Context, code string) (esim.Listing, error) {
	for try := 1; ; try++ {
		l, err := s.plan(ctx, code)
		if err == nil || errors.Is(err, esim.ErrNoPlan) || try == planTries || !pause(ctx, planPause) {
			return l, err
		}
	}
}

// pause is false when the context ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// packages reads a list of packages. One that cannot be read at all is empty.
func (s *Supplier) packages(ctx context.Context, rq request) ([]packageAnswer, error) {
	rq.path = "package/list"
	var got struct {
		List *[]json.RawMessage `json:"packageList"`
	}
	if err := s.send(ctx, rq, &got); err != nil {
		return nil, err
	}
	if got.List == nil {
		return nil, wire.Undocumented
	}
	all := make([]packageAnswer, len(*got.List))
	for i, raw := range *got.List {
		if wire.Decode(raw, &all[i]) != nil {
			all[i] = packageAnswer{Code: all[i].Code}
		}
	}
	return all, nil
}

type packageAnswer struct {
	Code         string     `json:"packageCode"`
	Name         string     `json:"name"`
	Price        wire.Text  `json:"price"`
	Currency     wire.Upper `json:"currencyCode"`
	Volume       wire.Text  `json:"volume"`
	DataType     wire.Text  `json:"dataType"`
	ActiveType   wire.Text  `json:"activeType"`
	Duration     wire.Text  `json:"duration"`
	DurationUnit wire.Upper `json:"durationUnit"`
	Location     wire.Upper `json:"location"`
	LocationCode wire.Upper `json:"locationCode"`
	FairUse      string     `json:"fupPolicy"`
}

// errUnsaid is a package that is as documented, but that the port has no words for.
const errUnsaid wire.Unclear = "the package cannot be sold"

// listing is a package that makes a profile, as the port says it.
func (a packageAnswer) listing() (esim.Listing, error) {
	if a.addsData() {
		return esim.Listing{}, errUnsaid
	}
	return a.stated()
}

// addsData reports whether a package is for a profile that there is.
func (a packageAnswer) addsData() bool { return strings.HasPrefix(a.Code, "TOPUP_") }

func (a packageAnswer) stated() (esim.Listing, error) {
	price, priced := a.Price.Units(maxUnits)
	volume, measured := a.Volume.Units(maxBytes)
	days, dated := a.Duration.Units(maxDays)
	if !isName(a.Code) || a.Name == "" || !priced || price == 0 || a.Currency != "USD" || !measured || !dated ||
		days == 0 || a.DataType == "" || a.ActiveType == "" {
		return esim.Listing{}, wire.Unclear("a package does not match the documentation")
	}
	countries, kind := a.coverage()
	unlimited := a.DataType == unlimitedData
	// The price of an unlimited package is that of a day, and the order says how many: one, so that its price is known.
	if (a.DataType != totalData && !(unlimited && days == 1)) ||
		(a.ActiveType != atInstallation && a.ActiveType != atFirstNetwork) ||
		a.DurationUnit != "DAY" || (volume < megabyte && !unlimited) || len(countries) == 0 {
		return esim.Listing{}, errUnsaid
	}
	l := esim.Listing{
		Code: a.Code, Name: a.Name, Type: kind, Countries: countries,
		// Rounded down: nobody is promised data that the plan does not have.
		DataMB: int(volume / megabyte), ValidityDays: int(days), Cost: money.USDC(price * microsPerUnit), InStock: true,
	}
	if unlimited {
		l.DataMB, l.Unlimited, l.FairUse = 0, true, a.FairUse
	}
	return l, nil
}

// coverage is the countries of a package that have a code of ISO 3166, and whether it is the plan of one country. The
// vendor lists the countries in location, and names a group of them in locationCode.
func (a packageAnswer) coverage() (countries []string, kind esim.Type) {
	listed := a.Location
	if listed == "" {
		listed = a.LocationCode
	}
	all := strings.Split(string(listed), ",")
	for _, one := range all {
		if country, ok := esim.ParseCountry(strings.TrimSpace(one)); ok {
			countries = append(countries, country)
		}
	}
	slices.Sort(countries)
	countries = slices.Compact(countries)
	kind = esim.Region
	if len(all) == 1 && len(countries) == 1 && (a.LocationCode == "" || string(a.LocationCode) == countries[0]) {
		kind = esim.Country
	}
	return countries, kind
}
