package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/x402"
)

// route serves one binding.
type route struct {
	binding
	server *connect.Server
	log    *slog.Logger
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
	info := rpcx.CallInfo{
		Resource: r.URL.RequestURI(), WritesProblem: true,
		Preview: len(body) == 0 && rt.body != "" && rt.policy.GetPaid() &&
			len(r.Header.Values(x402.HeaderSignature)) == 0,
	}
	call := connect.CallInfo{Protocol: "rest", PeerAddr: r.RemoteAddr}
	for name, values := range r.Header {
		if r.Method == http.MethodHead && name == x402.HeaderSignature {
			continue // who asks without wanting the answer would pay without seeing what it bought
		}
		call.RequestHeader().SetValues(name, values)
	}
	x := exchange{route: rt, request: r, body: body}
	err := rt.server.Call(rpcx.WithCallInfo(r.Context(), &info), rt.procedure, &call, &x)
	for name, values := range call.ResponseHeader().All() {
		w.Header()[name] = values
	}
	switch {
	case err == nil:
		rt.send(w, r, x.answer)
	case info.Problem() != nil:
		write(w, info.Problem())
	default:
		rt.unshown(w, r, err)
	}
}

// exchange is the stream of a unary call: a request in, a message out.
type exchange struct {
	route   *route
	request *http.Request
	body    []byte
	answer  proto.Message
}

// Receive implements connect.ServerStream.
func (x *exchange) Receive(message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a protobuf message", message)
	}
	return x.route.fill(m, x.request, x.body)
}

// SendHeaders implements connect.ServerStream. The headers are sent with the answer.
func (*exchange) SendHeaders() error { return nil }

// Send implements connect.ServerStream.
func (x *exchange) Send(message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a protobuf message", message)
	}
	x.answer = m
	return nil
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
	most := int64(rpcx.MaxBody(rt.policy))
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

// fill sets the method's message from body, path and query.
func (rt *route) fill(message proto.Message, r *http.Request, body []byte) error {
	problems, err := rt.fillBody(message, body)
	if err != nil {
		return err
	}
	m := message.ProtoReflect()
	for _, field := range rt.vars {
		value, problem, ok := rpcx.ValueFromText(field, field.JSONName(), r.PathValue(string(field.Name())))
		if !ok {
			problems = append(problems, problem)
			continue
		}
		m.Set(field, value)
	}
	if problems = append(problems, rt.fillQuery(m, r.URL.RawQuery)...); len(problems) > 0 {
		return rpcx.Malformed(problems...)
	}
	return nil
}

// fillBody sets what the body has.
func (rt *route) fillBody(message proto.Message, body []byte) ([]fault.Field, error) {
	switch {
	case rt.body == "":
		if bare := bytes.TrimSpace(body); len(bare) > 0 && !emptyObject(bare) {
			return []fault.Field{{Rule: "body.none", Message: "This operation takes no body."}}, nil
		}
		return nil, nil
	case len(body) == 0 && rt.method == http.MethodPut && rt.body == "*":
		// What replaces all there is has to say so.
		return []fault.Field{{Rule: "body.required", Message: "The body must be a JSON object; {} is an empty one."}}, nil
	case len(body) == 0:
		return nil, nil
	case rt.bodyField != nil:
		// Checked before it becomes part of an object, where `1,"other":2` would be valid, too.
		if !json.Valid(body) {
			return []fault.Field{{Rule: "json.syntax", Message: "The body must be one JSON value."}}, nil
		}
		// A JSON name is an identifier and needs no escapes.
		body = fmt.Appendf(nil, `{"%s":%s}`, rt.bodyField.JSONName(), body)
	}
	err := rpcx.UnmarshalJSON(body, message)
	if f, wrong := fault.As(err); wrong {
		return f.Fields, nil
	}
	return rt.setByPath(body), err
}

// setByPath are the members of a body that the path sets.
func (rt *route) setByPath(body []byte) (problems []fault.Field) {
	if len(rt.vars) == 0 || rt.body != "*" {
		return nil
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(body, &given); err != nil {
		return []fault.Field{{Rule: "json.syntax", Message: "The body must be one JSON object."}}
	}
	for _, field := range rt.vars {
		if _, twice := given[field.JSONName()]; twice {
			problems = append(problems, fault.Field{Path: field.JSONName(), Rule: "json.unknown",
				Message: "Is set by the path."})
		}
	}
	return problems
}

// fillQuery sets the members that the query names, by JSON name. A name that is unknown, or that the path or
// the body sets, is refused.
func (rt *route) fillQuery(m protoreflect.Message, query string) (problems []fault.Field) {
	if query == "" {
		return nil
	}
	given, err := url.ParseQuery(query)
	if err != nil {
		return []fault.Field{{Rule: "query.syntax", Message: "The query cannot be read."}}
	}
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
		for _, text := range given[name] {
			value, problem, ok := rpcx.ValueFromText(field, name, text)
			switch {
			case !ok:
				problems = append(problems, problem)
			case field.IsList():
				m.Mutable(field).List().Append(value)
			default:
				m.Set(field, value)
			}
		}
	}
	return problems
}

// maxParameterName bounds what a problem repeats of a caller's own parameter names.
const maxParameterName = 60

func emptyObject(bare []byte) bool {
	return bare[0] == '{' && bare[len(bare)-1] == '}' && len(bare) > 1 && len(bytes.TrimSpace(bare[1:len(bare)-1])) == 0
}
