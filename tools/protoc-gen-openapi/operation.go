package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// binding is google.api.HttpRule as far as this API uses it.
type binding struct {
	Get, Post, Put, Body, ResponseBody string
	AdditionalBindings                 []binding
}

func (b binding) path() string { return b.Get + b.Post + b.Put }

// route is one binding of a method, resolved.
type route struct {
	binding
	policy
	method protoreflect.MethodDescriptor
	id     string
	// template is the path with JSON names; inPath are the fields that it has.
	template string
	inPath   fieldSet
}

var variable = regexp.MustCompile(`\{[^}]*\}`)

// method adds an operation for each binding of a method. The first has the method's name, the
// others are numbered.
func (d *document) method(m protoreflect.MethodDescriptor, tag string) error {
	var first binding
	var p policy
	if err := errors.Join(d.option(m, "google.api.http", &first), d.option(m, "roamcard.v1.policy", &p)); err != nil {
		return err
	}
	if first.path() == "" {
		return nil // only an RPC
	}
	for i, b := range append([]binding{first}, first.AdditionalBindings...) {
		r := route{binding: b, policy: p, method: m, id: string(m.Name()), inPath: fieldSet{}}
		r.buys = p.Paid && b.Body != ""
		if i > 0 {
			r.id += strconv.Itoa(i + 1)
		}
		if err := r.resolve(); err != nil {
			return err
		}
		operation, err := d.operation(r, tag)
		if err != nil {
			return err
		}
		if err := d.put(r, operation); err != nil {
			return err
		}
	}
	return nil
}

// resolve finds the fields in the path.
func (r *route) resolve() (err error) {
	r.template = variable.ReplaceAllStringFunc(r.path(), func(v string) string {
		f := r.method.Input().Fields().ByName(protoreflect.Name(strings.Trim(v, "{}")))
		if f == nil {
			err = fmt.Errorf("path variable %s is no field of the request", v)
			return v
		}
		r.inPath[f.Name()] = true
		return "{" + f.JSONName() + "}"
	})
	return err
}

func (d *document) operation(r route, tag string) (object, error) {
	text := comment(r.method)
	if text == "" {
		return nil, errors.New("no comment describes it")
	}
	security, err := r.security()
	if err != nil {
		return nil, err
	}
	for _, alternative := range security {
		for scheme := range alternative {
			d.share("securitySchemes", scheme)
		}
	}
	operation := object{
		"operationId": r.id,
		"tags":        []string{tag},
		"summary":     summary(text),
		"description": text,
		"security":    security,
	}
	if r.Scope != "" {
		operation["x-required-scope"] = r.Scope
	}
	if len(r.RoleWhen) > 0 {
		var when []object
		for _, w := range r.RoleWhen {
			when = append(when, object{"field": w.Field, "equals": w.Equals, "role": role(w.Role)})
		}
		operation["x-required-role-when"] = when
	}
	if r.Paid {
		if r.Price == nil {
			return nil, errors.New("it is paid but its policy has no price")
		}
		operation["x-payment-info"] = object{"price": r.Price.show(), "protocols": []object{{"x402": object{}}}}
	}
	if sensitive(r.method.Output(), nil) {
		operation["x-sensitive-response"] = true
	}
	if parameters, err := d.parameters(r); err != nil {
		return nil, err
	} else if len(parameters) > 0 {
		operation["parameters"] = parameters
	}
	if r.Body != "" {
		if operation["requestBody"], err = d.body(r); err != nil {
			return nil, err
		}
	}
	responses := object{}
	operation["responses"] = responses
	if responses[r.policy.success()], err = d.success(r); err != nil {
		return nil, err
	}
	return operation, d.refusals(r.codes(), responses)
}

// summary is the first sentence of a text, without its full stop.
func summary(text string) string {
	first, _, _ := strings.Cut(text, ". ")
	return strings.TrimSuffix(first, ".")
}

// parameters are what travels outside the body: in the path, in headers and, without a body, in
// the query.
func (d *document) parameters(r route) ([]object, error) {
	var parameters []object
	for f := range each[protoreflect.FieldDescriptor](r.method.Input().Fields()) {
		in := "query"
		if r.inPath[f.Name()] {
			in = "path"
		} else if r.Body != "" {
			continue
		}
		schema, always, err := d.field(f, asked)
		if err != nil {
			return nil, err
		}
		parameter := object{"name": f.JSONName(), "in": in, "required": always || in == "path", "schema": schema}
		if text := schema["description"]; text != nil {
			parameter["description"] = text
			delete(schema, "description")
		}
		parameters = append(parameters, parameter)
	}
	for _, name := range r.headers() {
		parameters = append(parameters, d.share("parameters", name))
	}
	return parameters, nil
}

// body is the request body: all fields that are not in the path. An absent one counts as an empty
// object.
func (d *document) body(r route) (object, error) {
	if r.Body != "*" {
		return nil, fmt.Errorf("body %q has no translation; see \"*\"", r.Body)
	}
	ref, err := d.message(r.method.Input(), asked, r.inPath)
	if err != nil {
		return nil, err
	}
	schema := d.Components["schemas"][string(r.method.Input().Name())].(object)
	content := object{"schema": ref}
	if r.Paid && r.method.Input().Fields().ByJSONName("idempotencyKey") != nil {
		body := object{"idempotencyKey": "order-0001"}
		content["examples"] = object{
			"first": object{"summary": "The first call, without a payment: the answer is 402 with the terms", "value": body},
			"paid":  object{"summary": "The same body again, now with PAYMENT-SIGNATURE", "value": body},
		}
	}
	return object{
		"description": fmt.Sprintf("At most %d bytes.", r.bodyLimit()),
		"required":    schema["required"] != nil,
		"content":     object{"application/json": content},
	}, nil
}

// success is the answer that is no problem: the output, or the field of it that the rule selects.
func (d *document) success(r route) (schema object, err error) {
	var described protoreflect.Descriptor = r.method.Output()
	if r.ResponseBody == "" {
		schema, err = d.message(r.method.Output(), answered, nil)
	} else if f := r.method.Output().Fields().ByName(protoreflect.Name(r.ResponseBody)); f == nil {
		err = fmt.Errorf("response body %s is no field of the response", r.ResponseBody)
	} else {
		schema, _, err = d.field(f, answered)
		if described = f; f.Message() != nil {
			described = f.Message()
		}
	}
	if err != nil {
		return nil, err
	}
	headers := object{"X-Request-Id": d.share("headers", "RequestId")}
	if r.NoStore {
		headers["Cache-Control"] = d.share("headers", "NoStore")
	}
	if r.settles() {
		headers["PAYMENT-RESPONSE"] = d.share("headers", "PaymentResponse")
	}
	text := comment(described)
	if text == "" {
		text = "The answer."
	}
	return object{
		"description": text,
		"headers":     headers,
		"content":     object{"application/json": object{"schema": schema}},
	}, nil
}

// sensitive tells whether a message can hold a secret, at any depth.
func sensitive(m protoreflect.MessageDescriptor, above []protoreflect.FullName) bool {
	if slices.Contains(above, m.FullName()) {
		return false
	}
	for f := range each[protoreflect.FieldDescriptor](m.Fields()) {
		options, _ := f.Options().(*descriptorpb.FieldOptions)
		if options.GetDebugRedact() || f.Message() != nil && sensitive(f.Message(), append(above, m.FullName())) {
			return true
		}
	}
	return false
}
