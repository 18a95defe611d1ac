package discovery

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/roamcard/roamcard/internal/x402"
)

// Product is what a list of paid routes gets of one: its resource, and how it is called.
type Product struct {
	Resource   x402.Resource
	Extensions map[string]any
}

// Products are all products, by the paths where they are bought. Only OpenAPI, BaseURL and Environment of the
// Config are used.
func Products(c Config) (map[string]Product, error) {
	s := &Site{Config: c}
	var err error
	if s.api, err = describe(c); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	extensions, err := s.challenges()
	if err != nil {
		return nil, fmt.Errorf("make the extensions: %w", err)
	}
	all := map[string]Product{}
	for _, op := range s.api.products() {
		all[op.path] = Product{
			Resource: x402.Resource{
				URL: c.BaseURL + op.path, Description: op.Summary, MimeType: asJSON, ServiceName: s.api.Info.Title,
			},
			Extensions: extensions[op.path],
		}
	}
	return all, nil
}

// Extensions are those of the challenge of a purchase, by whatever path it is asked: payment-identifier, and of the
// preview of a product, which has no key, bazaar, by which x402 crawlers read how the route is called and what it
// answers. Proxies bound headers by 4 KiB: who has a key has read that, and needs the room for what checkout adds, an
// offer and a sign-in.
func (s *Site) Extensions(path string, preview bool) map[string]any {
	if all := s.extensions[path]; preview && all != nil {
		return all
	}
	return map[string]any{x402.PaymentIdentifier: s.identifier}
}

// challenges makes the extensions of every product once, because every unpaid call has a challenge.
func (s *Site) challenges() (all map[string]object, err error) {
	if s.identifier, err = json.Marshal(x402.DeclarePaymentIdentifier()); err != nil {
		return nil, err
	}
	all = map[string]object{}
	for _, op := range s.api.products() {
		extension, err := json.Marshal(s.bazaarOf(op))
		if err != nil {
			return nil, err
		}
		all[op.path] = object{
			"bazaar": json.RawMessage(extension), x402.PaymentIdentifier: s.identifier,
		}
	}
	return all, nil
}

// bazaarOf is sent in a response header, so it is short.
func (s *Site) bazaarOf(op operation) object {
	body := s.api.plain(op.Body.Content["application/json"].Schema)
	call := object{"type": "http", "method": "POST", "bodyType": "json", "body": object{"idempotencyKey": "order-0001"}}
	answer := object{"type": "json", "example": object{"orderId": "ord_0001", "status": "settled"}}
	return object{
		"info": object{"input": call, "output": answer},
		"schema": object{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type":    "object",
			"properties": object{
				"input": object{
					"type": "object",
					"properties": object{
						"type": object{"const": "http"}, "method": object{"const": "POST"},
						"bodyType": object{"const": "json"}, "body": body,
					},
					"required": []string{"type", "method", "bodyType", "body"},
				},
				"output": object{
					"type": "object",
					"properties": object{
						"type": object{"const": "json"},
						"example": object{
							"type": "object",
							"properties": object{
								"orderId": object{"type": "string"}, "status": object{"type": "string"},
							},
							"required": []string{"orderId", "status"},
						},
					},
					"required": []string{"type"},
				},
			},
			"required": []string{"input"},
		},
	}
}

// plain is the schema of a request without references and descriptions.
func (d *description) plain(schema object) object {
	if ref, ok := schema["$ref"].(string); ok {
		schema = d.schemas[ref]
	}
	out := maps.Clone(schema)
	delete(out, "description")
	if properties, ok := out["properties"].(object); ok {
		bare := object{}
		for name, property := range properties {
			if p, ok := property.(object); ok {
				bare[name] = d.plain(p)
			}
		}
		out["properties"] = bare
	}
	return out
}
