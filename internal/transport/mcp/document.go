package mcp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/roamcard/roamcard/internal/x402"
)

// whole is the whole OpenAPI document.
type whole struct {
	OpenAPI    string                               `json:"openapi"`
	Info       map[string]any                       `json:"info"`
	Servers    any                                  `json:"servers,omitempty"`
	Paths      map[string]map[string]map[string]any `json:"paths"`
	Components map[string]map[string]any            `json:"components"`
}

var operationID = parameter{
	Name:        "operationId",
	Description: "The operation to describe, with every schema that it uses. Without it, the list of operations.",
	Schema:      map[string]any{"type": "string"},
}

// documentPart is a page of the list of operations, or the document of one of them alone.
func documentPart(args map[string]string, content []byte) (any, error) {
	var d whole
	if err := json.Unmarshal(content, &d); err != nil {
		return nil, errUnshown
	}
	info := map[string]any{"title": d.Info["title"], "version": d.Info["version"]}
	if id, given := args["operationId"]; given {
		part, err := d.only(id)
		if err != nil {
			return nil, err
		}
		part.OpenAPI, part.Info, part.Servers = d.OpenAPI, info, d.Servers
		return part, nil
	}
	list, err := json.Marshal(d.operations())
	if err != nil {
		return nil, fmt.Errorf("list the operations: %w", err)
	}
	page, err := pageOf(args, "operations", list, "operationId")
	if err == nil {
		page["openapi"], page["info"] = d.OpenAPI, info
	}
	return page, err
}

// indexed is an operation in the list.
type indexed struct {
	ID      any    `json:"operationId"`
	Method  string `json:"method"`
	Path    string `json:"path"`
	Summary any    `json:"summary"`
}

// operations are listed by path and method.
func (d whole) operations() []indexed {
	var all []indexed
	for path, verbs := range d.Paths {
		for verb, op := range verbs {
			all = append(all, indexed{op["operationId"], strings.ToUpper(verb), path, op["summary"]})
		}
	}
	slices.SortFunc(all, func(a, b indexed) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Method, b.Method))
	})
	return all
}

// only is the document of one operation: without examples, and with the codes alone of its refusals, which the
// agent contract explains. A 402 keeps its headers.
func (d whole) only(id string) (*whole, error) {
	for path, verbs := range d.Paths {
		for verb, op := range verbs {
			if op["operationId"] != id {
				continue
			}
			responses, _ := op["responses"].(map[string]any)
			for status, response := range responses {
				if r, ok := response.(map[string]any); ok && status >= "400" {
					responses[status] = d.refused(r)
				}
			}
			part := &whole{Components: map[string]map[string]any{}}
			part.Paths = map[string]map[string]map[string]any{path: {verb: withoutExamples(op)}}
			d.gather(part.Paths[path][verb], part.Components)
			alternatives, _ := op["security"].([]any)
			for _, alternative := range alternatives {
				schemes, _ := alternative.(map[string]any)
				for scheme := range schemes {
					d.use("securitySchemes/"+scheme, part.Components)
				}
			}
			return part, nil
		}
	}
	return nil, refusal("There is no such operation. Without operationId the tool lists all of them.")
}

// refused is a refusal's response: the codes that its description lists, and the headers of payment.
func (d whole) refused(response map[string]any) map[string]any {
	text, _ := response["description"].(string)
	var codes []string
	for _, code := range listedCode.FindAllStringSubmatch(text, -1) {
		codes = append(codes, code[1])
	}
	bare := map[string]any{"description": strings.Join(codes, ", ")}
	ref, _ := response["$ref"].(string)
	shared, _ := d.Components["responses"][strings.TrimPrefix(ref, "#/components/responses/")].(map[string]any)
	if headers, ok := shared["headers"].(map[string]any); ok && headers[x402.HeaderRequired] != nil {
		bare["headers"] = headers
	}
	return bare
}

// listedCode is a line of a refusal's description.
var listedCode = regexp.MustCompile("(?m)^\\* `(\\w+)`")

// gather copies what v refers to, at any depth, into used.
func (d whole) gather(v any, used map[string]map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		ref, _ := v["$ref"].(string)
		if name, ok := strings.CutPrefix(ref, "#/components/"); ok {
			d.use(name, used)
		}
		for _, member := range v {
			d.gather(member, used)
		}
	case []any:
		for _, member := range v {
			d.gather(member, used)
		}
	}
}

// use copies one component, such as schemas/Order.
func (d whole) use(ref string, used map[string]map[string]any) {
	kind, name, _ := strings.Cut(ref, "/")
	component, known := d.Components[kind][name].(map[string]any)
	if _, done := used[kind][name]; done || !known {
		return
	}
	if used[kind] == nil {
		used[kind] = map[string]any{}
	}
	used[kind][name] = nil // before its members: a schema may contain itself
	component = withoutExamples(component)
	used[kind][name] = component
	d.gather(component, used)
}

// withoutExamples copies a part of the document without its examples. A property may have the name examples.
func withoutExamples(part map[string]any) map[string]any {
	bare := make(map[string]any, len(part))
	for name, member := range part {
		if properties, ok := member.(map[string]any); ok && name == "properties" {
			all := make(map[string]any, len(properties))
			for property, schema := range properties {
				all[property] = bareOf(schema)
			}
			bare[name] = all
			continue
		}
		if name != "examples" && name != "example" {
			bare[name] = bareOf(member)
		}
	}
	return bare
}

func bareOf(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return withoutExamples(v)
	case []any:
		bare := make([]any, len(v))
		for i, member := range v {
			bare[i] = bareOf(member)
		}
		return bare
	}
	return v
}

// ofDocumentPart is the output schema of documentPart.
func ofDocumentPart() map[string]any {
	text := map[string]any{"type": "string"}
	return map[string]any{
		"type": "object", "required": []string{"openapi", "info"},
		"properties": map[string]any{
			"openapi": text,
			"info":    map[string]any{"type": "object"},
			"operations": map[string]any{
				"type": "array", "description": "Without operationId: what can be called.",
				"items": map[string]any{
					"type": "object", "required": []string{"operationId", "method", "path", "summary"},
					"properties": map[string]any{"operationId": text, "method": text, "path": text, "summary": text},
				},
			},
			"nextCursor": nextCursor,
			"servers":    map[string]any{"type": "array", "items": map[string]any{"type": "object"}},
			"paths":      map[string]any{"type": "object", "description": "With operationId: the operation."},
			"components": map[string]any{"type": "object", "description": "With operationId: what it refers to."},
		},
	}
}
