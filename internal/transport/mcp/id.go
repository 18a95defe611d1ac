package mcp

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
)

// carried are the ids that the SDK gives back byte for byte: short integers and plain strings. It reads numbers as
// float64, cuts off their fractions, and writes strings in its own escapes.
var carried = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,14}|"[ !#-%'-;=?-\[\]-~]*")$`)

// standIn is the id of a request whose own id the SDK would change.
var standIn = json.RawMessage("1")

// subscribes is the only method that is answered by a stream.
const subscribes = "subscriptions/listen"

// withID is a request, which is one JSON object, with another id.
func withID(body []byte, id json.RawMessage) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	members["id"] = id
	return json.Marshal(members)
}

// restored is an answer with the id that its caller knows.
type restored struct {
	http.ResponseWriter
	id     json.RawMessage
	status int
	body   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (r *restored) WriteHeader(status int) { r.status = status }

// Write implements http.ResponseWriter.
func (r *restored) Write(p []byte) (int, error) { return r.body.Write(p) }

// end writes the answer. What is no answer of JSON-RPC is refused by the caller's id.
func (r *restored) end() {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	var answer struct {
		JSONRPC json.RawMessage `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  json.RawMessage `json:"result,omitempty"`
		Error   json.RawMessage `json:"error,omitempty"`
	}
	if r.body.Len() > 0 && strings.HasPrefix(r.Header().Get("Content-Type"), "application/json") &&
		json.Unmarshal(r.body.Bytes(), &answer) == nil {
		answer.ID = r.id
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		if encoder.Encode(answer) == nil {
			r.body = out
		}
	}
	r.Header().Del("Content-Length")
	r.ResponseWriter.WriteHeader(r.status)
	// A failed write means that the caller has disconnected.
	_, _ = r.ResponseWriter.Write(r.body.Bytes())
}
