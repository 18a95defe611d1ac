package sandbox

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// planRow is a plan in the supplier's catalogue. Cost, stock and units change by the control API.
type planRow struct {
	Code      string   `json:"code"`
	Name      string   `json:"name"`
	Kind      string   `json:"kind"`
	Countries []string `json:"countries"`
	DataMB    int      `json:"dataMb"`
	Unlimited bool     `json:"unlimited,omitempty"`
	FairUse   string   `json:"fairUse,omitempty"`
	Days      int      `json:"days"`
	// Cost is in millionths of a dollar.
	Cost int64 `json:"costMicros"`
	// Units is how many are left; -1 when they are not counted.
	Units int64 `json:"units"`
	// Gone plans are not sold any more.
	Gone bool `json:"gone,omitempty"`
}

// uncounted is the units of a plan of which there are always more.
const uncounted int64 = -1

// rates are what a gigabyte costs the supplier's customers, in millionths of a dollar, with the countries
// of each: the cheap ones have dense networks and many roaming partners.
var rates = []struct {
	perGB     int64
	countries string
}{
	{
		520_000,
		"FR France|DE Germany|IT Italy|ES Spain|PT Portugal|NL Netherlands|BE Belgium|AT Austria|PL Poland|CZ Czechia|HU " +
			"Hungary|GR Greece|SE Sweden|DK Denmark|FI Finland|IE Ireland|GB United Kingdom|RO Romania|BG Bulgaria|HR " +
			"Croatia|EE Estonia|LV Latvia|LT Lithuania|SK Slovakia|SI Slovenia|TR Türkiye",
	},
	{
		780_000,
		"US United States|CA Canada|JP Japan|KR South Korea|CN China|HK Hong Kong|TW Taiwan|SG Singapore|MY Malaysia|TH " +
			"Thailand|VN Vietnam|ID Indonesia|AU Australia|NZ New Zealand|CH Switzerland|NO Norway|IL Israel|UA Ukraine|IN " +
			"India",
	},
	{
		1_650_000,
		"MX Mexico|BR Brazil|AR Argentina|CL Chile|CO Colombia|PE Peru|PH Philippines|KH Cambodia|LK Sri Lanka|AE United " +
			"Arab Emirates|SA Saudi Arabia|QA Qatar|JO Jordan|EG Egypt|MA Morocco|TN Tunisia|ZA South Africa|AL Albania|RS " +
			"Serbia|BA Bosnia and Herzegovina|ME Montenegro|GE Georgia|KZ Kazakhstan",
	},
	{
		3_900_000,
		"KE Kenya|TZ Tanzania|NG Nigeria|GH Ghana|UG Uganda|CR Costa Rica|PA Panama|DO Dominican Republic|JM Jamaica|EC " +
			"Ecuador|UY Uruguay|NP Nepal|MN Mongolia|FJ Fiji|MU Mauritius",
	},
}

// regions are the plans that work in several countries.
var regions = []struct {
	code, name string
	perGB      int64
	countries  string
}{
	{"europe", "Europe", 690_000, "FR DE IT ES PT NL BE AT PL CZ HU GR SE DK FI IE GB RO BG HR EE LV LT SK SI CH NO TR"},
	{"balkans", "Balkans", 1_150_000, "AL RS BA ME HR SI BG GR RO"},
	{"north-america", "North America", 980_000, "US CA MX"},
	{"latin-america", "Latin America", 2_300_000, "MX BR AR CL CO PE CR PA DO EC UY"},
	{"east-asia", "East Asia", 930_000, "JP KR CN HK TW"},
	{"southeast-asia", "Southeast Asia", 990_000, "SG MY TH VN ID PH KH"},
	{"middle-east", "Middle East and North Africa", 2_100_000, "AE SA QA JO EG MA TN IL TR"},
	{"africa", "Africa", 4_400_000, "KE TZ NG GH UG ZA MU EG MA"},
	{"oceania", "Oceania", 1_400_000, "AU NZ FJ"},
}

// unlimited are the plans whose data is not limited, for a week.
var unlimited = []struct {
	code, name, kind, countries string
	cost                        int64
}{
	{"fr", "France", "country", "FR", 14_500_000},
	{"us", "United States", "country", "US", 17_200_000},
	{"jp", "Japan", "country", "JP", 16_900_000},
	{"europe", "Europe", "region", "FR DE IT ES PT NL BE AT PL CZ HU GR SE DK FI IE GB", 21_400_000},
}

// fairUse is what the supplier says of them.
const fairUse = "Full speed up to 2 GB a day, then 1 Mbit/s until midnight UTC"

// bundle is a size of plan, with the part of the price by volume that is left of it, in hundredths.
type bundle struct {
	mb, days int
	percent  int64
}

var (
	countryBundles = []bundle{{500, 1, 115}, {1024, 7, 100}, {3072, 30, 92}, {10_240, 30, 78}}
	regionBundles  = []bundle{{1024, 7, 100}, {5120, 30, 90}, {20_480, 30, 75}}
)

// catalogue is what the supplier sells, the same every time.
func catalogue() []planRow {
	var all []planRow
	for _, rate := range rates {
		for entry := range strings.SplitSeq(rate.countries, "|") {
			iso, name, _ := strings.Cut(entry, " ")
			for _, b := range countryBundles {
				all = append(all, planOf(strings.ToLower(iso), name, "country", []string{iso}, rate.perGB, b))
			}
		}
	}
	for _, r := range regions {
		for _, b := range regionBundles {
			all = append(all, planOf(r.code, r.name, "region", strings.Fields(r.countries), r.perGB, b))
		}
	}
	for _, u := range unlimited {
		all = append(all, planRow{
			Code: u.code + "-unlimited-7d", Name: u.name + " unlimited, 7 days", Kind: u.kind,
			Countries: strings.Fields(u.countries), Unlimited: true, FairUse: fairUse, Days: 7, Cost: u.cost,
			Units: uncounted,
		})
	}
	slices.SortFunc(all, func(a, b planRow) int { return strings.Compare(a.Code, b.Code) })
	return all
}

// setUp is what a profile costs whatever is on it.
const setUp = 120_000

func planOf(code, name, kind string, countries []string, perGB int64, b bundle) planRow {
	size := fmt.Sprintf("%d GB", b.mb/1024)
	if b.mb < 1024 {
		size = fmt.Sprintf("%d MB", b.mb)
	}
	p := planRow{
		Code: fmt.Sprintf("%s-%dmb-%dd", code, b.mb, b.days), Name: fmt.Sprintf("%s %s, %s", name, size, days(b.days)),
		Kind: kind, Countries: countries, DataMB: b.mb, Days: b.days, Units: uncounted,
	}
	volume := perGB * int64(b.mb) / 1024 * b.percent / 100
	// Up to eight hundredths more or less, as prices are that were negotiated one by one.
	p.Cost = setUp + volume*(92+haggle(p.Code)%17)/100
	return p
}

func haggle(code string) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(code)) // never fails
	return int64(h.Sum32())
}

func days(n int) string {
	if n == 1 {
		return "1 day"
	}
	return fmt.Sprintf("%d days", n)
}
