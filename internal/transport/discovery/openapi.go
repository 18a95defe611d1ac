package discovery

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

// description is the part of the OpenAPI document from which the other documents are made.
type description struct {
	Info struct {
		Title       string `json:"title"`
		Version     string `json:"version"`
		Summary     string `json:"summary"`
		Description string `json:"description"`
	} `json:"info"`
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas map[string]object `json:"schemas"`
	} `json:"components"`
	// schemas are the components by their $ref.
	schemas map[string]object
	// document is the whole document as it is served.
	document []byte
}

// operation is one documented call.
type operation struct {
	method, path string

	ID       string                `json:"operationId"`
	Summary  string                `json:"summary"`
	Tags     []string              `json:"tags"`
	Scope    string                `json:"x-required-scope"`
	Security []map[string][]string `json:"security"`
	Payment  *struct {
		Price price `json:"price"`
	} `json:"x-payment-info"`
	Body struct {
		Content map[string]struct {
			Schema map[string]any `json:"schema"`
		} `json:"content"`
	} `json:"requestBody"`
}

// price is what an operation costs in US dollars, as in the OpenAPI document.
type price struct {
	Mode     string `json:"mode"`
	Currency string `json:"currency"`
	Amount   string `json:"amount,omitempty"`
	Min      string `json:"min,omitempty"`
	Max      string `json:"max,omitempty"`
}

// String is the price as people write it.
func (p price) String() string {
	if p.Mode == "fixed" {
		return p.Amount + " USD"
	}
	return p.Min + " to " + p.Max + " USD"
}

// most is the highest price.
func (p price) most() string { return cmp.Or(p.Max, p.Amount) }

// describe reads the generated document and adds the deployment: server, contact, links.
func describe(c Config) (*description, error) {
	var whole struct {
		OpenAPI  json.RawMessage `json:"openapi"`
		Info     map[string]any  `json:"info"`
		Service  any             `json:"x-service-info,omitempty"`
		Guidance any             `json:"x-agentcash-guidance,omitempty"`
		Docs     any             `json:"externalDocs,omitempty"`
		Servers  any             `json:"servers"`
		Tags     json.RawMessage `json:"tags"`
		Paths    json.RawMessage `json:"paths"`
		// Components come last, being the longest.
		Components json.RawMessage `json:"components"`
	}
	if err := json.Unmarshal(c.OpenAPI, &whole); err != nil {
		return nil, err
	}
	if c.Contact != "" {
		whole.Info["contact"] = map[string]string{"email": c.Contact, "url": c.BaseURL + "/docs"}
	}
	whole.Servers = []map[string]string{{
		"url": c.BaseURL, "description": "This service, environment " + c.Environment + ".",
	}}
	whole.Service = map[string]any{
		"categories": []string{"payments", "cards", "telecom"},
		"docs": map[string]string{
			"homepage": c.BaseURL + "/docs", "apiReference": c.BaseURL + "/openapi.json",
			"llms": c.BaseURL + "/llms.txt",
		},
	}
	whole.Guidance = map[string]string{"llmsTxtUrl": c.BaseURL + "/llms.txt"}
	whole.Docs = map[string]string{"url": c.BaseURL + "/docs", "description": "The same for people."}
	document, err := encode(whole)
	if err != nil {
		return nil, fmt.Errorf("write it again: %w", err)
	}
	d := &description{document: document, schemas: map[string]object{}}
	if err := json.Unmarshal(document, d); err != nil {
		return nil, err
	}
	for name, schema := range d.Components.Schemas {
		d.schemas["#/components/schemas/"+name] = schema
	}
	return d, nil
}

// operations lists what is documented, by path and method.
func (d *description) operations() []operation {
	var all []operation
	for p, verbs := range d.Paths {
		for verb, op := range verbs {
			op.method, op.path = strings.ToUpper(verb), p
			all = append(all, op)
		}
	}
	slices.SortFunc(all, func(a, b operation) int {
		return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(a.method, b.method))
	})
	return all
}

// products are the operations that sell something to anyone: paid, and not about one order.
func (d *description) products() []operation {
	return slices.DeleteFunc(d.operations(), func(op operation) bool {
		return op.Payment == nil || strings.Contains(op.path, "{")
	})
}

// contractOf is the path of the terms of a product: below its route or next to it.
func (d *description) contractOf(product operation) string {
	for _, at := range []string{product.path + "/discovery", path.Dir(product.path) + "/discovery"} {
		if _, ok := d.Paths[at]["get"]; ok {
			return at
		}
	}
	return ""
}

// access says who may call.
func (op operation) access() string {
	if op.Payment != nil {
		return "payer"
	}
	for _, way := range []struct{ scheme, access string }{
		{"operatorKey", "operator"}, {"deliveryToken", "delivery"}, {"walletSession", "session"},
	} {
		for _, alternative := range op.Security {
			if _, ok := alternative[way.scheme]; ok {
				return way.access
			}
		}
	}
	return "public"
}
