package discovery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// operatorScheme is the security scheme of the operators' routes in the OpenAPI document.
const operatorScheme = "operatorKey"

// WithoutOperators is an OpenAPI document without the operators' routes, and without what only they use.
func WithoutOperators(document []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var whole map[string]any
	if err := decoder.Decode(&whole); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	paths, _ := whole["paths"].(map[string]any)
	tags := map[any]bool{}
	for path, item := range paths {
		operations, _ := item.(map[string]any)
		for verb, operation := range operations {
			fields, _ := operation.(map[string]any)
			if byOperators(fields) {
				delete(operations, verb)
				continue
			}
			named, _ := fields["tags"].([]any)
			for _, tag := range named {
				tags[tag] = true
			}
		}
		if len(operations) == 0 {
			delete(paths, path)
		}
	}
	if listed, ok := whole["tags"].([]any); ok {
		kept := []any{}
		for _, tag := range listed {
			if named, _ := tag.(map[string]any); tags[named["name"]] {
				kept = append(kept, tag)
			}
		}
		whole["tags"] = kept
	}
	components, _ := whole["components"].(map[string]any)
	if schemes, ok := components["securitySchemes"].(map[string]any); ok {
		delete(schemes, operatorScheme)
	}
	dropUnused(whole, components)
	return encode(whole)
}

// byOperators reports whether an operation takes an operator's token.
func byOperators(operation map[string]any) bool {
	security, _ := operation["security"].([]any)
	for _, alternative := range security {
		if schemes, _ := alternative.(map[string]any); schemes[operatorScheme] != nil {
			return true
		}
	}
	return false
}

// dropUnused deletes the components that nothing refers to any more.
func dropUnused(whole, components map[string]any) {
	used := map[string]bool{}
	var follow func(v any)
	follow = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok && !used[ref] {
				used[ref] = true
				kind, name, _ := strings.Cut(strings.TrimPrefix(ref, "#/components/"), "/")
				of, _ := components[kind].(map[string]any)
				follow(of[name])
			}
			for _, inner := range v {
				follow(inner)
			}
		case []any:
			for _, inner := range v {
				follow(inner)
			}
		}
	}
	for name, part := range whole {
		if name != "components" {
			follow(part)
		}
	}
	for kind, all := range components {
		named, _ := all.(map[string]any)
		if kind == "securitySchemes" {
			continue
		}
		for name := range named {
			if !used["#/components/"+kind+"/"+name] {
				delete(named, name)
			}
		}
	}
}
