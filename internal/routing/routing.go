// Package routing decides which provider sells what, where several are configured: an ordered list of rules, of which
// the first that matches says which provider to prefer. One that cannot sell now is passed over. The decision is made
// once for each order, before it is claimed, and is stored with the order; nothing asks the rules about an order again.
package routing

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
)

// Sale is what is to be sold.
type Sale struct {
	Product order.Kind
	Price   money.Cents
	// Countries are where it works, and Type its type of coverage; empty for what has none.
	Countries []string
	Type      string
}

// Rule prefers providers for some sales.
type Rule struct {
	Product order.Kind
	// Countries match what works in no other country; empty matches everything. Type matches one type of coverage.
	Countries []string
	Type      string
	// From and To bound the price, both included; zero is no bound.
	From, To money.Cents
	// Providers are preferred in this order.
	Providers []string
}

// Rules are in the order in which they are tried.
type Rules []Rule

// Product is what rules may say about one product.
type Product struct {
	Kind order.Kind
	// Setting names the setting that lists the Providers that sell it, in order of preference.
	Setting   string
	Providers []string
	// From and To are the lowest and the highest price that it is sold at.
	From, To money.Cents
	// Types are its types of coverage; none says that rules tell neither countries nor types apart.
	Types []string
}

// Parse reads rules, one in a line or several separated by semicolons:
//
//	esim country=JP,KR: esim-go
//	esim type=region price<=20.00: esim-access, esim-go
//	card_issue: stripe
//
// A line that begins with # is a comment.
func Parse(text string) (Rules, error) {
	var all Rules
	var wrong []error
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == ';' }) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		r, err := parseRule(line)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%q: %w", line, err))
			continue
		}
		all = append(all, r)
	}
	return all, errors.Join(wrong...)
}

func parseRule(line string) (r Rule, err error) {
	when, to, ok := strings.Cut(line, ":")
	words := strings.Fields(when)
	if !ok || len(words) == 0 {
		return r, errors.New("is no rule like \"PRODUCT country=JP: NAME\"")
	}
	r.Product = order.Kind(words[0])
	for _, word := range words[1:] {
		if err := r.condition(word); err != nil {
			return r, err
		}
	}
	r.Providers, err = Names(to)
	return r, err
}

// condition reads one condition.
func (r *Rule) condition(word string) error {
	switch key, value, _ := strings.Cut(word, "="); key {
	case "country":
		for code := range strings.SplitSeq(value, ",") {
			if len(code) != 2 || strings.ToUpper(code) != code {
				return fmt.Errorf("%q is no country code like JP", code)
			}
			r.Countries = append(r.Countries, code)
		}
		return nil
	case "type":
		r.Type = value
		return nil
	case "price<":
		return readPrice(&r.To, value)
	case "price>":
		return readPrice(&r.From, value)
	}
	return fmt.Errorf("%q is no condition: there are country=, type=, price>= and price<=", word)
}

func readPrice(to *money.Cents, text string) error {
	price, err := money.ParseDollars(text)
	if err != nil || price <= 0 {
		return fmt.Errorf("%q is no price in US dollars like 12.50", text)
	}
	*to = price
	return nil
}

// Names reads the names of providers, separated by commas.
func Names(text string) (all []string, err error) {
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		switch {
		case name == "":
			return all, errors.New("names no provider")
		case strings.ContainsAny(name, "/:@ "):
			return all, errors.New("a name of a provider is one word") // not quoted: it may be a URL with a password
		case slices.Contains(all, name):
			return all, fmt.Errorf("names %s twice", name)
		}
		all = append(all, name)
	}
	return all, nil
}

// Check finds the rules that cannot be meant: of a product or a provider that is not there, and those that never match.
func (all Rules) Check(products []Product) error {
	var wrong []error
	for i, r := range all {
		if err := r.check(products); err != nil {
			wrong = append(wrong, fmt.Errorf("rule %d, %q: %w", i+1, r, err))
			continue
		}
		if j := slices.IndexFunc(all[:i], r.within); j >= 0 {
			wrong = append(wrong, fmt.Errorf("rule %d, %q: never matches, because rule %d, %q, matches first",
				i+1, r, j+1, all[j]))
		}
	}
	return errors.Join(wrong...)
}

func (r Rule) check(products []Product) error {
	i := slices.IndexFunc(products, func(p Product) bool { return p.Kind == r.Product })
	if i < 0 {
		var kinds []string
		for _, p := range products {
			kinds = append(kinds, string(p.Kind))
		}
		return fmt.Errorf("%s is none of %s", r.Product, strings.Join(kinds, ", "))
	}
	p := products[i]
	for _, name := range r.Providers {
		if !slices.Contains(p.Providers, name) {
			return fmt.Errorf("%s does not name %s", p.Setting, name)
		}
	}
	switch {
	case len(p.Types) == 0 && (r.Type != "" || len(r.Countries) > 0):
		return fmt.Errorf("never matches: %s is sold without a country", p.Kind)
	case r.Type != "" && !slices.Contains(p.Types, r.Type):
		return fmt.Errorf("never matches: the types are %s", strings.Join(p.Types, " and "))
	case r.To != 0 && r.From > r.To:
		return errors.New("never matches: the lowest price is above the highest")
	case r.From > p.To || (r.To != 0 && r.To < p.From):
		return fmt.Errorf("never matches: %s costs %s", p.Kind, priceRange(p.From, p.To))
	}
	return nil
}

func priceRange(from, to money.Cents) string {
	if from == to {
		return from.String() + " USD"
	}
	return from.String() + " to " + to.String() + " USD"
}

// within reports whether an earlier rule matches all that r does.
func (r Rule) within(earlier Rule) bool {
	inside := func(country string) bool { return slices.Contains(earlier.Countries, country) }
	return earlier.Product == r.Product &&
		(earlier.Type == "" || earlier.Type == r.Type) &&
		(len(earlier.Countries) == 0 || len(r.Countries) > 0 && !slices.ContainsFunc(r.Countries, not(inside))) &&
		earlier.From <= r.From &&
		(earlier.To == 0 || r.To != 0 && r.To <= earlier.To)
}

func not(f func(string) bool) func(string) bool { return func(s string) bool { return !f(s) } }

// matches reports whether a rule is about a sale.
func (r Rule) matches(s Sale) bool {
	inside := func(country string) bool { return slices.Contains(r.Countries, country) }
	return r.Product == s.Product &&
		(r.Type == "" || r.Type == s.Type) &&
		(len(r.Countries) == 0 || len(s.Countries) > 0 && !slices.ContainsFunc(s.Countries, not(inside))) &&
		s.Price >= r.From && (r.To == 0 || s.Price <= r.To)
}

// For lists the providers of a sale in order of preference: those that the first matching rule prefers, then the others
// in the order of the product. ruled is false when no rule matches.
func (all Rules) For(s Sale, p Product) (providers []string, ruled bool) {
	i := slices.IndexFunc(all, func(r Rule) bool { return r.matches(s) })
	if i < 0 {
		return p.Providers, false
	}
	return all[i].order(p), true
}

func (r Rule) order(p Product) []string {
	providers := slices.Clone(r.Providers)
	for _, name := range p.Providers {
		if !slices.Contains(providers, name) {
			providers = append(providers, name)
		}
	}
	return providers
}

// when is the part of a rule before the colon.
func (r Rule) when() string {
	var b strings.Builder
	b.WriteString(string(r.Product))
	if len(r.Countries) > 0 {
		b.WriteString(" country=" + strings.Join(r.Countries, ","))
	}
	if r.Type != "" {
		b.WriteString(" type=" + r.Type)
	}
	if r.From != 0 {
		b.WriteString(" price>=" + r.From.String())
	}
	if r.To != 0 {
		b.WriteString(" price<=" + r.To.String())
	}
	return b.String()
}

// String is the rule as Parse reads it.
func (r Rule) String() string { return r.when() + ": " + strings.Join(r.Providers, ", ") }

// Describe is a line for each rule and for each product without a rule that matches everything, as operators read them.
func (all Rules) Describe(products []Product) (lines []string) {
	for _, p := range products {
		ruled := false
		for _, r := range all {
			if r.Product == p.Kind {
				lines = append(lines, r.when()+": "+strings.Join(r.order(p), ", then "))
				ruled = ruled || r.when() == string(p.Kind)
			}
		}
		switch {
		case ruled:
		case len(p.Types) > 0 && len(p.Providers) > 1:
			lines = append(lines, string(p.Kind)+": the cheapest of "+strings.Join(p.Providers, ", "))
		default:
			lines = append(lines, string(p.Kind)+": "+strings.Join(p.Providers, ", then "))
		}
	}
	return lines
}
