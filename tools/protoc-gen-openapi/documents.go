package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// documents.json describes what is served in addition to the protos: documents for discovery, and MCP.
//
//go:embed documents.json
var documents []byte

// published is one document: a GET without parameters whose answer caches may keep.
type published struct {
	Path, OperationID, Text, MediaType string
	Schema                             object
}

// documents adds the operations of documents.json.
func (d *document) documents() error {
	var extra struct {
		Tag       object
		Documents []published
		Paths     map[string]map[string]object
		Schemas   map[string]object
	}
	if err := json.Unmarshal(documents, &extra); err != nil {
		return err
	}
	d.Tags = append(d.Tags, extra.Tag)
	for name, schema := range extra.Schemas {
		d.add("schemas", name, schema)
	}
	for _, p := range extra.Documents {
		operation, err := d.published(p, extra.Tag["name"])
		if err != nil {
			return fmt.Errorf("%s: %w", p.Path, err)
		}
		r := route{binding: binding{Get: p.Path}, id: p.OperationID, template: p.Path}
		if err := d.put(r, operation); err != nil {
			return err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(extra.Paths)) {
		for verb, operation := range extra.Paths[path] {
			if err := d.addOperation(path, verb, operation); err != nil {
				return fmt.Errorf("%s %s: %w", verb, path, err)
			}
		}
	}
	return nil
}

// published is the operation of a document.
func (d *document) published(p published, tag any) (object, error) {
	responses := object{
		"200": object{
			"description": "The document.",
			"headers": object{
				"X-Request-Id": d.share("headers", "RequestId"),
				"ETag":         d.share("headers", "ETag"),
			},
			"content": object{p.MediaType: object{"schema": p.Schema}},
		},
		"304": object{"description": "The document is the one that `If-None-Match` names."},
	}
	operation := object{
		"operationId": p.OperationID,
		"tags":        []any{tag},
		"summary":     summary(p.Text),
		"description": p.Text,
		"security":    []object{},
		"responses":   responses,
	}
	return operation, d.refusals([]string{"rate_limited", "internal"}, responses)
}

// addOperation adds an operation that is written out, with the refusals that it names.
func (d *document) addOperation(path, verb string, operation object) error {
	var codes []string
	named, _ := operation["x-problems"].([]any)
	for _, code := range named {
		codes = append(codes, fmt.Sprint(code))
	}
	delete(operation, "x-problems")
	responses, ok := operation["responses"].(object)
	if !ok {
		return fmt.Errorf("it has no responses")
	}
	if err := d.refusals(codes, responses); err != nil {
		return err
	}
	r := route{id: fmt.Sprint(operation["operationId"]), template: path}
	if verb == "post" {
		r.Post = path
	}
	return d.put(r, operation)
}
