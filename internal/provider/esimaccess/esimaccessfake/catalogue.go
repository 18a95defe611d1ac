package esimaccessfake

import (
	"fmt"
	"slices"
	"strings"
)

// Package is a package as the vendor lists it.
type Package struct {
	Code     string `json:"packageCode"`
	Slug     string `json:"slug"`
	Name     string `json:"name"`
	Price    int64  `json:"price"` // ten thousandths of a dollar
	Currency string `json:"currencyCode"`
	Volume   int64  `json:"volume"` // bytes
	// DataType is 1 for a total, 2 and 3 for a daily allowance, 4 for no limit.
	DataType     int    `json:"dataType"`
	UnusedValid  int    `json:"unusedValidTime"`
	Duration     int    `json:"duration"`
	DurationUnit string `json:"durationUnit"`
	// Location is the countries, LocationCode one of them or the name of their group.
	Location     string `json:"location"`
	LocationCode string `json:"locationCode"`
	Description  string `json:"description"`
	// ActiveType is 1 when the plan begins at its installation, 2 at the first network.
	ActiveType int    `json:"activeType"`
	Favorite   bool   `json:"favorite"`
	Retail     int64  `json:"retailPrice"`
	Speed      string `json:"speed"`
	TopUp      int    `json:"supportTopUpType"`
	FairUse    string `json:"fupPolicy"`

	// SoldOut packages are listed, and cannot be ordered.
	SoldOut bool `json:"-"`
}

const gigabyte = 1 << 30

// Catalogue is what a new server sells: plans of countries and regions, and of every kind that is unlike them.
func Catalogue() []Package {
	var all []Package
	add := func(slug, name, location, group string, volume int64, days int, price int64) {
		all = append(all, Package{
			Code: fmt.Sprintf("FKE%03d", len(all)+1), Slug: slug, Name: name, Price: price, Currency: "USD", Volume: volume,
			DataType: 1, UnusedValid: 180, Duration: days, DurationUnit: "DAY", Location: location, LocationCode: group,
			Description: name, ActiveType: 2, Retail: 2 * price, Speed: "4G/5G", TopUp: 2,
		})
	}
	for _, c := range []struct {
		code, name string
		price      int64
	}{{"ES", "Spain", 7_000}, {"FR", "France", 7_500}, {"JP", "Japan", 9_000}, {"TH", "Thailand", 6_100}} {
		add(c.code+"_1_7", c.name+" 1GB 7Days", c.code, c.code, gigabyte, 7, c.price)
		add(c.code+"_5_30", c.name+" 5GB 30Days", c.code, c.code, 5*gigabyte, 30, 4*c.price)
		add(c.code+"_0.5_1", c.name+" 500MB 1Day", c.code, c.code, 500<<20, 1, c.price/2)
	}
	add("EU-5_5_30", "Europe (5 areas) 5GB 30Days", "ES,FR,DE,IT,PT", "EU-5", 5*gigabyte, 30, 60_000)
	add("GL-4_1_7", "Global (4 areas) 1GB 7Days", "US,JP,GB,AU", "GL-4", gigabyte, 7, 31_000)
	daily := all[0]
	daily.Code, daily.Slug, daily.Name, daily.DataType = "FKEDAY", "ES_1_Daily", "Spain 1GB/Day", 2
	cut := daily
	cut.Code, cut.Slug, cut.DataType = "FKECUT", "ES_1_DailyCut", 3
	unlimited := daily
	unlimited.Code, unlimited.Slug, unlimited.Name, unlimited.DataType = "FKEUNL", "ES_Unl", "Spain unlimited 1Day", 4
	unlimited.Duration, unlimited.FairUse, unlimited.Price = 1, "1 Mbps above 2 GB", 19_000
	return append(all, daily, cut, unlimited)
}

// Change changes a package.
func (s *Server) Change(code string, how func(*Package)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(code)
	if i < 0 {
		panic("esimaccessfake: there is no package " + code)
	}
	how(&s.packages[i])
}

// Remove takes a package off the list.
func (s *Server) Remove(code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.packages = slices.DeleteFunc(s.packages, func(p Package) bool { return p.Code == code })
}

func (s *Server) find(code string) int {
	return slices.IndexFunc(s.packages, func(p Package) bool { return p.Code == code || p.Slug == code && code != "" })
}

func (s *Server) list(body []byte) (any, error) {
	var asked struct {
		Location    string `json:"locationCode"`
		Type        string `json:"type"`
		PackageCode string `json:"packageCode"`
		Slug        string `json:"slug"`
		ICCID       string `json:"iccid"`
		DataType    string `json:"dataType"`
	}
	if err := read(body, &asked); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if asked.Type == "TOPUP" {
		return map[string]any{"packageList": s.addable(asked.ICCID)}, nil
	}
	found := []Package{}
	for _, p := range s.packages {
		if (asked.PackageCode != "" && p.Code != asked.PackageCode) || (asked.Slug != "" && p.Slug != asked.Slug) ||
			(asked.Location != "" && !strings.Contains(","+p.Location+",", ","+asked.Location+",")) ||
			(asked.DataType == "1" && p.DataType != 1) || (asked.DataType == "2" && p.DataType == 1) {
			continue
		}
		found = append(found, p)
	}
	return map[string]any{"packageList": found}, nil
}
