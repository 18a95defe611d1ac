package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/transport/static"
)

const (
	headerVersion = "Mcp-Protocol-Version"
	// modern is the first version without initialize. For it, the SDK needs no corrections.
	modern = "2026-07-28"
)

// front checks host, origin and form of a request before the SDK gets it: one JSON-RPC request at a time. Every
// refusal is a JSON-RPC error.
type front struct {
	// host is the service's own name, self its origin.
	host, self string
	origins    []string
	descriptor *static.Body
	sdk        http.Handler
}

// The codes of JSON-RPC.
const (
	parseError     = -32700
	invalidRequest = -32600
	unknownMethod  = -32601
)

// get answers with the descriptor. A client that asks for a stream gets a 405: there is none.
func (f *front) get(w http.ResponseWriter, r *http.Request) {
	if !f.ownHost(r.Host) {
		refuse(w, http.StatusForbidden, nil, invalidRequest, "The Host is not this service's.")
		return
	}
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		w.Header().Set("Allow", "GET, HEAD, POST")
		refuse(w, http.StatusMethodNotAllowed, nil, invalidRequest, "There is no event stream; send requests by POST.")
		return
	}
	f.descriptor.ServeHTTP(w, r)
}

// post answers one JSON-RPC message.
func (f *front) post(w http.ResponseWriter, r *http.Request) {
	if !f.ownHost(r.Host) {
		refuse(w, http.StatusForbidden, nil, invalidRequest, "The Host is not this service's.")
		return
	}
	if !f.knownOrigin(r.Header.Get("Origin")) {
		refuse(w, http.StatusForbidden, nil, invalidRequest, "The Origin may not call.")
		return
	}
	if encoded(r.Header) {
		w.Header().Set("Accept-Encoding", "identity")
		refuse(w, http.StatusUnsupportedMediaType, nil, invalidRequest,
			"The body must have no Content-Encoding: send it as it is.")
		return
	}
	if !plainJSON(r.Header) {
		refuse(w, http.StatusUnsupportedMediaType, nil, invalidRequest, "The Content-Type must be application/json.")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, rpcx.MaxMessage))
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		refuse(w, http.StatusRequestEntityTooLarge, nil, invalidRequest,
			fmt.Sprintf("The body is larger than %d bytes.", rpcx.MaxMessage))
		return
	}
	if f, refused := fault.As(err); refused {
		refuse(w, f.Status, nil, invalidRequest, f.Detail)
		return
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, nil, parseError, "The body cannot be read to its end.")
		return
	}
	m, problem := parse(body)
	switch {
	case problem != nil:
		refuse(w, http.StatusBadRequest, m.id, problem.code, problem.text)
	case m.id == nil:
		// Notifications are ignored.
		w.WriteHeader(http.StatusAccepted)
	case r.Header.Get(headerVersion) < modern && !slices.Contains(legacyMethods, m.method):
		refuse(w, http.StatusOK, m.id, unknownMethod, "There is no such method.")
	default:
		f.serve(w, r, body, m)
	}
}

// legacyMethods are the methods of versions before 2026-07-28. The SDK would answer to more than we declare.
var legacyMethods = []string{"initialize", "ping", "tools/list", "tools/call"}

// serve passes a request to the SDK, with the headers that it requires.
func (f *front) serve(w http.ResponseWriter, r *http.Request, body []byte, m message) {
	if !carried.Match(m.id) {
		changed, err := withID(body, standIn)
		if err != nil || m.method == subscribes {
			refuse(w, http.StatusBadRequest, m.id, invalidRequest, "The id must be a short integer or a plain string here.")
			return
		}
		back := &restored{ResponseWriter: w, id: m.id}
		defer back.end()
		w, body = back, changed
	}
	r = r.Clone(r.Context())
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if m.method == "initialize" {
		// The version is negotiated in the body.
		r.Header.Del(headerVersion)
	}
	answer := &translator{ResponseWriter: w, id: m.id}
	f.sdk.ServeHTTP(answer, r)
	answer.end()
}

// ownHost reports whether a request names this service. Other names are DNS rebinding: a page's own name that
// resolves to this server, so that the browser's same-origin rule does not apply.
func (f *front) ownHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	return name == strings.ToLower(f.host) || name == "localhost" || name == "127.0.0.1" || name == "::1"
}

// knownOrigin reports whether an origin may call: none, which is no browser, our own, or a configured one.
func (f *front) knownOrigin(origin string) bool {
	if origin == "" || origin == f.self || slices.Contains(f.origins, origin) {
		return true
	}
	page, err := url.Parse(origin)
	return err == nil && page.Host != "" && page.Hostname() == f.host
}

// plainJSON reports whether the headers announce JSON; no Content-Type counts as JSON.
func plainJSON(h http.Header) bool {
	types := h.Values("Content-Type")
	if len(types) == 0 {
		return true
	}
	media, _, err := mime.ParseMediaType(types[0])
	return err == nil && len(types) == 1 && media == "application/json"
}

// encoded reports whether the headers announce a body in another encoding than its own.
func encoded(h http.Header) bool {
	return slices.ContainsFunc(h.Values("Content-Encoding"), func(encoding string) bool {
		return encoding != "" && !strings.EqualFold(encoding, "identity")
	})
}

// message is the part of a JSON-RPC message that front reads. id is nil for a notification.
type message struct {
	id     json.RawMessage
	method string
}

type malformed struct {
	code int
	text string
}

// parse reads a body that must be one JSON-RPC request or notification. With a problem, the message has what
// could be read.
func parse(body []byte) (message, *malformed) {
	if !json.Valid(body) {
		return message{}, &malformed{parseError, "The body is not JSON."}
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return message{}, &malformed{invalidRequest, "The body must be one JSON-RPC object."}
	}
	if repeats(body) {
		return message{}, &malformed{invalidRequest, "A member is there twice."}
	}
	var m message
	if id, ok := members["id"]; ok {
		if id[0] != '"' && id[0] != '-' && (id[0] < '0' || id[0] > '9') {
			return message{}, &malformed{invalidRequest, "The id must be a string or a number."}
		}
		m.id = id
	}
	var version string
	if json.Unmarshal(members["jsonrpc"], &version) != nil || version != "2.0" {
		return m, &malformed{invalidRequest, `The member jsonrpc must be "2.0".`}
	}
	if json.Unmarshal(members["method"], &m.method) != nil || m.method == "" {
		return m, &malformed{invalidRequest, "The method must be named."}
	}
	params, named := members["params"]
	if named && params[0] == '{' && protojson.Unmarshal(params, &structpb.Struct{}) != nil {
		return m, &malformed{invalidRequest,
			"In the params a member is there twice, a text is not Unicode, or a number is too large."}
	}
	return m, nil
}

// repeats reports whether an object has a member twice. Which of the two counts is the choice of whoever reads it: what
// is checked here and what is read then could differ.
func repeats(object []byte) bool {
	members := json.NewDecoder(bytes.NewReader(object))
	_, _ = members.Token() // the object's beginning; that it is one was seen before
	seen := map[json.Token]bool{}
	for members.More() {
		name, err := members.Token()
		var value json.RawMessage
		if err != nil || seen[name] || members.Decode(&value) != nil {
			return true
		}
		seen[name] = true
	}
	return false
}

// refuse answers with a JSON-RPC error.
func refuse(w http.ResponseWriter, status int, id json.RawMessage, code int, text string) {
	type failure struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false) // the id stays as the caller wrote it
	// Text and JSON that was parsed before always marshal.
	_ = encoder.Encode(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   failure         `json:"error"`
	}{"2.0", id, failure{code, text}})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Del("Content-Length")
	w.WriteHeader(status)
	// A failed write means that the caller has disconnected.
	_, _ = w.Write(body.Bytes())
}

// translator turns the SDK's plain-text refusals into JSON-RPC errors.
type translator struct {
	http.ResponseWriter
	id   json.RawMessage
	held int
	text bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (t *translator) WriteHeader(status int) {
	if status >= http.StatusBadRequest && strings.HasPrefix(t.Header().Get("Content-Type"), "text/plain") {
		t.held = status
		return
	}
	t.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (t *translator) Write(p []byte) (int, error) {
	if t.held != 0 {
		return t.text.Write(p)
	}
	return t.ResponseWriter.Write(p)
}

// Unwrap serves http.ResponseController.
func (t *translator) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// end answers with the refusal, if there was one.
func (t *translator) end() {
	if t.held != 0 {
		refuse(t.ResponseWriter, t.held, t.id, invalidRequest, strings.TrimSpace(t.text.String()))
	}
}
