package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// What a top-up may be, in US dollar cents.
const (
	leastTopUp = 2500
	mostTopUp  = 25_000
)

// bounds are what arguments may be, by their names; a model is told in the schema and once more when it is wrong.
var bounds = map[string]func(*jsonschema.Schema){
	"purchaseKey": func(s *jsonschema.Schema) { s.MinLength, s.MaxLength = new(1), new(maxKey) },
	"planId":      func(s *jsonschema.Schema) { s.MinLength = new(1) },
	"amountUsdCents": func(s *jsonschema.Schema) {
		s.Minimum, s.Maximum = new(float64(leastTopUp)), new(float64(mostTopUp))
	},
	"offset":      func(s *jsonschema.Schema) { s.Minimum = new(0.0) },
	"countryCode": func(s *jsonschema.Schema) { s.Pattern = "^[A-Za-z]{2}$" },
	"type":        func(s *jsonschema.Schema) { s.Enum = []any{"country", "region"} },
	"tool":        func(s *jsonschema.Schema) { s.Enum = []any{"buy_card", "top_up_card", "buy_esim"} },
}

func schema[T any]() *jsonschema.Schema {
	made, err := jsonschema.For[T](nil)
	if err != nil {
		panic(err) // a type of this package
	}
	return made
}

// argumentsOf is the schema of a tool's arguments.
func argumentsOf[In any]() *jsonschema.Schema {
	made := schema[In]()
	for name, property := range made.Properties {
		single(property)
		if bound := bounds[name]; bound != nil {
			bound(property)
		}
	}
	return made
}

// allowed says what a tool takes, for whoever called it with something else.
func allowed(arguments *jsonschema.Schema) string {
	var takes []string
	for name, p := range arguments.Properties {
		what := name + ", " + kindOf(p)
		if slices.Contains(arguments.Required, name) {
			what += ", needed"
		}
		takes = append(takes, what)
	}
	if len(takes) == 0 {
		return "This tool takes no arguments."
	}
	slices.Sort(takes)
	return "This tool takes: " + strings.Join(takes, "; ") + "."
}

func kindOf(p *jsonschema.Schema) string {
	switch {
	case len(p.Enum) > 0:
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(p.Enum), "[]"), " ", " or ")
	case p.Minimum != nil && p.Maximum != nil:
		return fmt.Sprintf("a whole number from %v to %v", *p.Minimum, *p.Maximum)
	case p.Minimum != nil:
		return fmt.Sprintf("a whole number of %v or more", *p.Minimum)
	case p.MinLength != nil && p.MaxLength != nil:
		return fmt.Sprintf("a text of %d to %d characters", *p.MinLength, *p.MaxLength)
	case p.Pattern != "":
		return "a text of two letters"
	}
	return "a text"
}

// answerOf is the schema of a tool's answer, or of a Problem, which clients hold to it, too. Models pay for each of its
// words in every conversation: it names what there is and what is always there, and leaves out what only a validator
// would use.
func answerOf[Out any]() *jsonschema.Schema {
	made := schema[Out]()
	always := made.Required
	slim(made)
	if _, buys := any(*new(Out)).(Bought); buys { // three tools would spell it
		made.Properties["order"] = &jsonschema.Schema{Type: "object", Description: "as get_order tells it"}
	}
	made.AnyOf = []*jsonschema.Schema{{Required: always}, {Required: []string{"code", "detail", "nextAction"}}}
	return made
}

func slim(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	single(s)
	s.AdditionalProperties, s.Required = nil, nil
	slim(s.Items)
	for _, property := range s.Properties {
		slim(property)
	}
}

// single takes null out of a type: what is not there is left out.
func single(s *jsonschema.Schema) {
	if len(s.Types) > 0 {
		s.Type, s.Types = s.Types[len(s.Types)-1], nil
	}
}
