package rest

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// binding is one google.api.http rule of a method.
type binding struct {
	method, path string
	// body and responseBody are as in the rule: empty, a field's name, or * for all.
	body, responseBody string
	procedure          string
	policy             *roamcardv1.Policy
	input              protoreflect.MessageDescriptor
	// vars are the fields that the path sets, under their proto names.
	vars []protoreflect.FieldDescriptor
	// bodyField and answerField are nil when nothing or everything is in the body.
	bodyField, answerField protoreflect.FieldDescriptor
}

// bindingsOf reads the rules of a method. A rule that this package cannot serve is an error.
func bindingsOf(method protoreflect.MethodDescriptor) ([]binding, error) {
	rule, ok := proto.GetExtension(method.Options(), annotations.E_Http).(*annotations.HttpRule)
	if !ok || rule == nil {
		return nil, nil
	}
	if method.IsStreamingClient() || method.IsStreamingServer() {
		return nil, errors.New("streams have no REST form")
	}
	var all []binding
	for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		b, err := bind(method, r)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

func bind(method protoreflect.MethodDescriptor, rule *annotations.HttpRule) (binding, error) {
	policy, err := rpcx.PolicyOf(method)
	if err != nil {
		return binding{}, err
	}
	b := binding{
		body: rule.GetBody(), responseBody: rule.GetResponseBody(), policy: policy, input: method.Input(),
		procedure: fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name()),
	}
	switch p := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		b.method, b.path = http.MethodGet, p.Get
	case *annotations.HttpRule_Post:
		b.method, b.path = http.MethodPost, p.Post
	case *annotations.HttpRule_Put:
		b.method, b.path = http.MethodPut, p.Put
	case *annotations.HttpRule_Patch:
		b.method, b.path = http.MethodPatch, p.Patch
	case *annotations.HttpRule_Delete:
		b.method, b.path = http.MethodDelete, p.Delete
	default:
		return binding{}, fmt.Errorf("a rule of the kind %T is not served", p)
	}
	if b.vars, err = pathVars(b.path, b.input); err != nil {
		return binding{}, err
	}
	if b.bodyField, err = named(b.body, b.input); err != nil {
		return binding{}, fmt.Errorf("body: %w", err)
	}
	if b.answerField, err = named(b.responseBody, method.Output()); err != nil {
		return binding{}, fmt.Errorf("response_body: %w", err)
	}
	return b, nil
}

var (
	literalSegment  = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	variableSegment = regexp.MustCompile(`^\{([a-z][a-z0-9_]*)\}$`)
)

// pathVars finds the fields that a path template sets. Only variables that are a whole segment and name a scalar
// field are served, in the form that the mux reads, too.
func pathVars(template string, input protoreflect.MessageDescriptor) ([]protoreflect.FieldDescriptor, error) {
	rest, ok := strings.CutPrefix(template, "/")
	if !ok {
		return nil, fmt.Errorf("the path %q does not start with a slash", template)
	}
	var vars []protoreflect.FieldDescriptor
	for segment := range strings.SplitSeq(rest, "/") {
		variable := variableSegment.FindStringSubmatch(segment)
		switch {
		case variable != nil:
			field := input.Fields().ByName(protoreflect.Name(variable[1]))
			if field == nil || field.IsList() || field.Message() != nil {
				return nil, fmt.Errorf("the path %q: %s has no scalar field %s", template, input.FullName(),
					variable[1])
			}
			vars = append(vars, field)
		case !literalSegment.MatchString(segment):
			return nil, fmt.Errorf("the path %q: the segment %q is not served", template, segment)
		}
	}
	return vars, nil
}

func named(name string, message protoreflect.MessageDescriptor) (protoreflect.FieldDescriptor, error) {
	if name == "" || name == "*" {
		return nil, nil
	}
	field := message.Fields().ByName(protoreflect.Name(name))
	if field == nil {
		return nil, fmt.Errorf("%s has no field %s", message.FullName(), name)
	}
	return field, nil
}

func (b binding) isVar(field protoreflect.FieldDescriptor) bool {
	for _, v := range b.vars {
		if v == field {
			return true
		}
	}
	return false
}

// String is the binding's line in a table of routes.
func (b binding) String() string {
	return fmt.Sprintf("%-4s %s body=%s response_body=%s -> %s", b.method, b.path, dash(b.body), dash(b.responseBody),
		b.procedure)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
