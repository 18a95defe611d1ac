package esimgo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

const (
	perPage  = 200
	maxPages = 100
	// What is larger is no plan that anybody sells.
	maxMB   = 1 << 30
	maxDays = 3650
)

// Listings implements esim.Supplier. Left out is what the port cannot state: prices that are no whole number of
// millionths of a dollar, and bundles without a country. Nothing is counted: what is listed is in stock.
func (s *Supplier) Listings(ctx context.Context) ([]esim.Listing, error) {
	// A bundle's price has no currency of its own.
	if _, err := s.balance(ctx); err != nil {
		return nil, fmt.Errorf("read the catalogue: %w", err)
	}
	all, err := s.catalogue(ctx, "plans", nil)
	if err != nil {
		return nil, fmt.Errorf("read the catalogue: %w", err)
	}
	return all, nil
}

// catalogue reads the part of the catalogue that is selected.
func (s *Supplier) catalogue(ctx context.Context, op string, selected url.Values) ([]esim.Listing, error) {
	var all []esim.Listing
	seen := map[string]bool{}
	for page, more := 1, true; more; page++ {
		var got catalogueAnswer
		query := paged(page)
		maps.Copy(query, selected)
		err := s.call(ctx, request{
			op: op, method: http.MethodGet, path: []string{"catalogue"}, route: "/catalogue", query: query,
		}, &got)
		if err == nil && got.Bundles == nil {
			err = wire.Unclear("the list in the answer does not match the documentation")
		}
		if err == nil {
			more, err = got.after(page, len(*got.Bundles))
		}
		if err != nil {
			return nil, err
		}
		for _, b := range *got.Bundles {
			// A page moves when the catalogue changes meanwhile.
			if l, ok := b.listing(); ok && !seen[l.Code] {
				all, seen[l.Code] = append(all, l), true
			}
		}
	}
	return all, nil
}

func paged(page int) url.Values {
	return url.Values{"page": {strconv.Itoa(page)}, "perPage": {strconv.Itoa(perPage)}}
}

// pages is the part of an answer that says how long a list is.
type pages struct {
	PageCount *wire.Int `json:"pageCount"`
}

// after says whether there is a page after this one. A list that does not say how long it is ends with an empty page.
func (p pages) after(page, items int) (more bool, err error) {
	if more = items > 0; p.PageCount != nil {
		more = page < int(*p.PageCount)
	}
	if more && page >= maxPages {
		return false, wire.Unclear("the list is too long to be read whole")
	}
	return more, nil
}

type catalogueAnswer struct {
	pages
	Bundles *[]bundleAnswer `json:"bundles"`
}

type bundleAnswer struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Countries   []struct {
		ISO wire.Upper `json:"iso"`
	} `json:"countries"`
	// Roaming is where a bundle of a region works, whose only country is the region's name.
	Roaming   []json.RawMessage `json:"roamingEnabled"`
	DataMB    wire.Int          `json:"dataAmount"`
	Days      wire.Int          `json:"duration"`
	Unlimited wire.Flag         `json:"unlimited"`
	Price     wire.Text         `json:"price"`
}

func (a bundleAnswer) listing() (esim.Listing, bool) {
	price, ok := parseUSD(a.Price)
	if !ok || price <= 0 || (!bool(a.Unlimited) && (a.DataMB <= 0 || a.DataMB > maxMB)) ||
		a.Days <= 0 || a.Days > maxDays || !isBundle(a.Name) {
		return esim.Listing{}, false
	}
	l := esim.Listing{
		Code: a.Name, Name: a.Description, Type: esim.Country, DataMB: int(a.DataMB), ValidityDays: int(a.Days),
		Cost: price, InStock: true, Unlimited: bool(a.Unlimited),
	}
	if l.Unlimited {
		l.DataMB = 0 // -1, or the allowance of a day
	}
	if l.Name == "" {
		l.Name = a.Name
	}
	l.Countries, ok = a.coverage()
	if len(l.Countries) > 1 {
		l.Type = esim.Region
	}
	return l, ok
}

// coverage is the countries of a bundle; ok is false when one of them has no code. A region that stands in place of its
// countries has them where the bundle roams.
func (a bundleAnswer) coverage() (countries []string, ok bool) {
	codes := make([]string, len(a.Countries))
	for i, c := range a.Countries {
		codes[i] = string(c.ISO)
	}
	if _, country := esim.ParseCountry(strings.Join(codes, "")); len(codes) == 1 && !country {
		codes = nil
		for _, raw := range a.Roaming {
			var where struct {
				ISO wire.Upper `json:"iso"`
			}
			if json.Unmarshal(raw, &where.ISO) != nil && json.Unmarshal(raw, &where) != nil {
				return nil, false
			}
			codes = append(codes, string(where.ISO))
		}
	}
	for _, code := range codes {
		iso, known := esim.ParseCountry(code)
		if !known {
			return nil, false
		}
		countries = append(countries, iso)
	}
	return countries, len(countries) > 0
}

// isBundle refuses a name that would change a path. Names are case sensitive.
func isBundle(s string) bool { return isName(s, "_-.+ ") && s != "." && s != ".." }

// balance is the float: what the organisation has left, which must be kept in US dollars.
func (s *Supplier) balance(ctx context.Context) (money.USDC, error) {
	var got struct {
		Balance  wire.Text  `json:"balance"`
		Currency wire.Upper `json:"currency"`
	}
	err := s.call(ctx, request{
		op: "organisation", method: http.MethodGet, path: []string{"organisation"}, route: "/organisation",
	}, &got)
	if err != nil {
		return 0, fmt.Errorf("read the organisation: %w", err)
	}
	if got.Currency != currencyUSD {
		return 0, fmt.Errorf("read the organisation: %w", wire.Unclear("its currency is not USD"))
	}
	// An organisation may owe: then there is no float.
	if len(got.Balance) > 0 && got.Balance[0] == '-' {
		if _, ok := parseUSD(got.Balance[1:]); ok {
			return 0, nil
		}
	}
	balance, ok := parseUSD(got.Balance)
	if !ok {
		return 0, fmt.Errorf("read the organisation: %w", wire.Unclear("its balance is no exact amount"))
	}
	return balance, nil
}

// Probe reads what a purchase depends on and changes nothing: the key, the currency, the float, and that something is
// listed.
func (s *Supplier) Probe(ctx context.Context) (string, error) {
	balance, err := s.balance(ctx)
	if err != nil {
		return "", err
	}
	listings, err := s.Listings(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d plans, %s USD left", len(listings), balance.Dollars()), nil
}
