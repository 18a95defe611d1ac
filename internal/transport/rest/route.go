package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/x402"
)

// defaultMaxBody bounds the body of a method whose policy does not.
const defaultMaxBody = 16 << 10

// route serves one binding.
type route struct {
	binding
	handler http.Handler
	log     *slog.Logger
}

// ServeHTTP implements http.Handler.
func (rt *route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rt.policy.GetNoStore() {
		w.Header().Set("Cache-Control", rpcx.PrivateNoStore)
	}
	body, refused := rt.read(w, r)
	if refused != nil {
		rt.refuse(w, r, refused)
		return
	}
	document, fields := rt.document(r, body)
	if len(fields) > 0 {
		rt.refuse(w, r, rpcx.Malformed(fields...))
		return
	}
	info := rpcx.CallInfo{
		Resource: r.URL.RequestURI(), WritesProblem: true,
		Preview: len(body) == 0 && rt.body != "" && rt.policy.GetPaid() &&
			len(r.Header.Values(x402.HeaderSignature)) == 0,
	}
	var answer rpcx.Answer
	rt.handler.ServeHTTP(&answer, rt.inner(r.WithContext(rpcx.WithCallInfo(r.Context(), &info)), document))
	rt.send(w, r, &answer, info.Problem())
}

// refuse answers a request that cannot become a call. When it has a payment and is over the limit, the answer is
// that it is over the limit.
func (rt *route) refuse(w http.ResponseWriter, r *http.Request, f *fault.Fault) {
	if excess, ok := fault.As(limit.Excess(r.Context())); ok {
		f = excess
	}
	Problem(w, r, f)
}

// read reads the body, up to the method's limit.
func (rt *route) read(w http.ResponseWriter, r *http.Request) ([]byte, *fault.Fault) {
	most := int64(defaultMaxBody)
	if own := rt.policy.GetMaxBodyBytes(); own > 0 {
		most = int64(own)
	}
	if r.ContentLength > most {
		return nil, tooLarge(most)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return nil, tooLarge(most)
	}
	if f, refused := fault.As(err); refused {
		return nil, f
	}
	if err != nil {
		return nil, fault.New(fault.SchemaInvalid, "The body cannot be read to its end.")
	}
	switch {
	case len(body) == 0:
	case isEncoded(r.Header):
		w.Header().Set("Accept-Encoding", "identity")
		return nil, fault.New(fault.MediaTypeUnsupported, "The body must have no Content-Encoding: send it as it is.")
	case !isPlainJSON(r.Header):
		return nil, fault.New(fault.MediaTypeUnsupported, "")
	}
	return body, nil
}

func tooLarge(limit int64) *fault.Fault {
	return fault.Newf(fault.BodyTooLarge, "The body may have %d bytes.", limit)
}

// isEncoded reports whether the headers announce a body in another encoding than its own.
func isEncoded(h http.Header) bool {
	return slices.ContainsFunc(h.Values("Content-Encoding"), func(encoding string) bool {
		return encoding != "" && !strings.EqualFold(encoding, "identity")
	})
}

// isPlainJSON reports whether the headers announce JSON in UTF-8.
func isPlainJSON(h http.Header) bool {
	types := h.Values("Content-Type")
	if len(types) != 1 {
		return false
	}
	media, params, err := mime.ParseMediaType(types[0])
	if err != nil || media != "application/json" {
		return false
	}
	for name, value := range params {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return false
		}
	}
	return true
}

// document makes the JSON form of the method's message from body, path and query.
func (rt *route) document(r *http.Request, body []byte) ([]byte, []fault.Field) {
	if rt.body == "*" && len(rt.vars) == 0 && r.URL.RawQuery == "" && len(body) > 0 {
		// The body is the whole message, and the handler checks it.
		return body, nil
	}
	members, problems := rt.bodyMembers(body)
	for _, field := range rt.vars {
		value, problem, ok := rpcx.JSONFromText(field, field.JSONName(), r.PathValue(string(field.Name())))
		if !ok {
			problems = append(problems, problem)
			continue
		}
		members = append(members, member(field, value))
	}
	fromQuery, queryProblems := rt.queryMembers(r.URL.RawQuery)
	problems = append(problems, queryProblems...)
	if len(problems) > 0 {
		return nil, problems
	}
	members = append(members, fromQuery...)
	size := 2
	for _, m := range members {
		size += len(m) + 1
	}
	document := append(make([]byte, 0, size), '{')
	for i, m := range members {
		if i > 0 {
			document = append(document, ',')
		}
		document = append(document, m...)
	}
	return append(document, '}'), nil
}

// bodyMembers are the members that the body sets, checked against the message.
func (rt *route) bodyMembers(body []byte) ([][]byte, []fault.Field) {
	switch {
	case rt.body == "":
		if bare := bytes.TrimSpace(body); len(bare) > 0 && !emptyObject(bare) {
			return nil, []fault.Field{{Rule: "body.none", Message: "This operation takes no body."}}
		}
		return nil, nil
	case len(body) == 0 && rt.method == http.MethodPut && rt.body == "*":
		// What replaces all there is has to say so.
		return nil, []fault.Field{{Rule: "body.required", Message: "The body must be a JSON object; {} is an empty one."}}
	case len(body) == 0:
		return nil, nil
	case rt.bodyField != nil:
		// Checked before it becomes part of an object, where `1,"other":2` would be valid, too.
		if !json.Valid(body) {
			return nil, []fault.Field{{Rule: "json.syntax", Message: "The body must be one JSON value."}}
		}
		m := member(rt.bodyField, body)
		return [][]byte{m}, rpcx.CheckJSON(slices.Concat([]byte{'{'}, m, []byte{'}'}), rt.input)
	}
	if problems := rpcx.CheckJSON(body, rt.input); len(problems) > 0 {
		return nil, problems
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(body, &given); err != nil {
		return nil, []fault.Field{{Rule: "json.syntax", Message: "The body must be one JSON object."}}
	}
	var problems []fault.Field
	for _, field := range rt.vars {
		if _, twice := given[field.JSONName()]; twice {
			problems = append(problems, fault.Field{Path: field.JSONName(), Rule: "json.unknown",
				Message: "Is set by the path."})
		}
	}
	object := bytes.TrimSpace(body)
	if inside := bytes.TrimSpace(object[1 : len(object)-1]); len(inside) > 0 {
		return [][]byte{inside}, problems
	}
	return nil, problems
}

// queryMembers are the members that the query sets, by JSON name. A name that is unknown, or that the path or
// the body sets, is refused.
func (rt *route) queryMembers(query string) ([][]byte, []fault.Field) {
	if query == "" {
		return nil, nil
	}
	given, err := url.ParseQuery(query)
	if err != nil {
		return nil, []fault.Field{{Rule: "query.syntax", Message: "The query cannot be read."}}
	}
	var members [][]byte
	var problems []fault.Field
	for _, name := range slices.Sorted(maps.Keys(given)) {
		field := rt.input.Fields().ByJSONName(name)
		if rt.body == "*" || field == nil || field == rt.bodyField || rt.isVar(field) || field.Message() != nil {
			problems = append(problems, fault.Field{Path: rpcx.Clip(name, maxParameterName), Rule: "query.unknown",
				Message: "There is no such query parameter."})
			continue
		}
		if !field.IsList() && len(given[name]) > 1 {
			problems = append(problems, fault.Field{Path: name, Rule: "query.duplicate",
				Message: "The parameter is given more than once."})
			continue
		}
		var values [][]byte
		for _, text := range given[name] {
			value, problem, ok := rpcx.JSONFromText(field, name, text)
			if !ok {
				problems = append(problems, problem)
				continue
			}
			values = append(values, value)
		}
		all := bytes.Join(values, []byte{','})
		if field.IsList() {
			all = slices.Concat([]byte{'['}, all, []byte{']'})
		}
		members = append(members, member(field, all))
	}
	return members, problems
}

// inner turns a shallow copy of the REST request into the Connect request.
func (rt *route) inner(r *http.Request, document []byte) *http.Request {
	r.Method = http.MethodPost
	r.URL = &url.URL{Path: rt.procedure}
	r.RequestURI = rt.procedure
	r.Body = io.NopCloser(bytes.NewReader(document))
	r.ContentLength = int64(len(document))
	r.TransferEncoding = nil
	r.Header = maps.Clone(r.Header)
	for _, name := range []string{
		"Accept-Encoding", "Connect-Protocol-Version", "Connect-Timeout-Ms", "Content-Encoding", "Content-Length",
	} {
		r.Header.Del(name)
	}
	r.Header.Set("Content-Type", "application/json")
	return r
}

func member(field protoreflect.FieldDescriptor, value []byte) []byte {
	// A JSON name is an identifier and needs no escapes.
	return slices.Concat([]byte{'"'}, []byte(field.JSONName()), []byte(`":`), value)
}

// maxParameterName bounds what a problem repeats of a caller's own parameter names.
const maxParameterName = 60

func emptyObject(bare []byte) bool {
	return bare[0] == '{' && bare[len(bare)-1] == '}' && len(bare) > 1 && len(bytes.TrimSpace(bare[1:len(bare)-1])) == 0
}
