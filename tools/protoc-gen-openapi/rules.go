package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/roamcard/roamcard/tools/options"
)

// option decodes a custom option, see options.Read.
func (d *document) option(of protoreflect.Descriptor, extension string, into any) error {
	return options.Read(d.types, of, extension, into)
}

// rules are rules of buf.validate by their JSON names: those of a field, or those of one type.
type rules map[string]any

// of are the rules one level down.
func (r rules) of(name string) rules {
	inner, _ := r[name].(map[string]any)
	return inner
}

// check refuses rules of a field that are not for its type, such as those of timestamps. What CEL
// says, the field's comment has to say.
func (r rules) check(kind string) error {
	for rule := range r {
		if !slices.Contains([]string{"required", "ignore", "cel", "celExpression", kind}, rule) {
			return fmt.Errorf("the rules %s have no translation", rule)
		}
	}
	return nil
}

// keywords translate rules to JSON Schema.
var keywords = map[string]string{
	"const": "const", "in": "enum", "example": "examples", "pattern": "pattern",
	"minLen": "minLength", "maxLen": "maxLength",
	"gte": "minimum", "gt": "exclusiveMinimum", "lte": "maximum", "lt": "exclusiveMaximum",
	"minItems": "minItems", "maxItems": "maxItems", "unique": "uniqueItems",
}

// formats translate the rules that name a form of text.
var formats = map[string]string{
	"uuid": "uuid", "email": "email", "hostname": "hostname", "ipv4": "ipv4", "ipv6": "ipv6", "uri": "uri",
}

// addTo says the rules in a schema.
func (r rules) addTo(schema object) error {
	for rule, value := range r {
		if text, ok := value.(string); ok && (strings.HasPrefix(rule, "min") || strings.HasPrefix(rule, "max")) {
			value = json.Number(text) // 64-bit counts arrive as JSON strings
		}
		switch {
		case keywords[rule] != "":
			schema[keywords[rule]] = value
		case formats[rule] != "":
			schema["format"] = formats[rule]
		default:
			return fmt.Errorf("the rule %s has no translation", rule)
		}
	}
	return nil
}

// refusesAbsence tells whether a message without the field breaks the field's rules. A field
// without presence is its zero value when absent, and the rules apply to that.
func (r rules) refusesAbsence(f protoreflect.FieldDescriptor, schema object) bool {
	switch {
	case r["ignore"] == "IGNORE_ALWAYS":
		return false
	case r["required"] == true:
		return true
	case f.HasPresence() || r["ignore"] != nil:
		return false
	}
	return refusesZero(schema)
}

// refusesZero tells whether the zero value of a schema's type breaks the schema.
func refusesZero(schema object) bool {
	zero := map[any]any{"integer": json.Number("0"), "number": json.Number("0"), "boolean": false,
		"string": ""}[schema["type"]]
	limit := func(keyword string, otherwise float64) float64 {
		if n, ok := schema[keyword].(json.Number); ok {
			otherwise, _ = n.Float64()
		}
		return otherwise
	}
	values, chosen := schema["enum"].([]any)
	pattern, _ := schema["pattern"].(string)
	return schema["format"] != nil ||
		schema["const"] != nil && schema["const"] != zero ||
		chosen && !slices.Contains(values, zero) ||
		!regexp.MustCompile(pattern).MatchString("") ||
		limit("minLength", 0) > 0 || limit("minItems", 0) > 0 ||
		limit("minimum", 0) > 0 || limit("exclusiveMinimum", -1) >= 0 ||
		limit("maximum", 0) < 0 || limit("exclusiveMaximum", 1) <= 0
}
