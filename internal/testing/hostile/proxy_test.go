package hostile_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
)

// proxy is a JSON-RPC node in front of the real one: it may run something before it forwards a call, and it may lie.
type proxy struct {
	url, target string

	mu    sync.Mutex
	traps []trap
	lies  []lie
}

// trap is what happens once, before a call of a method whose parameters hold a text is passed on.
type trap struct {
	method, text string
	do           func()
}

// lie answers some calls instead of the node, and forwards the others.
type lie func(c nodeCall, forward func() json.RawMessage) (result any, lied bool)

// nodeCall is one call as it came in.
type nodeCall struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

// newProxy makes a proxy before the world's chain.
func (w *world) newProxy() *proxy {
	w.t.Helper()
	p := &proxy{target: w.books.RPCURL}
	server := httptest.NewServer(p)
	w.t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	p.url = server.URL
	return p
}

// once sets a trap for the next call.
func (p *proxy) once(method, text string, do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traps = append(p.traps, trap{method, strings.ToLower(text), do})
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	var calls []json.RawMessage
	if json.Unmarshal(body, &calls) != nil {
		_, _ = w.Write(p.answer(body)) // whoever asked has gone
		return
	}
	answers := make([][]byte, len(calls))
	for i, c := range calls {
		answers[i] = p.answer(c)
	}
	_, _ = w.Write(slices.Concat([]byte("["), bytes.Join(answers, []byte(",")), []byte("]"))) // as well
}

func (p *proxy) answer(body []byte) []byte {
	var c nodeCall
	if json.Unmarshal(body, &c) != nil {
		panic(http.ErrAbortHandler)
	}
	p.mu.Lock()
	lies := slices.Clone(p.lies)
	// Several, of a transaction that several payments share.
	var sprung []trap
	p.traps = slices.DeleteFunc(p.traps, func(t trap) bool {
		is := t.method == c.Method && bytes.Contains(bytes.ToLower(body), []byte(t.text))
		if is {
			sprung = append(sprung, t)
		}
		return is
	})
	p.mu.Unlock()
	for _, t := range sprung {
		t.do()
	}
	for _, l := range lies {
		result, lied := l(c, func() json.RawMessage { return p.result(body) })
		if !lied {
			continue
		}
		text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.ID, "result": result})
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		return text
	}
	return p.forward(body)
}

// result is the real node's.
func (p *proxy) result(body []byte) json.RawMessage {
	var a struct{ Result json.RawMessage }
	if json.Unmarshal(p.forward(body), &a) != nil {
		panic(http.ErrAbortHandler)
	}
	return a.Result
}

func (p *proxy) forward(body []byte) []byte {
	res, err := http.Post(p.target, "application/json", bytes.NewReader(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return answer
}
