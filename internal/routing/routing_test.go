package routing_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/routing"
)

var (
	data = routing.Product{
		Kind: "data", Setting: "supplier.provider", Providers: []string{"one", "two", "three"}, From: 1, To: 25_000,
		Types: []string{"country", "region"},
	}
	fixed = routing.Product{
		Kind: "fixed", Setting: "issuer.provider", Providers: []string{"acme", "other"}, From: 2500, To: 2500,
	}
	products = []routing.Product{fixed, data}
)

func parsed(t *testing.T, text string) routing.Rules {
	t.Helper()
	rules, err := routing.Parse(text)
	if err == nil {
		err = rules.Check(products)
	}
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func TestFirstRuleThatMatchesOrdersTheProviders(t *testing.T) {
	rules := parsed(t, `
		# Asia
		data country=JP,KR price<=10.00: two
		data country=JP: three, two
		data type=region price>=5.00: three; fixed: other`)
	for name, c := range map[string]struct {
		sale  routing.Sale
		of    routing.Product
		want  string
		ruled bool
	}{
		"inside the countries": {
			routing.Sale{Product: "data", Price: 1000, Countries: []string{"JP", "KR"}, Type: "region"}, data, "two one three",
			true,
		},
		"a country beyond them": {
			routing.Sale{Product: "data", Price: 499, Countries: []string{"CN", "JP"}, Type: "region"}, data, "one two three",
			false,
		},
		"beyond them, by its type": {
			routing.Sale{Product: "data", Price: 500, Countries: []string{"CN", "JP"}, Type: "region"}, data, "three one two",
			true,
		},
		"too costly for the first rule": {
			routing.Sale{Product: "data", Price: 1001, Countries: []string{"JP"}, Type: "country"}, data, "three two one", true,
		},
		"without a rule": {
			routing.Sale{Product: "data", Price: 1, Countries: []string{"FR"}, Type: "country"}, data, "one two three", false,
		},
		"another product": {routing.Sale{Product: "fixed", Price: 2500}, fixed, "other acme", true},
	} {
		got, ruled := rules.For(c.sale, c.of)
		if strings.Join(got, " ") != c.want || ruled != c.ruled {
			t.Errorf("%s: %v, %t; want %s, %t", name, got, ruled, c.want, c.ruled)
		}
	}
}

func TestRulesThatCannotBeMeantAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"data one":                    "is no rule",
		": one":                       "is no rule",
		"data:":                       "names no provider",
		"data: one,":                  "names no provider",
		"data: one, one":              "names one twice",
		"data colour=red: one":        "is no condition",
		"data country=Japan: one":     "is no country code",
		"data price<=ten: one":        "is no price",
		"data price>=0: one":          "is no price",
		"food: one":                   "food is none of fixed, data",
		"data: nobody":                "supplier.provider does not name nobody",
		"fixed: one":                  "issuer.provider does not name one",
		"fixed country=JP: acme":      "never matches",
		"fixed price>=25.01: acme":    "never matches: fixed costs 25.00 USD",
		"fixed price<=24.99: acme":    "never matches: fixed costs 25.00 USD",
		"data type=planet: one":       "never matches: the types are country and region",
		"data price>=9 price<=8: one": "never matches",
		"data price>=250.01: one":     "never matches: data costs 0.01 to 250.00 USD",
		"data: one; data country=JP: two": "rule 2, \"data country=JP: two\": never matches, " +
			"because rule 1, \"data: one\", matches first",
		"data country=JP,KR: one; data country=KR price<=5: two": "never matches, because rule 1",
		"data price<=8: one; data type=region price<=7: two":     "never matches, because rule 1",
	} {
		rules, err := routing.Parse(text)
		if err == nil {
			err = rules.Check(products)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	parsed(t, "data country=JP: one; data: two; fixed price>=25 price<=25.00: acme")
	parsed(t, "data country=JP: one; data country=JP,KR: two; data type=region: one; data price>=9: one; data price<=9: "+
		"one")
}

func TestRulesAreDescribedWithWhatTheyFallBackTo(t *testing.T) {
	rules := parsed(t, "data country=JP type=country price>=1.50 price<=20: three; fixed: other")
	want := []string{
		"fixed: other, then acme",
		"data country=JP type=country price>=1.50 price<=20.00: three, then one, then two",
		"data: the cheapest of one, two, three",
	}
	if diff := cmp.Diff(want, rules.Describe(products)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again := parsed(t, rules[0].String()+"\n"+rules[1].String())
	if diff := cmp.Diff(rules, again); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
	alone := routing.Product{Kind: "data", Providers: []string{"one"}, Types: []string{"country"}, To: money.Cents(1)}
	if got := (routing.Rules{}).Describe([]routing.Product{alone}); got[0] != "data: one" {
		t.Errorf("one provider without rules: %q", got)
	}
}
