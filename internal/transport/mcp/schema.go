package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// openAPI is the part of an OpenAPI document from which tools are described.
type openAPI struct {
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas    map[string]map[string]any `json:"schemas"`
		Parameters map[string]parameter      `json:"parameters"`
	} `json:"components"`
}

type operation struct {
	Parameters []parameter `json:"parameters"`
	Responses  map[string]struct {
		Content map[string]struct {
			Schema map[string]any `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

type parameter struct {
	Ref         string         `json:"$ref"`
	Name        string         `json:"name"`
	In          string         `json:"in"`
	Required    bool           `json:"required"`
	Description string         `json:"description"`
	Schema      map[string]any `json:"schema"`
}

func readOpenAPI(document []byte) (*openAPI, error) {
	var api openAPI
	return &api, json.Unmarshal(document, &api)
}

// arguments are the parameters of an operation in the path and the query, which are the tool's arguments.
func (api *openAPI) arguments(op operation) []parameter {
	var all []parameter
	for _, p := range op.Parameters {
		if name, shared := strings.CutPrefix(p.Ref, "#/components/parameters/"); shared {
			p = api.Components.Parameters[name]
		}
		if p.In == "path" || p.In == "query" {
			all = append(all, p)
		}
	}
	return all
}

// inputSchema is the closed object of a tool's arguments.
func inputSchema(arguments []parameter) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, p := range arguments {
		property := maps.Clone(p.Schema)
		if p.Description != "" {
			property["description"] = p.Description
		}
		properties[p.Name] = property
		if p.Required {
			required = append(required, p.Name)
		}
	}
	schema := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

const componentSchemas = "#/components/schemas/"

// outputSchema is the schema of an operation's answer, or of one member of it, with everything it
// refers to included: a tool's schema is self-contained.
func (api *openAPI) outputSchema(op operation, member string) (map[string]any, error) {
	root := api.resolve(op.Responses["200"].Content["application/json"].Schema)
	if member != "" {
		properties, _ := root["properties"].(map[string]any)
		property, ok := properties[member].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("the answer has no member %s", member)
		}
		root = api.resolve(property)
	}
	if root["type"] != "object" {
		return nil, fmt.Errorf("the answer is no JSON object")
	}
	definitions := map[string]any{}
	schema, _ := api.detach(root, definitions).(map[string]any)
	if len(definitions) > 0 {
		schema["$defs"] = definitions
	}
	return schema, nil
}

// resolve is the schema that a $ref names, or the schema itself.
func (api *openAPI) resolve(schema map[string]any) map[string]any {
	ref, _ := schema["$ref"].(string)
	if name, ok := strings.CutPrefix(ref, componentSchemas); ok {
		return api.Components.Schemas[name]
	}
	return schema
}

// detach copies a schema with its references changed to definitions, which it fills.
func (api *openAPI) detach(v any, definitions map[string]any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			text, _ := value.(string)
			name, ok := strings.CutPrefix(text, componentSchemas)
			if key != "$ref" || !ok {
				out[key] = api.detach(value, definitions)
				continue
			}
			out[key] = "#/$defs/" + name
			if _, known := definitions[name]; !known {
				definitions[name] = nil // before its members: a schema may contain itself
				definitions[name] = api.detach(api.Components.Schemas[name], definitions)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = api.detach(value, definitions)
		}
		return out
	}
	return v
}
